"""CommonOcean files that are written are read back to the same situation."""

import random

import pytest

from marinenav_env import ConfigError, WorldConfig, read_scenarios
from marinenav_env.scenarios.common_ocean import common_ocean_text, parse_common_ocean, write_common_ocean
from marinenav_env.scenarios.nodes import parse_xml
from marinenav_env.scenarios.reading import packaged_situations, read_situations
from marinenav_env.scenarios.situations import Ship, Situation, scaled_episode, situation_from_episode

WORLD = WorldConfig()


@pytest.mark.parametrize(
    "situation", [*packaged_situations("dnv")[::9], *packaged_situations("imazu_ntnu")[::7]], ids=lambda one: one.name
)
def test_episodes_are_read_back(situation, tmp_path):
    episode = scaled_episode(situation, WORLD)
    path = tmp_path / "one.xml"
    write_common_ocean(path, situation_from_episode(episode, "one & <two>"))
    (again,) = read_situations(path)
    assert again == situation_from_episode(episode, "one & <two>")
    (read,) = read_scenarios(path)
    for name in ("start", "goal", "heading"):
        assert getattr(read, name) == getattr(episode, name)


def test_any_numbers_are_read_back():
    rng = random.Random(3)

    def number():
        return rng.choice((-1.0, 1.0)) * rng.random() * 10.0 ** rng.randint(-12, 5)

    for _ in range(20):
        states = tuple((step, number(), number(), number(), abs(number()) % 90.0) for step in (1, 4, 900))
        ships = (
            Ship((number(), number()), number(), abs(number()) % 90.0, (number(), number())),
            Ship((number(), number()), number(), 0.0),
            Ship((number(), number()), 0.1, 1e-9, track=states, follows_track=True),
        )
        obstacles = tuple((number(), number(), abs(number())) for _ in range(3))
        situation = Situation("x", ships, obstacles, 0.5, is_to_scale=True)
        assert parse_common_ocean(common_ocean_text(situation), "x") == situation


def test_the_format_is_that_of_commonocean_io():
    """Element names and what each must have, as in the published XSD of version 2022a."""
    ships = (Ship((1.0, 2.0), 0.5, 2.0, (30.0, 2.0)), Ship((9.0, 9.0), 1.0, 2.0, track=((1, 9.5, 9.5, 1.0, 2.0),)))
    situation = Situation("x", ships, ((5.0, 5.0, 1.0),), is_to_scale=True)
    root = parse_xml(common_ocean_text(situation), "x").value
    assert [element.tag for element in root] == [
        "location",
        "scenarioTags",
        "navigationableArea",  # which commonocean-io 2025.1 reads no file without
        "staticObstacle",
        "dynamicObstacle",
        "planningProblem",
    ]
    assert {"timeStepSize", "commonOceanVersion", "author", "affiliation", "source", "benchmarkID", "date"} == {
        *root.keys()
    }
    assert len({element.get("id") for element in root if element.get("id")}) == 3
    problem = root.find("planningProblem")
    assert {element.tag for element in problem.find("initialState")} == {
        "position",
        "orientation",
        "time",
        "velocity",
        "yawRate",
    }
    assert {element.tag for element in problem.find("goalState")} == {"position", "time"}
    assert "e-" not in common_ocean_text(Situation("x", (Ship((1e-9, 0.0), 0.0, 0.0),), is_to_scale=True))


def test_what_cannot_be_written():
    track = Ship((0.0, 0.0), 0.0, 1.0, track=((1, 1.0, 0.0, 0.0, 1.0),))
    with pytest.raises(ConfigError, match="must be true"):
        common_ocean_text(Situation("x", (track,)))
    with pytest.raises(ConfigError, match="those without a track first"):
        common_ocean_text(Situation("x", (track, Ship((9.0, 0.0), 0.0, 1.0)), is_to_scale=True))


def test_an_encoding_that_is_stated_does_not_count():
    root = parse_xml('<?xml version="1.0" encoding="latin-1"?><a name="Trøndelag"/>', "x")
    assert root.value.get("name") == "Trøndelag"
