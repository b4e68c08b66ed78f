"""The base of what a run is logged to."""

import inspect

import pytest

from train_RL_agents.run.logger import RunLogger
from train_RL_agents.run.loggers import TorchRLLogger
from train_RL_agents.run.tensorboard import TensorBoard


def methods(kind):
    """Parameters of the public methods that a class defines, by name."""
    return {
        name: list(inspect.signature(each).parameters)
        for name, each in vars(kind).items()
        if inspect.isfunction(each) and not name.startswith("_")
    }


@pytest.mark.parametrize("kind", [TensorBoard, TorchRLLogger])
def test_loggers_have_no_method_that_a_run_does_not_know(kind):
    """One of another name would never be called, and what it is for would be lost silently."""
    assert methods(kind).items() <= methods(RunLogger).items()
    assert "log" in methods(kind)
