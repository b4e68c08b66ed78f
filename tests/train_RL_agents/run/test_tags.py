"""The list of scalars: everything is in it, and so is the documentation's table."""

import pytest

from tests.train_RL_agents.tiny_runs import ROOT, new_run, scalars, train
from train_RL_agents.run.tags import TAG_DESCRIPTIONS, describe_tag


def test_the_documentation_has_the_list():
    rows = [f"| `{tag}` | {text} |" for tag, text in TAG_DESCRIPTIONS.items()]
    table = "\n".join(("| tag | meaning |", "|---|---|", *rows))
    assert f"\n{table}\n" in (ROOT / "docs" / "tensorboard.md").read_text(), table


@pytest.mark.usefixtures("surroundings")
@pytest.mark.parametrize("agent", ["DQN", "PPO"])
def test_all_that_a_run_logs_is_in_the_list(tmp_path, agent):
    run = new_run(tmp_path, f"agent_type={agent}", "total_timesteps=80", "execution.compile=false")
    train(run)
    unknown = [tag for tag in scalars(run) if not describe_tag(tag)]
    assert unknown == []
