"""The frozen suites: their scenarios are those of the hashes, and how a policy runs them."""

import hashlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from marinenav_env import ConfigError, WorldConfig, scaled_world
from marinenav_env.config import VesselConfig
from tests.train_RL_agents.entries import by_role, entry, result
from tests.train_RL_agents.exporting.test_export import make_policy
from train_RL_agents.evaluation import frozen
from train_RL_agents.evaluation.contenders import Contender
from train_RL_agents.evaluation.frozen import (
    BENCHMARK_SEED,
    FROZEN_SUITES,
    OPTIONAL_SUITES,
    benchmark_world,
    describe_policy,
    make_entry,
    require_frozen,
    run_suite,
    scenario_hash,
)
from train_RL_agents.evaluation.suites import make_scenario_set

CPU = torch.device("cpu")


SLOW = ("fresh", "vessels", "weather", "faults", *OPTIONAL_SUITES)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=pytest.mark.slow) if each in SLOW else each for each in FROZEN_SUITES | OPTIONAL_SUITES],
)
def test_scenarios_are_those_of_the_benchmark(name):
    fixed = (FROZEN_SUITES | OPTIONAL_SUITES)[name]
    assert scenario_hash(make_scenario_set(name, WorldConfig(), fixed.episodes, BENCHMARK_SEED)) == fixed.scenarios, (
        "raise entry.BENCHMARK_VERSION"
    )


def test_numbers_of_episodes_are_those_of_the_benchmark():
    """Of each level or group."""
    assert {name: each.episodes for name, each in FROZEN_SUITES.items()} == {
        "dnv": 10,
        "dnv_own": 10,
        "imazu_ntnu": 10,
        "imazu_ntnu_own": 10,
        "unruly": 25,
        "fresh": 500,
        "currents": 300,
        "crowd": 100,
        "noise": 50,
        "vessels": 100,
        "weather": 100,
        "faults": 100,
        "rules": 100,
        "encounters": 25,
        "imazu": 20,
        "encounters_own": 25,
        "imazu_own": 20,
    }


def test_a_hash_depends_on_the_world_but_not_on_who_steers():
    world = WorldConfig()
    own = scenario_hash(make_scenario_set("rules", world, 2, BENCHMARK_SEED))
    more = replace(world, sensor=replace(world.sensor, max_objects=8))
    assert scenario_hash(make_scenario_set("rules", more, 2, BENCHMARK_SEED)) == own
    chosen = make_scenario_set("rules", world, 2, BENCHMARK_SEED)
    chosen.parts[0].scenarios.goal[0, 0, 0] += 1e-9
    assert scenario_hash(chosen) == own
    chosen.parts[0].scenarios.goal[0, 0, 0] += 1e-3
    other = replace(world, sensor=replace(world.sensor, pos_std=0.06))
    hashes = {
        scenario_hash(chosen),
        scenario_hash(make_scenario_set("rules", world, 2, BENCHMARK_SEED + 1)),
        scenario_hash(make_scenario_set("rules", other, 2, BENCHMARK_SEED)),
    }
    assert len(hashes | {own}) == 4


def test_a_hash_depends_on_the_policies_that_steer_others(monkeypatch):
    chosen = make_scenario_set("unruly", WorldConfig(), 1, BENCHMARK_SEED)
    chosen = replace(chosen, parts=[part for part in chosen.parts if part.others == "ppo"])
    own = scenario_hash(chosen)
    monkeypatch.setattr(frozen, "sha256_of", lambda path: "another file")
    assert scenario_hash(chosen) != own


def test_the_world_is_the_published_one_with_the_policy_s_own_observation():
    policy = make_policy("DQN")
    own = replace(
        policy.config.world,
        vessel=VesselConfig(m=300.0, left_thrust_change=(0.0, 1000.0)),
        sensor=replace(policy.config.world.sensor, max_objects=3, range=90.0),
    )
    policy = replace(policy, config=replace(policy.config, world=own))
    world = benchmark_world(Contender.from_loaded(policy))
    assert world.sensor.max_objects == 3 and world.vessel.left_thrust_change == (0.0, 1000.0)
    assert world.vessel.m == 400.0 and world.sensor.range == 20.0
    strong = replace(own, vessel=replace(own.vessel, left_thrust_change=(5000.0,)))
    with pytest.raises(ConfigError, match="at most 1000 N/s in the benchmark"):
        config = replace(policy.config, world=strong)
        benchmark_world(Contender.from_loaded(replace(policy, config=config)))


