"""Agreement with a second judge, on what it printed about two encounters."""

import json
import math
import stat

import pytest
import torch

from marinenav_env import ConfigError, WorldConfig
from marinenav_env.rules.roles import ROLES, relative_motion, roles
from marinenav_env.scenarios.common_ocean import parse_common_ocean
from marinenav_env.scenarios.reading import packaged_situations
from marinenav_env.scenarios.situations import scaled_episode
from marinenav_env.support.nodes import parse_xml
from tools import second_judge
from tools.second_judge import (
    OUR_PARAMETERS,
    SCALE,
    STEPS_AFTER_CLOSEST,
    UNEXPLAINED,
    agreement,
    common_ocean_text,
    enlarged_tracks,
    explain,
    judge_settings,
    judge_verdict,
    our_verdicts,
    read_verdicts,
    record_encounters,
    repair,
    run_judge,
)
from train_RL_agents.evaluation.judging.verdicts import cohens_kappa

PRINTED = """\
* Scenario: ZAM_Encounter-4_1_T-1 - evaluated obs-id: 1 - evaluation of rule R_G3: False
* Scenario: ZAM_Encounter-4_1_T-1 - evaluated obs-id: 2 - evaluation of rule R_G3: True
[(1, {'R_G3_veh_2': False, 'R_G4_veh_2': True, 'R_G5_veh_2': False, 'R_G6_veh_2': True, 'R_G6_met_veh_2': True, \
'R_G4_met_veh_2': True, 'R_G4_act_veh_2': True, 'R_G3_met_veh_2': False, 'R_G3_act_veh_2': False, \
'R_G3_act_steps_veh_2': True, \
'R_G5_met_veh_2': False, 'R_G5_act_veh_2': True}), (2, {'R_G3_veh_1': True, 'R_G4_veh_1': True, 'R_G5_veh_1': True, \
'R_G6_veh_1': True, 'R_G6_met_veh_1': False, 'R_G4_met_veh_1': True, 'R_G4_act_veh_1': True, 'R_G3_met_veh_1': True, \
'R_G3_act_veh_1': True, 'R_G5_met_veh_1': True, 'R_G5_act_veh_1': True})]
-----------------------------------
* Scenario: ZAM_Encounter-7_1_T-1 - evaluated obs-id: 1 - evaluation of rule R_G3: True
[(1, {'R_G3_veh_2': True, 'R_G4_veh_2': True, 'R_G5_veh_2': True, 'R_G6_veh_2': False, 'R_G6_met_veh_2': False, \
'R_G4_met_veh_2': True, 'R_G4_act_veh_2': True, 'R_G3_met_veh_2': True, 'R_G3_act_veh_2': True, \
'R_G5_met_veh_2': True, 'R_G5_act_veh_2': True})]
-----------------------------------
{'R_G3': 2, 'R_G4': 3, 'R_G5': 2, 'R_G6': 2}
Num. scenarios: 2
"""
SETTINGS = """\
traffic_rules_forward:
    R_G3: G(a)
traffic_rules_param:
    max_orientation_diff_head_on: 5
    max_orientation_diff_no_change: 10
    sig_orientation_diff: 20
    t_horizon_collision_possible: 420 # 7 min
traffic_rule_sets:
    F_0: [R_G1, R_G2]
activated_traffic_rule_sets: [F_0]
vehicle_dependent_rules: [R_G1, R_G3]
"""


def test_verdicts_of_what_the_judge_printed():
    verdicts = read_verdicts(PRINTED)
    assert [*verdicts] == [("ZAM_Encounter-4_1_T-1", 1), ("ZAM_Encounter-4_1_T-1", 2), ("ZAM_Encounter-7_1_T-1", 1)]
    several, stands_on, other = verdicts.values()
    # Of two duties, that which is seen here counts.
    assert judge_verdict(several, "overtaking") == {
        "duty": "overtaking",
        "mark": "broken",
        "part": "the encounter goes on",
    }
    assert judge_verdict(several, "stand-on") == {"duty": "give-way", "mark": "broken", "part": "no manoeuvre"}
    assert judge_verdict(stands_on, "none") == {"duty": "stand-on", "mark": "kept", "part": ""}
    assert judge_verdict(other, "none") == {"duty": "stand-on", "mark": "broken", "part": "did not stand on"}
    nothing = dict.fromkeys(several, True)
    assert judge_verdict(nothing, "head-on") == {"duty": "none", "mark": "no duty", "part": ""}


@pytest.mark.parametrize("text", ["", "Traceback", PRINTED.replace("obs-id: 2", "obs-id: 3")])
def test_incomplete_verdicts_are_refused(text):
    with pytest.raises(ConfigError, match="printed no list of verdicts"):
        read_verdicts(text)


