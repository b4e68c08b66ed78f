"""The compiler and the cache of generated code."""

import getpass
import os
from pathlib import Path

import pytest

from train_RL_agents.utils.toolchain import (
    cache_folder,
    cache_problem,
    compiler_problem,
    delete_damaged_libraries,
    ensure_cache,
    move_to_cache,
)


@pytest.mark.heavy
def test_the_compiler_is_tried(monkeypatch, tmp_path):
    assert compiler_problem() == ""
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert compiler_problem().startswith("there is no C++ compiler (no-such-compiler); install one")
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho cannot find crt1.o >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    assert f"{broken} does not work (cannot find crt1.o); install" in compiler_problem()


def test_the_cache_is_written_to(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    assert cache_problem() == ""
    assert list((tmp_path / "cache").iterdir()) == []
    (tmp_path / "file").touch()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert cache_problem().startswith(f"the cache of generated code, {tmp_path}/file/cache, cannot")
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    assert cache_folder().name.startswith("torchinductor_")


@pytest.mark.parametrize(
    ("missing", "name"), [((), f"torchinductor_uid_{os.getuid()}"), (("getuid",), "torchinductor_unknown_user")]
)
def test_the_cache_has_a_name_without_an_account(monkeypatch, missing, name):
    def unknown():
        raise KeyError("uid not found")

    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.setattr(getpass, "getuser", unknown)
    for each in missing:
        monkeypatch.delattr(os, each)
    assert cache_folder().name == name


def test_another_cache_is_used_where_it_cannot_be_written(monkeypatch, tmp_path):
    usual = str(tmp_path / "cache")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", usual)
    assert ensure_cache() == ""
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == usual
    (tmp_path / "file").touch()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "file"))
    assert "cannot be written" in ensure_cache()
    assert cache_problem() == ""


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """A folder of the cache."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    (tmp_path / "ab").mkdir()
    return tmp_path / "ab"


def put(cache, name, content):
    """Put something into the cache as a compiler does."""
    (cache / "made").write_bytes(content)
    move_to_cache(cache / "made", cache / name)


def test_damaged_libraries_are_deleted_from_the_cache(cache):
    put(cache, "again.so", b"old")
    made = {"whole": b"code", "damaged": b"cude", "again": b"new", "gone": b""}
    for name, content in made.items():
        put(cache, f"{name}.so", content)
    (cache / "damaged.so").write_bytes(b"code")
    (cache / "gone.so").unlink()
    (cache / "foreign.so").write_bytes(b"code")
    assert ensure_cache() == ""
    left = {each.name: each.read_bytes() for each in cache.glob("*.so")}
    assert left == {"whole.so": b"code", "again.so": b"new", "foreign.so": b"code"}


def test_only_libraries_of_this_program_are_deleted(cache):
    put(cache, "header.gch", b"code")
    assert [each.name for each in cache.iterdir()] == ["header.gch"]
    put(cache, "library.so", b"code")
    [checksum] = cache.glob("library.so.*")
    (cache / "unread.so").write_bytes(b"other")
    (cache / "header.gch").write_bytes(b"other")
    (cache / f"header.gch{checksum.suffix}").write_text(checksum.read_text())
    (cache / f"unread.so{checksum.suffix}").write_text("")
    (cache / "data.so").write_bytes(b"data")
    (cache / "data.so.sha256").write_text("0" * 64)
    before = {each.name for each in cache.iterdir()}
    delete_damaged_libraries()
    assert {each.name for each in cache.iterdir()} == before


def test_a_library_that_is_replaced_meanwhile_is_kept(cache, monkeypatch):
    put(cache, "library.so", b"old")
    (cache / "library.so").write_bytes(b"cld")

    usual, reads = Path.read_bytes, []

    def read(path):
        content = usual(path)
        reads.append(path.name)
        if len(reads) == 1:
            put(cache, "library.so", b"new")
        return content

    monkeypatch.setattr(Path, "read_bytes", read)
    delete_damaged_libraries()
    assert reads[0] == "library.so"
    assert (cache / "library.so").read_bytes() == b"new"


def test_a_checksum_is_never_beside_another_library(cache, monkeypatch):
    put(cache, "library.so", b"old")
    replaced, seen = Path.replace, []

    def replace(path, target):
        seen.append(len(list(cache.glob("library.so.*"))))
        return replaced(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    put(cache, "library.so", b"new")
    assert seen == [0, 0]


def test_folders_that_vanish_stop_nothing(cache, monkeypatch):
    listed = os.scandir

    def scandir(path):
        if str(path).endswith("ab"):
            raise FileNotFoundError(path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    delete_damaged_libraries()
