"""The page of a study, from made-up runs, and a whole study."""

import csv
import re
from dataclasses import replace

import numpy as np
import pytest

from tests.train_RL_agents.figures.helpers import make_folder
from tests.train_RL_agents.tiny_runs import TINY
from train_RL_agents.config.reading import from_dict
from train_RL_agents.experiments.study import Study, Suite, run_folders
from train_RL_agents.experiments.study_report import (
    PAGE_NAME,
    TABLE_NAME,
    run_from_evaluation,
    varied_settings,
    verdict,
    write_report,
)


def made_up(out):
    """A study of two agents, one of which has a run that is not done, and its evaluations."""
    config = from_dict(TINY | {"total_timesteps": 200})
    other = replace(
        config,
        trainer=replace(config.trainer, batch_size=16),
        training=replace(config.training, reward=replace(config.training.reward, collision_penalty=-100.0)),
        agent=replace(config.agent, hidden_sizes=tuple(range(100, 160))),
    )
    study = Study({"A": config, "<B>": other}, (0, 1), (Suite("paper"),), "latest")
    coins, found = np.random.default_rng(0), {}
    for (name, seed), path in run_folders(study, out).items():
        if (name, seed) == ("<B>", 1):
            continue
        make_folder(path)
        success = coins.random(12) < (0.9 if name == "A" else 0.4)
        found[name, seed] = {"success": success.astype(int).tolist(), "group": ["level 1"] * 6 + ["level 2"] * 6}
    return study, {"paper": found}


@pytest.mark.slow
def test_page_and_table_have_all_runs(tmp_path):
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    study, found = made_up(tmp_path)
    assert write_report(study, "A & B", tmp_path, found) == [tmp_path / PAGE_NAME, tmp_path / TABLE_NAME]
    page = (tmp_path / PAGE_NAME).read_text()
    assert "<h1>Study A &amp; B</h1>" in page
    assert "<td>&lt;B&gt;</td><td>0</td><td>200</td><td>0.0</td><td>2.0</td>" in page
    assert page.index("A has the most success, ") < page.index("<h2>Settings") < page.index("<img")
    assert page.index("<td>training.reward.collision_penalty</td><td>-50.0</td><td>-100.0</td>") < page.index("<h2>Who")
    assert "<td>trainer.batch_size</td><td>8</td><td>16</td>" in page
    assert "119,…</td>" in page
    # Six panels of learning curves, each a picture of its own, and three other figures.
    assert page.count("data:image/svg+xml;base64,") == 6 + 3
    links = re.findall(r'href="(figures[^"]+)"', page)
    assert len(links) == 12
    assert all((tmp_path / link).is_file() for link in links)
    assert {link.rpartition(".")[2] for link in links} == {"pdf", "png", "csv"}
    with (tmp_path / TABLE_NAME).open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 3
    content = found["paper"]["A", 1]
    (overall,) = [row for row in rows if (row["agent"], row["seed"], row["group"]) == ("A", "1", "overall")]
    assert int(overall["successes"]) == sum(content["success"])
    assert float(overall["wall_minutes"]) == 2.0
    figures = tmp_path / "figures"
    with (figures / "paper" / "iqm.csv").open() as file:
        assert {row["group"]: row["runs"] for row in csv.DictReader(file)} == {"A": "2", "<B>": "1"}


@pytest.mark.slow
def test_settings_that_agents_lack_are_not_varied():
    """PPO has settings that DQN has not; only what two agents have, and have differently, is listed."""
    groups = {name: from_dict({"agent_type": name}) for name in ("DQN", "PPO")}
    rows = {row["setting"]: row for row in varied_settings(Study(groups, (0,), (), "latest"))}
    assert rows["agent_type"] == {"setting": "agent_type", "DQN": "DQN", "PPO": "PPO"}
    assert "trainer.rollout_steps" not in rows and "trainer.exploration_fraction" not in rows
    assert all("-" not in row.values() for row in rows.values())


def groups_of(success):
    """A run of each agent."""
    contents = {name: {"success": each, "group": ["a"] * len(each)} for name, each in success.items()}
    return {name: [run_from_evaluation(name, content)] for name, content in contents.items()}


@pytest.mark.parametrize(
    ("success", "sentence"),
    [
        ({"A": [0, 0], "B": [0, 0]}, "No run has success in any episode."),
        ({"A": [1, 0], "B": [0, 1]}, "A; B have the same success, 0.500."),
        ({"A": [1]}, "A has the most success, 1.000."),
    ],
)
def test_a_tie_has_no_best(success, sentence):
    assert verdict(groups_of(success))[0] == sentence


def test_the_best_is_named_with_what_it_is_better_than():
    success = {"A": [1] * 30 + [0] * 2, "B": [1] * 29 + [0] * 3, "C": [1] * 8 + [0] * 24}
    sentence, table = verdict({name: 2 * runs for name, runs in groups_of(success).items()})
    assert sentence == ("A has the most success, 0.938. It is better than C. These runs do not tell it apart from B.")
    assert table.titles == ["agent", "success", "behind the best"]
    assert [row[:2] for row in table.cells] == [["A", "0.938"], ["B", "0.906"], ["C", "0.250"]]
    assert [row[2].split(" [")[0] for row in table.cells] == ["-", "0.031", "0.688"]
