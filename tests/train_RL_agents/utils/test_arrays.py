"""Files of arrays: what should not be opened is refused in a sentence."""

import os
import zipfile

import pytest

from tests.refusals import refusal
from train_RL_agents.utils.arrays import read_arrays


def refused(path):
    message = refusal(read_arrays, path, "a recording")
    assert len(message) < 400
    return message


def test_what_is_no_regular_file(tmp_path):
    assert "(No such file or directory)" in refused(tmp_path / "absent.npz")
    assert "(not a regular file)" in refused(tmp_path)
    os.mkfifo(tmp_path / "pipe.npz")
    assert "(not a regular file)" in refused(tmp_path / "pipe.npz")


@pytest.mark.parametrize("header", [(2**40,), (2**62, 2**10)])
def test_headers_of_more_than_there_is(tmp_path, header):
    path = tmp_path / "a.npz"
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {header}}}".ljust(117) + "\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00v\x00" + text.encode())
    assert refused(path).endswith("damaged, or not a recording")
