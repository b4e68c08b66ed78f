"""Entries of an observation: the standard ones, and those of users' own sensors."""

from typing import Any, ClassVar

import pytest
import torch
from torchrl.envs.utils import check_env_specs

from marinenav_env import ConfigError, Curriculum, Level, MarineNavEnv, WorldConfig
from marinenav_env.config import SensorConfig
from marinenav_env.env import GROUP
from marinenav_env.sensing.entries import Entry, EntrySensor
from marinenav_env.sensing.observation import flatten_observation, observation_entries
from tests.marinenav_env.env_helpers import full_ahead
from tests.own_parts import allow_only

STANDARD = {"self_state": (7,), "objects_state": (5, 5), "objects_mask": (5,)}
CURRICULUM = Curriculum((Level(3, 1, 2, 20.0), Level(2, 0, 1, 20.0)), pool_size=8, refresh_size=4)


class Current(EntrySensor):
    """Where the water goes, twice, with noise."""

    name = "current"
    meaning = "velocity of the water (m/s, world frame)"

    def shape(self, config):
        return (2, 2)

    def noise(self, shape, source, dtype):
        return source.normal(shape, dtype)

    def observe(self, scene, noise):
        drift = scene.state.velocity_ground - scene.state.velocity_water
        return drift[..., None, :2] + 0.1 * noise


class Alone(EntrySensor):
    """Whether fewer than two robots are active."""

    name = "alone"
    kind = "mask"

    def shape(self, config):
        return (1,)

    def observe(self, scene, noise):
        assert noise is None
        few = scene.state.active.sum(-1, keepdim=True) < 2
        return few.expand_as(scene.state.active)[..., None]


class Shapeless(EntrySensor):
    name = "shapeless"


class Nameless(Alone):
    name = "no name"


class Unkind(Alone):
    kind: ClassVar[Any] = "picture"


class Same(Alone):
    name = "self_state"


class Thin(Alone):
    def shape(self, config):
        return (0,)


class Single(Alone):
    def shape(self, config):
        return ()


class Unscaled(Current):
    def scale(self, config):
        return (1.0, 0.0)


class Limitless(Current):
    def limits(self, config):
        return ((1.0, -1.0),)


class Masked(Current):
    kind = "objects"
    mask = "objects_maks"


class Long(Masked):
    mask = "objects_mask"


def reference(name):
    return f"{__name__}:{name}"


def config(*names, **settings):
    entries = tuple(map(reference, names))
    return WorldConfig(max_steps=6, sensor=SensorConfig(entries=entries), **settings)


@pytest.fixture(autouse=True)
def _allowed(monkeypatch):
    allow_only(monkeypatch, *map(reference, globals()))


def test_flat_observations_have_all_entries_one_after_another():
    entries = {"first": Entry("first", "vector", (2, 2), ""), "second": Entry("second", "mask", (1,), "")}
    given = {"second": torch.tensor([[[True], [False]]]), "first": torch.arange(8.0).view(1, 2, 2, 2)}
    expected = [[[0.0, 1.0, 2.0, 3.0, 1.0], [4.0, 5.0, 6.0, 7.0, 0.0]]]
    assert flatten_observation(given, entries).tolist() == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_users_sensors_add_entries(dtype):
    env = MarineNavEnv(config("Current", "Alone"), 4, scenarios=CURRICULUM, dtype=dtype, seed=0)
    assert list(env.entries) == [*STANDARD, "current", "alone"]
    assert env.entries["current"] == Entry("current", "vector", (2, 2), "velocity of the water (m/s, world frame)")
    check_env_specs(env)
    group = full_ahead(env, 9)[GROUP]
    seen, active = group["observation"], group["mask"]
    assert seen["current"].shape == (4, 9, 3, 2, 2) and seen["current"].dtype == dtype
    assert seen["alone"].dtype == torch.bool
    assert not seen["current"][~active].any() and seen["current"][active].all()
    assert torch.equal(seen["alone"][..., 0], (active.sum(-1, keepdim=True) < 2) & active)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Shapeless", "Shapeless: NotImplementedError"),
        ("Nameless", r"Nameless\.name='no name': must be an identifier"),
        ("Unkind", r"Unkind\.kind='picture': must be one of vector, objects, mask, scan"),
        ("Same", "world.sensor.entries='self_state': must be named once"),
        ("Thin", r"Thin\.shape=\(0,\): must be whole numbers, at least 1"),
        ("Single", r"Single\.shape=\(\): must be whole numbers, at least 1"),
        ("Unscaled", r"Unscaled\.scale=\(1\.0, 0\.0\): must be numbers above 0, one or 2$"),
        ("Limitless", r"Limitless\.limits=\(\(1\.0, -1\.0\),\): must be pairs \(low, high\), one or 2$"),
        ("Masked", r"current\.mask='objects_maks': must be an entry of kind mask with the shape \(2,\)$"),
        ("Long", r"current\.mask='objects_mask': must be an entry of kind mask with the shape \(2,\)$"),
        ("CURRICULUM", "CURRICULUM='Curriculum': must be an EntrySensor of marinenav_env"),
        ("Unknown", "is a part that this program does not load from files"),
    ],
)
def test_what_is_no_sensor_is_refused(name, message):
    with pytest.raises(ConfigError, match=message):
        observation_entries(config(name))


@pytest.mark.slow
def test_users_sensors_are_compiled_with_the_world():
    eager, compiled = (
        MarineNavEnv(
            config("Current", "Alone"), 3, scenarios=CURRICULUM, dtype=torch.float64, compile_step=flag, seed=0
        )
        for flag in (False, True)
    )
    first, second = (full_ahead(each, 5)[GROUP, "observation"] for each in (eager, compiled))
    torch.testing.assert_close(first["current"], second["current"], atol=1e-9, rtol=1e-9)
    assert torch.equal(first["alone"], second["alone"])
