"""Evaluations as generated code, as on a GPU, against the same uncompiled."""

from typing import Any

import pytest
import torch
import torch._inductor.config
from torch import Tensor

from marinenav_env import LEVELS, WorldConfig
from marinenav_env.runtime.execution import Execution
from tests.train_RL_agents.tiny_runs import tiny_settings
from train_RL_agents.config.building import make_agent
from train_RL_agents.config.reading import from_dict
from train_RL_agents.evaluation.running.episodes import EpisodeRunner, draw_scenarios, make_evaluation_env
from train_RL_agents.evaluation.running.steps import Transition
from train_RL_agents.policy_wrapper import PolicyWrapper

CPU = torch.device("cpu")


# Vector code of torch 2.15 for a CPU cannot convert bool.
@torch._inductor.config.patch({"cpp.simdlen": 1})  # type: ignore[attr-defined]
@pytest.mark.slow
@pytest.mark.parametrize("name", ["AC-IQN", "DQN"])
def test_generated_code_leads_to_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marinenav_env.runtime.host_reads.FREE_HOST_READ_DEVICES", frozenset())
    # TensorDict does this for other devices than GPUs only, and it cannot be traced when nested.
    monkeypatch.setattr("tensordict.base._RecordDeviceTransfer.mark", lambda recorder: None)
    world = WorldConfig(max_steps=12)
    torch.manual_seed(0)
    agent = make_agent(from_dict(tiny_settings(name)), world.vessel.num_actions, CPU)
    scenarios = draw_scenarios(world, LEVELS[:3], (4, 4, 4), 0)
    found = []
    for compile in (False, True):
        torch.compiler.reset()
        transitions = list[dict[str, Tensor]]()

        def on_step(transition: Transition, env: Any, transitions: list[Any] = transitions) -> None:
            parts = (transition.before.now, transition.after.now, transition.outcome, transition.acted)
            transitions += [part.to_tensordict().clone() for part in parts]

        env = make_evaluation_env(scenarios, world, continuous=agent.continuous, device=CPU, seed=0)
        evaluation = EpisodeRunner(PolicyWrapper(agent), env, 0, execution=Execution(compile=compile))
        results = evaluation.run(on_step).state_dict()
        found.append([dict(each.items(True, True)) for each in transitions] + [results])
    assert len(found[0]) == 4 * 12 + 1
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)
