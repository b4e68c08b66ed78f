"""Restoration of saved tensors."""

import math

import pytest
import torch
from tensordict import TensorDict

from marinenav_env.state import Observation
from marinenav_env.support.tensors import restore_tensors


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.tensor([0.0, math.nan]), "value is not finite"),
        (torch.tensor([math.inf, 0.0]), "value is not finite"),
        (torch.zeros(2, dtype=torch.float64), "value is torch.float64, here torch.float32"),
        (torch.zeros(2, dtype=torch.int64), "value is torch.int64, here torch.float32"),
    ],
)
def test_restoring_other_values_is_refused(given, message):
    target = TensorDict({"inner": TensorDict({"value": torch.ones(2)})})
    with pytest.raises(RuntimeError, match=f"^{message}$"):
        restore_tensors(target, {"inner": {"value": given}})
    assert target["inner", "value"].tolist() == [1.0, 1.0]
    restore_tensors(target, {"inner": {"value": torch.tensor([2.0, 3.0])}})
    assert target["inner", "value"].tolist() == [2.0, 3.0]


def test_restoring_another_shape_is_refused():
    target = Observation(torch.zeros(3, 2, 7), torch.zeros(3, 2, 5, 5), torch.zeros(3, 2, 5).bool(),
                         batch_size=[3])  # fmt: skip
    values = target.clone().to_tensordict().to_dict()
    values["self_state"] = torch.ones(1, 2, 7)  # would broadcast
    with pytest.raises(RuntimeError, match=r"self_state is \[1, 2, 7\], here \[3, 2, 7\]"):
        restore_tensors(target, values)
    del values["self_state"]
    with pytest.raises(RuntimeError, match="other, self_state: missing or unknown"):
        restore_tensors(target, values | {"other": torch.zeros(3)})
