"""The step of the world traced into one graph by the installed torch, of which each version refuses other Python.

A step that cannot be traced is computed without generated code, which costs a factor of three and fails no other test.
Nothing is generated here: the graph is run as it is.
"""

from dataclasses import fields, replace

import pytest
import torch

from marinenav_env import Curriculum, MarineNavEnv
from marinenav_env.config import MODERATE_WEATHER, RewardConfig, SensorConfig, WorldConfig
from marinenav_env.levels import NAMED_LEVELS, Level
from marinenav_env.scenarios.reset import NewEpisodes
from marinenav_env.state import WorldState
from marinenav_env.vessels import scaled_level, scaled_world

PENALTIES = {field.name: -1.0 for field in fields(RewardConfig) if field.name.endswith("_penalty")}
LEVELS = (
    replace(NAMED_LEVELS["unruly"], num_robots=3, time_spread=1.0, vessel_spread=2.0, thruster_fault=0.1),
    replace(NAMED_LEVELS["currents"], num_robots=3),
)
WORLDS = {
    "published": (WorldConfig(), (Level(3, 1, 1, 30.0),)),
    "every reward, behaviours, weather, a scan, duties, actuators": (
        scaled_world(
            "otter",
            reward=RewardConfig(**PENALTIES, passing_distance=11.0, passing_margin=3.0),
            sensor=SensorConfig(max_objects=4, scan_beams=8, duties=True),
            weather=MODERATE_WEATHER,
        ),
        tuple(scaled_level(level, 0.4, 0.9) for level in LEVELS),
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "published")) for name in WORLDS]
)
def test_a_step_is_traced_into_one_graph(name):
    """A step with the start of new episodes, as a graph, returns what the step itself returns."""
    config, levels = WORLDS[name]
    env = MarineNavEnv(
        replace(config, substeps=1), 4, scenarios=Curriculum(levels=levels, pool_size=8, refresh_size=8), seed=0
    )
    starts = NewEpisodes(WorldState(env.reset_pool.states, env.constants), torch.arange(4))
    given = env.world_state, torch.ones(4, 3, 2), env.next_noise_source(), starts
    torch.compiler.reset()
    traced = torch.compile(env.world.step, backend="eager", fullgraph=True, dynamic=False)
    found, expected = (step(*given).world.now.to_tensordict() for step in (traced, env.world.step))
    torch.testing.assert_close(found, expected, rtol=0.0, atol=0.0, equal_nan=True)
