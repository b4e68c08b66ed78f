"""Options that choose scenarios."""

import argparse

import pytest

from train_RL_agents.commands.choosing import add_scenario_options, parse_episode_count


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "100001", "x", "", "1" * 5000])
def test_numbers_of_episodes_have_bounds(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"must be from 1 to 100,000, not "):
        parse_episode_count(text)
    assert (parse_episode_count("1"), parse_episode_count("100000")) == (1, 100_000)


def test_only_what_was_given_is_in_the_result():
    parser = argparse.ArgumentParser()
    add_scenario_options(parser)
    assert vars(parser.parse_args([])) == {}
    given = vars(parser.parse_args(["--levels", "1", "3", "--fresh"]))
    assert given == {"levels": [1, 3], "fresh": True}
    for words in (["--levels", "1", "--suite", "paper"], ["--fresh", "--seed", "1"]):
        with pytest.raises(SystemExit):
            parser.parse_args(words)
