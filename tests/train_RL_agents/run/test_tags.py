"""The list of scalars: everything is in it, and so is the documentation's table."""

import pytest

from tests.train_RL_agents.tiny_runs import ROOT, new_run, scalars, train
from train_RL_agents.run.tags import RESULTS, TAGS, TRAINING, meaning, results, training_results


def test_the_documentation_has_the_list():
    rows = [f"| `{tag}` | {text} |" for tag, text in TAGS.items()]
    table = "\n".join(("| tag | meaning |", "|---|---|", *rows))
    assert f"\n{table}\n" in (ROOT / "docs" / "tensorboard.md").read_text(), table


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("agent", ["DQN", "PPO"])
def test_all_that_a_run_logs_is_in_the_list(tmp_path, agent):
    run = new_run(tmp_path, f"agent_type={agent}", "total_timesteps=80", "execution.compile=false")
    train(run)
    unknown = [tag for tag in scalars(run) if not meaning(tag)]
    assert unknown == []


def test_the_results_come_first_among_sorted_tags():
    found = results(dict.fromkeys(RESULTS, 0.5) | {"avg_energy": 1.0})
    assert list(found) == sorted(found)
    assert all(tag < known for tag in found for known in TAGS if not known.startswith("Result/"))
    assert all(meaning(tag) for tag in found)


def test_those_of_training_come_next():
    logged = {f"train/{name}": number for number, name in enumerate(TRAINING)}
    found = training_results(logged | {"train/episodes": 3.0, "charts/SPS": 9.0})
    assert list(found.items()) == [(f"Training/{1 + number}_{name}", number) for number, name in enumerate(TRAINING)]
    assert list(found) == sorted(found)
    others = [tag for tag in TAGS if not tag.startswith(("Result/", "Training/"))]
    assert all(tag < known for tag in found for known in others)
    assert all(tag > known for tag in found for known in results(dict.fromkeys(RESULTS, 0.5)))
    assert all(meaning(tag) for tag in found)
    assert training_results({"train/episodes": 0.0}) == {}


def test_tags_of_an_own_agent_have_no_meaning():
    assert meaning("losses/mine") == ""
    assert meaning("losses/loss_mine") != ""
