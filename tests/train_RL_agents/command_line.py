"""What tests of the command line share."""

from train_RL_agents.commands.cli import main

SMALL = {
    "agent_type": "DQN",
    "agent.critics": 1,
    "execution.device": "cpu",
    "world.max_steps": 3,
    "eval_schedule.num_episodes": [2] * 6,
}


def refused(capsys, *argv):
    """The sentence that a command line is refused with."""
    assert main(argv) == 2
    output = capsys.readouterr()
    assert output.out == ""
    lines = output.err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("marinenav: error: ")
    return lines[0].removeprefix("marinenav: error: ")
