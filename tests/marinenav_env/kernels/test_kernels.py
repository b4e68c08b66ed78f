"""Kernels by name: which there are, and what is refused."""

import sys

import pytest

from marinenav_env.config import MODERATE_WEATHER, RewardConfig, SensorConfig, WorldConfig
from marinenav_env.kernels import find_kernel
from marinenav_env.support import plugins
from marinenav_env.support.validation import ConfigError


def test_a_kernel_is_imported_when_it_is_asked_for() -> None:
    pytest.importorskip("triton")
    from marinenav_env.kernels.triton_world import TritonWorld

    assert find_kernel("compiled", WorldConfig()) is None
    assert find_kernel("triton", WorldConfig(weather=MODERATE_WEATHER)) is TritonWorld


def test_a_kernel_that_cannot_be_imported_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "marinenav_env.kernels.triton_world", None)
    with pytest.raises(ConfigError, match=r"^execution\.kernel=triton: triton is not installed$"):
        find_kernel("triton", WorldConfig())


def test_a_kernel_refuses_what_it_does_not_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    own = "marinenav_env.rules.reward:published_reward"
    monkeypatch.setattr(plugins, "_allowed_references", {own})
    message = (
        r"^execution\.kernel='triton': must be compiled with further observation entries or a "
        "reward of your own$"
    )
    for other in (
        WorldConfig(sensor=SensorConfig(scan_beams=4)),
        WorldConfig(reward=RewardConfig(function=own)),
    ):
        with pytest.raises(ConfigError, match=message):
            find_kernel("triton", other)
    with pytest.raises(ConfigError, match="must be compiled with a penalty for broken duties"):
        find_kernel("triton", WorldConfig(reward=RewardConfig(broken_duty_penalty=-1.0)))