def test_the_world_of_a_boat_is_scaled_to_it(tmp_path):
    policy = make_policy("DQN", **{"world.vessel": "milliampere", "world.sensor.max_objects": 3})
    (tmp_path / "policy.pt").write_bytes(b"weights")
    found = Contender.from_loaded(replace(policy, path=tmp_path / "policy.pt"))
    world = benchmark_world(found)
    scaled = scaled_world("milliampere")
    assert world == replace(scaled, sensor=replace(scaled.sensor, max_objects=3))
    assert describe_policy(found, "mine")["boat"] == "milliampere"


@pytest.mark.heavy
def test_a_suite_is_run_and_scored():
    own = run_suite(Contender("straight"), "rules", CPU, 2)
    assert own.groups == tuple(make_scenario_set("rules", WorldConfig(), 1, 0).groups)
    assert len(own.outcome) == 8 and set(own.outcome) <= {*"cs"} and own.astern == 0.0
    assert own.compliance["head-on"]["compliance"] == 0.0 and not own.tracks


def encounter_suite(monkeypatch, name, astern):
    """A suite of two vessels, with the compliance given, and what was asked of its run."""
    asked, counted = [], []
    recording = SimpleNamespace(robot_mask=torch.ones(1, 2, dtype=torch.bool))
    row = by_role(())["overall"] | {"astern": astern, "safety": 0.123456, "delay": None}
    compliance = {"all": row, "overall": row}

    def run_scored(found, chosen, world, acting, device, called, counter):
        asked.append(acting.seed)
        return result("s").episodes, recording, compliance

    monkeypatch.setattr(frozen, "AsternShare", lambda: SimpleNamespace(value=1.0 / 3.0))
    monkeypatch.setattr(frozen, "run_and_score", run_scored)
    monkeypatch.setattr(frozen, "count_duties_by_role", lambda *given: counted.append(given[1]) or {})
    chosen = replace(make_scenario_set(name, WorldConfig(), 1, BENCHMARK_SEED), groups=("all",))
    monkeypatch.setattr(frozen, "make_scenario_set", lambda *given: chosen)
    return run_suite(Contender("straight"), name, CPU), asked, counted


@pytest.mark.parametrize(("name", "controlled"), [("encounters", 2), ("encounters_own", 1)])
def test_astern_of_encounter_suites_is_the_mean_mark(monkeypatch, name, controlled):
    own, asked, counted = encounter_suite(monkeypatch, name, 0.12344)
    assert own.astern == own.compliance["overall"]["astern"] == 0.1234
    assert own.compliance["overall"]["safety"] == 0.1235
    assert own.compliance["overall"]["delay"] is None and not own.tracks
    assert (asked, counted) == ([BENCHMARK_SEED + 1], [controlled])
    assert encounter_suite(monkeypatch, name, None)[0].astern == 0.0


def test_astern_of_other_suites_is_the_share_of_steps(monkeypatch):
    own, _, counted = encounter_suite(monkeypatch, "rules", 0.5)
    assert own.astern == 0.3333 and not counted


