"""tools/setup.sh, with a Python and a disk that are not there."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
READ = ("setup.cfg", "pyproject.toml", "setup.py", "tools/requirements.lock", "tools/setup.sh")


@pytest.mark.parametrize(("words", "free", "message"), [([], 9, "about 10 GB"), (["--cpu"], 4, "")])
def test_a_disk_that_is_too_small_is_told_before_anything_is_fetched(tmp_path, words, free, message):
    programs = tmp_path / "programs"
    for folder in (programs, tmp_path / "tools"):
        folder.mkdir()
    for name in READ:
        shutil.copy(ROOT / name, tmp_path / name)
    blocks = free * 1_000_000 + 1
    for name, lines in (("python", "exit 0"), ("df", f"echo Filesystem; echo x x x {blocks} x x")):
        (programs / name).write_text(f"#!/bin/sh\n{lines}\n")
        (programs / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
    environment["PYTHON"] = str(programs / "python")
    for name in ("python", "pip"):  # what a call that was stopped has left
        (tmp_path / ".venv/bin").mkdir(parents=True, exist_ok=True)
        (tmp_path / ".venv/bin" / name).write_text("#!/bin/sh\nexit 1\n")
    done = subprocess.run(
        ["bash", "tools/setup.sh", *words], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert not (tmp_path / ".venv").exists()  # so that the next call looks again
    assert ("of free disk" in done.stderr) == bool(message)
    assert message in done.stderr
    assert ("installing" in done.stdout) == (not message)


def test_an_option_that_does_not_exist_is_told():
    done = subprocess.run(["bash", "tools/setup.sh", "--gpu"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, "there is no option --gpu" in done.stderr) == (2, True)
