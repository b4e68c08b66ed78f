"""The example of docs/environments.md, and what training knows of the built-in world."""

import re
from pathlib import Path

import pytest
from torchrl.envs import check_env_specs

import train_RL_agents
from marinenav_env.specs import GROUP
from train_RL_agents.environments.group_env import GroupEnv

ROOT = Path(train_RL_agents.__file__).parent
PAGE = ROOT.parent / "docs" / "environments.md"


def test_the_example_is_an_environment():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    env = GroupEnv(names["Chase"](num_envs=2, device="cpu", seed=0), "chase", 4)
    check_env_specs(env)
    step, following = env.step_and_maybe_reset(env.rand_action(env.reset()))
    assert step["next", GROUP, "reward"].shape == (2, 3, 1) and following[GROUP, "mask"].all()


@pytest.mark.parametrize("package", ["learning", "networks", "agents", "run"])
def test_training_does_not_name_the_configuration_of_the_world(package):
    named = re.compile(r"WorldConfig|VesselConfig|config\.world|MarineNavEnv|Curriculum|_schedule\.levels|Scenario")
    found = [
        f"{path.name}: {line.strip()}"
        for path in (ROOT / package).glob("*.py")
        for line in path.read_text().splitlines()
        if named.search(line)
    ]
    assert found == []
