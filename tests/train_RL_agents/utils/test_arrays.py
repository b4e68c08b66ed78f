"""Files of arrays: what should not be opened is refused in a sentence."""

import zipfile

import pytest

from tests.refusals import refusal
from train_RL_agents.utils.arrays import read_arrays


@pytest.mark.parametrize("header", [(2**40,), (2**62, 2**10)])
def test_headers_of_more_than_there_is(tmp_path, header):
    path = tmp_path / "a.npz"
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {header}}}".ljust(117) + "\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00v\x00" + text.encode())
    assert refusal(read_arrays, path, "a recording") == f"{path}: damaged, or not a recording"
