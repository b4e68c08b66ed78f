"""The compiler and the cache of generated code."""

import os

import pytest

from train_RL_agents.utils.toolchain import cache_problem, compiler_problem, ensure_cache


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


def test_another_cache_is_used_where_it_cannot_be_written(monkeypatch, tmp_path):
    usual = str(tmp_path / "cache")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", usual)
    assert ensure_cache() == ""
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == usual
    (tmp_path / "file").touch()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "file"))
    assert "cannot be written" in ensure_cache()
    assert cache_problem() == ""
