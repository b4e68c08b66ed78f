"""Files from elsewhere are opened only if that can neither block nor fill memory."""

import os
from pathlib import Path

import pytest

from marinenav_env import ConfigError
from marinenav_env.support import files
from tests.refusals import refusal


def refused(path, largest=100):
    return refusal(files.open_regular, path, "a test file", largest)


def test_a_regular_file_is_read(tmp_path):
    path = tmp_path / "some.json"
    path.write_text('{"a": [1, 2]}')
    with files.open_regular(path, "a test file", 100) as file:
        assert file.read() == path.read_bytes()
    assert files.read_json(path, "a test file") == {"a": [1, 2]}


def test_what_could_block_or_is_too_large_is_refused(tmp_path):
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    large.write_bytes(b"x" * 101)
    start = f"{tmp_path}/{{}}: cannot be read as a test file ({{}})"
    assert refused(pipe) == start.format("pipe", "not a regular file")
    assert refused(large) == start.format("large", "it has more than 100 bytes")
    assert refused(tmp_path / "gone") == start.format("gone", "No such file or directory")
    assert "null" in refused("a\0b")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_editors_of_windows_mark_their_encoding(tmp_path, encoding):
    path = tmp_path / "some.json"
    path.write_bytes('{"name": "Trøndelag"}\r\n'.encode(encoding))
    assert files.read_json(path, "a test file") == {"name": "Trøndelag"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff", "it is no text in UTF-8"),
        (b"", "it is empty"),
        (b"[" * 100_000, ""),
        (b'{"a": 1,}', ".*; a comma too many, or"),
        (b'{"a": {"c": 0, "b": 1, "b": 1}, "b": 2}', "'b' is there twice"),
    ],
)
def test_what_is_no_json_is_refused_in_a_sentence(tmp_path, content, reason):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"bad\.json: cannot be read as a test file \({reason}"):
        files.read_json(path, "a test file")


def test_inputs_are_not_written_over_by_any_name(tmp_path):
    path, link = tmp_path / "input", tmp_path / "link"
    path.write_text("x")
    link.symlink_to(path)
    files.require_overwritable(path)
    with files.protected_inputs():
        files.read_text(path, "a test file")
        for each in (path, link):
            with pytest.raises(ConfigError, match="another file than those that are read"):
                files.require_overwritable(each)
        files.require_overwritable(tmp_path / "new")
    files.require_overwritable(path)
    with pytest.raises(ConfigError, match="a new or a regular file"):
        files.require_overwritable(tmp_path)


def test_outputs_are_checked_before_they_are_written(tmp_path):
    (tmp_path / "file").touch()
    for name, reason in (("none/a", "No such file"), ("file/a", "Not a directory")):
        with pytest.raises(ConfigError, match=rf"{name}: cannot be written \(.*{reason}"):
            files.require_writable_outputs(tmp_path / name)
    with pytest.raises(ConfigError, match="must be given for one file only"):
        files.require_writable_outputs(tmp_path / "a", tmp_path / "." / "a")
    with pytest.raises(ConfigError, match="must be the name of a file"):
        files.require_writable_outputs(Path())
    files.require_writable_outputs(tmp_path / "a", tmp_path / "file")
    files.require_writable_folder(tmp_path / "a" / "b")
    with pytest.raises(ConfigError, match=r"file/a: the folder cannot be made.*Not a directory"):
        files.require_writable_folder(tmp_path / "file" / "a")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
