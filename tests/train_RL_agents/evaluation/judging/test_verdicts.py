import pytest
import torch

from marinenav_env import ConfigError, WorldConfig
from tests.train_RL_agents.evaluation.helpers import FROM_STARBOARD, NORTH, track, tracks
from train_RL_agents.evaluation.judging.seamanship import BREACHES, judge
from train_RL_agents.evaluation.judging.verdicts import cohens_kappa, compare_judges, require_judges, vessel_verdicts
from train_RL_agents.evaluation.suites.sets import ScenarioSet
from train_RL_agents.evaluation.suites.suites import SUITES

BOTH = torch.ones(1, 2, dtype=torch.bool)


def slowed():
    """A vessel slows down for one from starboard, which TUM's judge does not accept; nobody collides."""
    return tracks(track(*NORTH, ((9, (0.0, 0.6)),)), FROM_STARBOARD, radius=0.5)


def test_judges_part_on_a_vessel_that_slows_down(capsys):
    found = compare_judges(slowed(), BOTH, ("default", "tum", "moos"), WorldConfig())
    rows = {row["judge"]: row for row in found.rows}
    assert rows["default"] == rows["moos"] | {"judge": "default"}
    assert rows["default"]["rules_kept"] == 1.0 and rows["default"]["duties"] == 2
    assert rows["tum"]["rules_kept"] == 0.5 and rows["tum"]["broken"] == 1
    assert found.kappas == {"default and tum": 0.0, "default and moos": None, "tum and moos": 0.0}
    assert found.reasons["default and tum"] == [("kept for default, no manoeuvre in time for tum", 1)]
    assert found.reasons["default and moos"] == []
    found.show()
    shown = capsys.readouterr().out
    assert "default and tum: kappa 0.00; 1 vessels kept for default, no manoeuvre in time for tum" in shown


@pytest.mark.parametrize(
    ("names", "suite", "allowed"),
    [
        (("default", "other"), "dnv", "--judge=.*other.*: must be one of default, tum, hagen2023, moos"),
        (("tum",), "fresh", "--judge=.*tum.*: must be left out but for rules, imazu"),
    ],
)
def test_judges_are_profiles_of_encounters(names, suite, allowed):
    chosen = ScenarioSet(suite, (), (), 0, SUITES[suite].scoring)
    with pytest.raises(ConfigError, match=allowed):
        require_judges(names, chosen)
    require_judges((), chosen)


def test_only_scored_vessels_have_a_verdict():
    judged = judge(slowed())
    assert vessel_verdicts(judged, BOTH) == ["kept", "kept"]
    assert vessel_verdicts(judged, torch.tensor([[False, True]])) == ["kept"]
    alone = judge(tracks(track(*NORTH), track((90.0, 90.0), 0.0, 2.0)))
    assert vessel_verdicts(alone, BOTH) == ["no duty", "no duty"]
    hit = judge(tracks(track(*NORTH), FROM_STARBOARD))
    assert vessel_verdicts(hit, BOTH) == [BREACHES[0]] * 2


def test_kappa_of_published_example():
    """Cohen's kappa is 0.4 of two raters that agree on 20 and 15 of 50, and differ on 5 and 10."""
    pairs = [("yes", "yes")] * 20 + [("yes", "no")] * 5 + [("no", "yes")] * 10 + [("no", "no")] * 15
    assert cohens_kappa(pairs) == pytest.approx(0.4)
    assert cohens_kappa([("a", "b"), ("b", "a")]) == -1.0 and cohens_kappa([("a", "a"), ("b", "b")]) == 1.0
    assert cohens_kappa([("a", "a")]) is None and cohens_kappa([]) is None