def test_settings_get_formulas_and_parameters():
    text = judge_settings(SETTINGS, OUR_PARAMETERS)
    assert "    R_G4_met: G(~(~head_on__x_ego_x_o & G[1,6](head_on__x_ego_x_o)))\n" in text
    assert "    R_G4_met_steps: G(~(~head_on__x_ego_x_o & G[10,60](head_on__x_ego_x_o)))\n" in text
    assert "    R_G3: G(a)\n" in text and "    F_0: [R_G3, R_G4, R_G5, R_G6, R_G6_met, " in text
    assert "max_orientation_diff_head_on: 22.5\n" in text and "t_horizon_collision_possible: 400 # 7 min" in text
    assert "sig_orientation_diff: 20\n" in judge_settings(SETTINGS, {})
    with pytest.raises(ConfigError, match="must be there once"):
        judge_settings("traffic_rules_param:\n", {})


def test_disagreements_are_counted_with_both_marks():
    def row(duty, mark, part=""):
        return {"duty": duty, "mark": mark, "part": part}

    first = [row("give-way", "kept"), row("stand-on", "kept"), row("head-on", "broken", "late"), row("none", "no duty")]
    second = [row("give-way", "broken", "no manoeuvre"), row("stand-on", "kept"), *[row("none", "no duty")] * 2]
    seen = {"R_G3_act_steps": True}
    metrics = agreement(first, second, [seen] * 4)
    assert metrics["vessels"] == 4 and metrics["duties"]["head-on"]["none"] == 1
    assert metrics["marks"]["kept"] == {"no duty": 0, "kept": 1, "broken": 1}
    assert metrics["marks_by_duty"]["give-way"]["kept"]["broken"] == 1
    assert metrics["disagreements"] == {
        "give-way, kept, - | give-way, broken, no manoeuvre": 1,
        "head-on, broken, late | none, no duty, -": 1,
    }
    assert metrics["definitions"] == {
        "its bounds are seconds: a turn must come within 1.2 of its time steps": 1,
        UNEXPLAINED: 1,
    }
    assert metrics["unexplained_share"] == 0.25
    assert metrics["kappa_marks_same_duty"] == 0.0 and metrics["kappa_marks_by_duty"]["overtaking"] is None


NOTHING, TURNED, MET = ("none", "no duty", ""), ("give-way", "kept", ""), ("give-way", "broken", "no manoeuvre")


@pytest.mark.parametrize(
    ("our", "their", "formulas", "reason"),
    [
        (("give-way", "broken", "contact"), NOTHING, {}, "a contact breaks every duty here"),
        (("give-way", "broken", "crossed ahead"), TURNED, {}, "passing ahead breaks"),
        (NOTHING, MET, {"R_G3_met_steps": True}, "one step of risk is enough there"),
        (NOTHING, MET, {"R_G3_met_steps": False, "R_G3_act_steps": False}, UNEXPLAINED),
        (TURNED, MET, {"R_G3_act_steps": True}, "within 1.2 of its time steps"),
        (TURNED, MET, {"R_G3_act_steps": False}, "only while the risk goes on"),
        (("head-on", "kept", ""), ("head-on", "broken", "no manoeuvre"), {}, "within 5 degrees of the reciprocal"),
        (NOTHING, ("stand-on", "broken", "did not stand on"), {"R_G6_held": True}, "its until is strong"),
        (NOTHING, ("stand-on", "broken", "did not stand on"), {"R_G6_held": False}, "needs no confirmation there"),
        (TURNED, ("stand-on", "kept", ""), {}, "roles hold from the beginning"),
        (("stand-on", "broken", "did not stand on"), ("stand-on", "kept", ""), {}, UNEXPLAINED),
    ],
)
def test_a_disagreement_has_the_definition_that_causes_it(our, their, formulas, reason):
    names = ("duty", "mark", "part")
    rows = (dict(zip(names, verdict, strict=True)) for verdict in (our, their))
    assert reason in explain(*rows, formulas)


@pytest.mark.heavy
def test_encounters_are_exported_with_beginning_and_end():
    recording = record_encounters("straight", 1)
    rows = our_verdicts(recording)
    assert len(rows) == 10 and rows[0] == {"duty": "head-on", "mark": "broken", "part": "contact"} == rows[1]
    assert [row["duty"] for row in rows[2:6]] == ["give-way", "stand-on", "stand-on", "give-way"]
    own, other = enlarged_tracks(recording, 0)
    assert 2.0 < own[0][3] < 3.0
    reach = float(recording.sensor_range[0, 0] + recording.detect_radius[0, 1])
    # Vessels go on after their collision, and pass through each other.
    distances = [math.dist(*(state[:2] for state in pair)) for pair in zip(own, other, strict=True)]
    assert SCALE * (reach - 2.1) < distances[0] <= SCALE * reach and len(distances) > STEPS_AFTER_CLOSEST
    assert distances[-1] > distances[-STEPS_AFTER_CLOSEST] + SCALE * 20.0


