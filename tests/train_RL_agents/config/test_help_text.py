"""The list of settings as text."""

from train_RL_agents.config.help_text import Section, default_settings, settings_text

ROWS = [["tau", "0.01", "Share of the learned weights"],
        ["a.very.long.key.of.some.setting", "[1, 2]", "Below"]]  # fmt: skip


def test_meanings_stand_beside_or_below_their_keys():
    text = settings_text([Section("Trainer", ROWS), Section("Empty", [])], 60)
    assert text.splitlines() == [
        "Trainer",
        f"{'  tau=0.01':<36}Share of the learned",
        " " * 36 + "weights",
        "  a.very.long.key.of.some.setting=[1, 2]",
        " " * 36 + "Below",
        "",
        "Empty",
    ]


def test_the_stored_settings_are_of_one_of_the_agents():
    agent, agents, sections = default_settings()
    assert agent in agents
    assert all(len(row) == 3 for section in sections for row in section.rows)
    assert {"agent_type", "trainer.learning_rate"} <= {
        row[0] for section in sections for row in section.rows
    }
