"""Films of what an environment renders."""

import pytest
import torch

from marinenav_env import ConfigError
from marinenav_env.support import plugins
from train_RL_agents.agents import AGENTS
from train_RL_agents.config.reading import from_dict
from train_RL_agents.environments.external import ExternalEnvironment
from train_RL_agents.environments.film import write_video
from train_RL_agents.run.checkpoint import LoadedPolicy


def policy(tmp_path, name):
    plugins.allow(f"tests.train_RL_agents.other_envs:{name}")
    config = from_dict({"agent_type": "DDPG"}, [f"env.name=tests.train_RL_agents.other_envs:{name}", "env.max_steps=4"])
    spec = ExternalEnvironment(config).spec
    return LoadedPolicy(AGENTS["DDPG"](config.agent, 0, spec).eval(), config, tmp_path / "policy.pt", 0, {})


def test_an_episode_is_a_film(tmp_path):
    imageio = pytest.importorskip("imageio.v2")
    pytest.importorskip("imageio_ffmpeg")
    (file,) = write_video(policy(tmp_path, "Chase"), 0, tmp_path)
    with imageio.get_reader(file) as video:
        assert file.suffix == ".mp4" and sum(1 for _ in video) == 4  # the start, and three steps before the last


def test_an_environment_that_renders_nothing_is_named(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    with pytest.raises(ConfigError, match="cannot be rendered"):
        write_video(policy(tmp_path, "Alone"), 0, tmp_path)
    assert torch.get_num_threads() > 0