@pytest.mark.parametrize(("dt", "kept"), [(0.5, [0, 2, 4, 5]), (0.25, [0, 4, 5])])
def test_tracks_have_the_positions_of_every_second_and_the_last(monkeypatch, dt, kept):
    """Of the first episode of each group, of the vessels that there are, until they end."""
    poses = torch.arange(6.0)[:, None, None, None] + torch.tensor([0.04, 20.06, 7.0])
    poses = poses.repeat(1, 3, 2, 1) + torch.tensor([0.0, 100.0, 200.0])[:, None, None]
    active = torch.ones(6, 3, 2, dtype=torch.bool)
    active[5], active[2:, 2, 1] = False, False
    recording = SimpleNamespace(
        poses=poses,
        active=active,
        groups=("a", "a", "b"),
        dt=dt,
        robot_mask=torch.tensor([[True, False], [True, True], [True, True]]),
    )
    groups = ("a", "b")
    ended = result("sct", groups).episodes
    monkeypatch.setattr(frozen, "run_and_score", lambda *given: (ended, recording, by_role(groups)))
    monkeypatch.setattr(frozen, "count_duties_by_role", lambda *given: {})
    chosen = replace(make_scenario_set("encounters", WorldConfig(), 1, BENCHMARK_SEED), groups=groups)
    monkeypatch.setattr(frozen, "make_scenario_set", lambda *given: chosen)
    first, other = run_suite(Contender("straight"), "imazu", CPU).tracks
    own = [each for t in kept for each in (t, t + 20.1)]
    assert first == (pytest.approx(own),)
    assert other[0] == pytest.approx([each + 200.0 for each in own])
    ended = [each for t in kept if t < 2 for each in (t + 200.0, t + 220.1)]
    assert other[1] == pytest.approx([*ended, 202.0, 220.1 + 2.0])


@pytest.mark.slow
def test_imazu_is_drawn_and_told_by_role():
    own = run_suite(Contender("apf"), "imazu", CPU, 1)
    assert len(own.tracks) == 22 and [len(each) for each in own.tracks[:5]] == [2, 2, 2, 2, 3]
    start = make_scenario_set("imazu", WorldConfig(), 1, BENCHMARK_SEED).parts[0].scenarios.start[0, 0]
    assert own.tracks[0][0][:2] == pytest.approx(start.tolist(), abs=0.06)
    asked = sum(pair[1] for pair in own.duties.values())
    assert asked > 40 and own.compliance["case 7"]["safety"] > 0.0


@pytest.mark.heavy
def test_others_have_no_duties_where_only_the_own_vessel_is_steered(monkeypatch):
    whole = make_scenario_set("imazu_own", WorldConfig(), 1, BENCHMARK_SEED)
    part = whole.parts[0]
    few = replace(whole, parts=(replace(part, scenarios=part.scenarios[:2], situations=(0, 1)),))
    monkeypatch.setattr(frozen, "make_scenario_set", lambda *given: replace(few, groups=whole.groups[:2]))
    own = run_suite(Contender("straight"), "imazu_own", CPU, 1)
    assert own.situations == (0, 1) and own.clear_situations == (0, 2)
    # Each of the two meets one other vessel, which is not scored.
    assert sum(asked for _, asked in own.duties.values()) == 2


def test_who_is_evaluated_is_told_by_the_hash_of_the_file(tmp_path):
    file = tmp_path / "policy.pt"
    file.write_bytes(b"weights")
    about = describe_policy(Contender.from_loaded(replace(make_policy("DQN"), path=file)), "mine")
    assert about["sha256"] == hashlib.sha256(b"weights").hexdigest() and about["objects"] == 5
    assert describe_policy(Contender("apf"), "apf")["sha256"] is None


@pytest.mark.heavy
def test_entries_on_other_scenarios_are_refused(monkeypatch):
    monkeypatch.setattr(frozen, "FROZEN_SUITES", {name: FROZEN_SUITES[name] for name in entry().suites})
    require_frozen(entry(), Path("a.json"))
    hashed = result("s", scenarios=OPTIONAL_SUITES["long"].scenarios)
    require_frozen(entry(long=hashed), Path("a.json"))  # which need not be there
    with pytest.raises(ConfigError, match=r"a\.json: scenarios of long='0123"):
        require_frozen(entry(long=result("s", suite="x")), Path("a.json"))
    with pytest.raises(ConfigError, match=r"a\.json: scenarios of currents='0123.*benchmark 4"):
        require_frozen(entry(currents=result("s", suite="x")), Path("a.json"))
    with pytest.raises(ConfigError, match="suites='paper': must be those of benchmark 4"):
        require_frozen(entry(paper=result("s")), Path("a.json"))
    with pytest.raises(ConfigError, match="scenarios of rules='missing'"):
        require_frozen(make_entry(entry().policy, {"currents": result("s")}), Path("a.json"))