def test_the_format_is_that_of_commonocean_io():
    """Element names and what each must have, as in the published XSD of version 2022a; numbers have no exponent."""
    tracks = [[(1e-9, 0.1 + 0.2, 0.5, 2.0), (9.0, 2.0, 0.7, 3.0)], [(50.0, -7.0, -1.0, 0.0), (51.0, -7.0, -1.0, 1.0)]]
    text = common_ocean_text(tracks, "ZAM_1")
    root = parse_xml(text, "x").value
    tags = ["location", "scenarioTags", "navigationableArea", *["dynamicObstacle"] * 2]
    assert [element.tag for element in root] == tags and "e-" not in text
    stated = "timeStepSize commonOceanVersion author affiliation source benchmarkID date"
    assert {*root.keys()} == {*stated.split()} and [each.get("id") for each in root[3:]] == ["1", "2"]
    state = {"position", "orientation", "time", "velocity"}
    assert {element.tag for element in root.find("dynamicObstacle/initialState")} == state
    read = parse_common_ocean(text, "x")
    assert [ship.speed for ship in read.ships] == [0.0, 0.0] and read.ships[1].position == (50.0, -7.0)
    assert read.ships[1].track == ((10.0, 50.0, -7.0), (20.0, 51.0, -7.0)) and read.ships[0].course == 0.5
    assert [root.findtext(f"dynamicObstacle/initialState/position/point/{axis}") for axis in "xy"] == [
        "0.000000001",
        "-0.30000000000000004",
    ]


@pytest.mark.heavy
def test_the_judge_is_run_as_a_program(tmp_path, monkeypatch, capsys):
    """A stand-in that prints what the judge printed, of every encounter."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "traffic_rules_ship.yaml").write_text(SETTINGS)
    program = tmp_path / "python"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -c ] && {{ echo {tmp_path}; exit; }}\n'
        'ls encounters/ZAM_* >/dev/null 2>&1 || { echo "no file"; exit 1; }\n'
        f"cat <<'END'\n{PRINTED}END\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    assert read_verdicts(run_judge(program, {"ZAM_Encounter-1_1_T-1": "<x/>"}, {}))
    with pytest.raises(ConfigError, match="the judge failed: no file"):
        run_judge(program, {"other": "<x/>"}, {})

    rows = [{"duty": "give-way", "mark": "kept", "part": ""}, {"duty": "stand-on", "mark": "kept", "part": ""}]
    name = "ZAM_Encounter-4_1_T-1"
    monkeypatch.setattr(second_judge, "export_encounters", lambda *_: iter([(name, "<x/>", rows)]))
    metrics = tmp_path / "figures.json"
    second_judge.main(["--judge", str(program), "--json", str(metrics)])
    content = json.loads(metrics.read_text())
    assert content == json.loads(capsys.readouterr().out) and content["vessels"] == 2
    assert content["marks_by_duty"]["stand-on"]["kept"]["kept"] == 1 and content["parameters"] == {}


def test_roles_are_those_of_dnvs_titles():
    """Of 140 ships in 55 situations all but two, whose courses are nearly reciprocal to the own one (158 degrees)."""
    names = {"HO": "head-on", "CR-GW": "give-way", "CR-SO": "stand-on", "OT-GW": "overtaking", "OT-SO": "overtaken"}
    labels = []
    for published in packaged_situations("dnv"):
        episode = scaled_episode(published, WorldConfig())
        pose = torch.tensor([[*start, course] for start, course in zip(episode.start, episode.heading, strict=True)])
        seen = relative_motion(pose[None], torch.tensor(episode.velocity)[None])
        found = [ROLES[number] for number in roles(seen)[0, 1:, 0].tolist()]
        courses = seen.relative_heading[0, 1:, 0].abs().rad2deg().tolist()
        labels += zip((names[title] for title in published.name.split(", ")), found, courses, strict=True)
    differing = [label for label in labels if label[0] != label[1]]
    assert len(labels) == 140 and cohens_kappa([label[:2] for label in labels]) == pytest.approx(0.982, abs=1e-3)
    assert [(second, first) for second, first, _ in differing] == [("give-way", "head-on")] * 2
    assert all(course > 157.5 for *_, course in differing), differing


def test_a_repaired_judge_moves_obstacles_and_counts_steps(tmp_path):
    (tmp_path / "predicates").mkdir()
    predicates, settings = tmp_path / "predicates" / "general_predicates_ship.py", tmp_path / "traffic_rules_ship.yaml"
    predicates.write_text("    VO = make()\n    VO.translate_rotate(v_other,0.0)\n")
    settings.write_text("    R_G3: G[1,6](x)\n    R_G3_met_steps: G[10,60](x)\n")
    repair(tmp_path)
    assert predicates.read_text() == "    VO = make()\n    VO = VO.translate_rotate(v_other,0.0)\n"
    assert settings.read_text() == "    R_G3: G[10,60](x)\n    R_G3_met_steps: G[10,60](x)\n"
