"""The shield of one vessel on board, and the functions that it shares with evaluations, against the oracle."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from marinenav_env import WorldConfig
from tests.oracle import shield as oracle
from tests.train_RL_agents.boat.helpers import (
    GOAL,
    OWN,
    PATIENT,
    SECONDS,
    UNEVEN,
    VESSEL,
    contract_of,
    random_scenes,
    random_shores,
)
from tests.train_RL_agents.exporting.helpers import make_policy
from train_RL_agents.boat.manoeuvres import escape_manoeuvres
from train_RL_agents.boat.runtime import BoatError, Pilot, Tracks
from train_RL_agents.boat.shield import MARGIN_RADII, SIDE_COMMANDS, BoatShield, Scene, clearance_shortfall


@pytest.mark.heavy
def test_shortfalls_equal_the_oracle_in_numpy_and_in_torch():
    own, objects, seen, command = random_scenes(3)
    shore, is_shore = random_shores(3)
    radius = VESSEL["radius"]
    results = []
    for xp, convert in ((np, np.asarray), (torch, torch.tensor)):
        arrays = [convert(column) for column in (own, objects, seen)]
        scene = Scene(*arrays, arrays[1][..., 4] + radius, radius).with_shores(xp, convert(shore), convert(is_shore))
        plans = escape_manoeuvres(xp, convert(np.array(SIDE_COMMANDS)))
        for begin in (None, convert(command)):
            results.append(np.asarray(clearance_shortfall(xp, scene, VESSEL, SECONDS, plans, begin)))
    expected = []
    for first in ((), (0,)):
        rows = []
        for number in range(len(own)):
            there = objects[number][seen[number]]
            begin = [tuple(command[number]) for _ in first]
            inputs = own[number], there, there[:, 4] + radius, MARGIN_RADII * radius
            land = [(row[:2], row[2:4]) for row in shore[number][is_shore[number]]]
            rows.append([oracle.shortfall(*inputs, [*begin, *plan], SECONDS, land, radius) for plan in oracle.plans()])
        expected.append(rows)
    for result, wanted in zip(results, [*expected, *expected], strict=True):
        np.testing.assert_allclose(result, wanted, rtol=0.0, atol=1e-9)
    assert np.ptp(expected) > 1.0


@pytest.mark.heavy
def test_commands_on_board_equal_the_oracle():
    own, objects, seen, command = random_scenes(8)
    shield, replaced = BoatShield(VESSEL, SECONDS), 0
    for number in range(len(own)):
        there = objects[number][seen[number]]
        radius = VESSEL["radius"]
        wanted, expected = oracle.guard(command[number], own[number], there, there[:, 4] + radius, radius, SECONDS)
        rows = own[number][None], objects[number][None], seen[number][None]
        rates, is_other = shield(1000.0 * command[number], *rows)
        assert is_other == expected
        np.testing.assert_allclose(rates, 1000.0 * np.array(wanted), rtol=0.0, atol=1e-9)
        replaced += is_other
    assert 0 < replaced < 8


def ahead(distance, speed=0.0, aside=0.0):
    """A vessel at 2 m/s under the thrust that keeps its speed, and one object."""
    own = np.array([[100.0, 0.0, 2.0, 0.0, 0.0, 400.0, 400.0]])
    objects = np.zeros((1, 5, 5))
    objects[0, 0] = [distance, aside, speed, 0.0, VESSEL["radius"]]
    return own, objects, np.array([[1.0, 0.0, 0.0, 0.0, 0.0]])


def test_it_turns_to_starboard_where_both_sides_are_equal():
    rates, is_other = BoatShield(VESSEL, SECONDS)(np.array([0.0, 0.0]), *ahead(13.0, -3.0))
    assert is_other and rates[0] > rates[1]


AHEAD = Tracks(0.0, np.array([[10.0 + 12.0 * np.cos(0.3), 20.0 + 12.0 * np.sin(0.3), -3.0, -0.9, 2.8]]))


def test_a_pilot_uses_it_if_it_is_asked_for(make_pilot):
    """The network asks for full thrust of both sides, towards a vessel that comes from ahead."""
    usual, shielded = make_pilot(), make_pilot(settings=replace(PATIENT, shield=True))
    command = usual.command(0.0, OWN, AHEAD, GOAL)
    assert (command.left_thrust, command.right_thrust, command.is_shielded) == (500.0, 500.0, False)
    other = shielded.command(0.0, OWN, AHEAD, GOAL)
    assert other.is_shielded and not other.stop_reason and other.left_thrust > other.right_thrust
    far = shielded.command(0.5, replace(OWN, stamp=0.5), Tracks(0.5, np.zeros((0, 5))), GOAL)
    assert not far.is_shielded and (shielded.command_count, shielded.shielded_count) == (2, 1)


def test_it_keeps_the_limits_of_the_settings(make_pilot):
    pilot = make_pilot(settings=replace(PATIENT, shield=True, min_thrust=-400.0, max_thrust=450.0))
    command = pilot.command(0.0, OWN, AHEAD, GOAL)
    assert command.is_shielded
    assert all(-400.0 <= thrust <= 450.0 for thrust in (command.left_thrust, command.right_thrust))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda contract: contract.pop("config"), r"shield: the contract has no radius, width, .* of the vessel"),
        (
            lambda contract: contract["action"]["thrust_limits"].update(value=[-500.0, 0.0]),
            "the contract's max_thrust is not above 0",
        ),
    ],
)
def test_contracts_that_lack_what_it_needs_are_refused(change, words, tmp_path):
    contract = contract_of(make_policy("DQN"), tmp_path)
    change(contract)
    with pytest.raises(BoatError, match=words):
        Pilot(contract, lambda inputs: np.array([24]), replace(PATIENT, shield=True))


@pytest.mark.parametrize("max_thrust_rate", [1000.0, 400.0])
def test_a_pilot_has_limits_and_commands_of_each_side(tmp_path, max_thrust_rate):
    vessel = replace(UNEVEN, max_thrust_rate=max_thrust_rate)
    config = WorldConfig(vessel=vessel)
    contract = contract_of(make_policy("DQN"), tmp_path)
    contract["config"]["world"]["vessel"] = json.loads(json.dumps(asdict(vessel)))
    pairs = np.array([[a, b] for a in UNEVEN.left_thrust_change for b in UNEVEN.right_thrust_change])
    contract["action"]["rates"]["value"] = pairs.tolist()
    pilot = Pilot(contract, lambda inputs: np.array([3]), replace(PATIENT, shield=True))
    board = BoatShield.from_contract(
        asdict(vessel), (UNEVEN.min_thrust, UNEVEN.max_thrust, np.inf), config.control_step, pairs
    )
    inputs = pilot.inputs(OWN, AHEAD, GOAL)
    rates, is_other = board(pairs[3], inputs["self_state"], inputs["objects_state"], inputs["objects_mask"])
    command = pilot.command(0.0, OWN, AHEAD, GOAL)
    assert is_other and command.is_shielded and rates.tolist() in pairs.tolist()
    wanted = np.clip(0.5 * rates, [-250.0, -450.0], [500.0, 900.0])
    np.testing.assert_allclose([command.left_thrust, command.right_thrust], wanted)
