"""Versions of the packages, and the revision of the program, as a run folder has them."""

import json
import shutil
import subprocess

import pytest

from tests.train_RL_agents.tiny_runs import new_run
from train_RL_agents.run import run_folder
from train_RL_agents.utils import provenance


def recorded(run):
    return json.loads((run.path / "versions.json").read_text())


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A git checkout with one commit, in place of the program's own."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    folder = tmp_path / "checkout"
    folder.mkdir()
    monkeypatch.setattr(provenance, "__file__", str(folder / "provenance.py"))
    monkeypatch.setattr(run_folder, "git_revision", provenance.git_revision)  # not the one of the session
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments):
        identity = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
        done = subprocess.run([git, *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    run("init")
    for name in ("provenance.py", "file.txt"):
        (folder / name).write_text("old\n")
    run("add", ".")
    run("commit", "-m", "First")
    return folder, run


def test_the_revision_and_what_differs_from_it(tmp_path, checkout):
    folder, git = checkout
    run = new_run(tmp_path / "clean")
    assert recorded(run)["git revision"] == git("rev-parse", "HEAD")
    assert (run.path / "git_diff.patch").read_text() == ""
    (folder / "file.txt").write_bytes("näher\n".encode("latin-1"))
    run = new_run(tmp_path / "changed")
    patch = (run.path / "git_diff.patch").read_text()
    assert "-old\n+n\N{REPLACEMENT CHARACTER}her\n" in patch
