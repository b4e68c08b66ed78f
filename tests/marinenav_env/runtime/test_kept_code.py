"""Compiled functions in files."""

import pytest
import torch
from torch._dynamo.utils import counters

from marinenav_env.physics.current import current_velocity
from marinenav_env.runtime import kept_code
from marinenav_env.runtime.compiling import compile_function

CPU = torch.device("cpu")
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(torch.__version__ < "2.15", reason="torch keeps no whole functions"),
]


@pytest.fixture
def folder(tmp_path):
    """Folder that compiled functions are kept in."""
    with kept_code.keep_code_in(tmp_path, "marinenav_env"):
        yield tmp_path


def arguments(robots=3):
    """Arguments of current_velocity in two environments with one core."""
    generator = torch.Generator().manual_seed(0)
    shapes = (2, robots), (2, robots), (2, 1, 2), (2, 1)
    return *(torch.rand(shape, generator=generator) for shape in shapes), torch.tensor(0.5)


def begin(function=current_velocity, settings=""):
    """Return the function compiled as in a new process, which has traced nothing."""
    torch.compiler.reset()
    counters.clear()
    return compile_function(function, CPU, kept_for=settings)


def graphs():
    """Number of graphs that were traced since ``begin``."""
    return counters["stats"]["unique_graphs"]


def code_files(folder):
    """Files with code."""
    return [path for path in folder.iterdir() if path.suffix != ".mark"]


def same(first, second):
    return all(map(torch.equal, first, second))


def test_a_second_process_has_the_same_bits_and_traces_nothing(folder):
    usual = compile_function(current_velocity, CPU)(*arguments())
    assert same(begin()(*arguments()), usual)
    assert graphs() == 1 and len(code_files(folder)) == 1
    again = begin()
    assert same(again(*arguments()), usual) and same(again(*arguments()), usual)
    assert graphs() == 0
    other = again(*arguments(robots=4))
    assert same(other, current_velocity(*arguments(robots=4))) or torch.allclose(
        torch.stack(other), torch.stack(current_velocity(*arguments(robots=4)))
    )
    assert graphs() == 1 and len(code_files(folder)) == 1


def test_a_file_of_any_content_is_replaced(folder):
    usual = begin()(*arguments())
    (file,) = code_files(folder)
    for content in (b"", b"PT2AOT\x01cos\nsystem\n"):
        file.write_bytes(content)
        assert same(begin()(*arguments()), usual) and graphs() == 1
        assert file.stat().st_size > 1000


def test_other_settings_versions_and_threads_have_other_files(folder, monkeypatch):
    begin()(*arguments())
    begin(settings="other")(*arguments())
    assert graphs() == 1
    with monkeypatch.context() as patch:
        patch.setattr(torch, "get_num_threads", lambda: 64)
        kept_code.KeptFunction(current_velocity, {}, "", current_velocity)(*arguments())
    kept_code.environment.cache_clear()
    monkeypatch.setattr(kept_code.metadata, "version", lambda name: "0.0")
    begin()(*arguments())
    kept_code.environment.cache_clear()
    assert graphs() == 1 and len(code_files(folder)) == 4


def test_code_that_takes_the_threads_of_each_call_is_traced_once(folder, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CPP_DYNAMIC_THREADS", "1")
    function, threads = begin(), torch.get_num_threads()
    first = function(*arguments())
    try:
        torch.set_num_threads(threads + 1)
        assert same(function(*arguments()), first) and graphs() == 1
        assert same(begin()(*arguments()), first) and graphs() == 0
    finally:
        torch.set_num_threads(threads)


def test_code_with_parts_from_elsewhere_is_not_kept(folder):
    def own(*tensors):
        return current_velocity(*tensors)

    assert same(begin(own)(*arguments()), begin()(*arguments()))
    assert len(code_files(folder)) == 1


def test_nothing_is_kept_without_a_folder(tmp_path):
    assert same(begin()(*arguments()), begin(settings="other")(*arguments()))
    assert graphs() == 1


def test_errors_of_a_function_are_those_of_its_usual_compilation(folder):
    with pytest.raises(Exception, match="size"):
        begin()(*arguments()[:2], torch.zeros(3, 1, 2), torch.zeros(2, 2), torch.tensor(0.5))
