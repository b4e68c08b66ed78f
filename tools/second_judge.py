"""Compare our verdicts on the rules of the sea with those of a second judge, the package commonocean-rules.

    python -m venv judge && judge/bin/pip install commonocean-rules "shapely<2.1"
    python -m tools.second_judge --judge judge/bin/python --json second_judge.json

The judge is an external program (TU Munich; Krasowski and Althoff, Temporal Logic Formalization of Marine Traffic
Rules, IV 2021; GPL) that runs in an environment of its own: scenario files go in, and the text that it prints comes
out. It reads the tracks of encounters of two vessels, with lengths and times multiplied by SCALE, which makes a control
step its time step of 10 s and keeps speeds. Its formulas stay as they are; added formulas show which duties it sees,
and which part of a rule is broken. ``--ours`` replaces some of its parameters by those of this project.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import torch

from marinenav_env import WorldConfig
from marinenav_env.rules.profiles import with_profile
from marinenav_env.rules.roles import ROLES
from marinenav_env.state import Scenario
from marinenav_env.support.validation import ConfigError
from train_RL_agents.evaluation.judging.policies import ActingOptions, find_evaluated, run_set
from train_RL_agents.evaluation.judging.seamanship import BREACHES, judge
from train_RL_agents.evaluation.judging.verdicts import cohens_kappa
from train_RL_agents.evaluation.running.recording import Recording, present_robots
from train_RL_agents.evaluation.suites.encounter_suites import COURSES_BY_KIND
from train_RL_agents.evaluation.suites.sets import Part
from train_RL_agents.evaluation.suites.suites import make_scenario_set

SCALE = 20.0
"""Factor by which lengths and times of encounters are multiplied for the judge."""
JUDGE_TIME_STEP = 10.0
"""Time step of the judge (s)."""
HULL = (5.0, 2.5)
"""Length and width of vessels (m)."""
Pose = tuple[float, float, float, float]
"""North and east (m), course (rad), speed (m/s)."""
STEPS_AFTER_CLOSEST = 18
"""Number of steps after the closest approach, which is as far as the judge's formulas look ahead."""
SPEED_UP_CODE = """from mtl import ast, evaluator

whole = evaluator.pointwise_sat


def changes(values):
    return [pair for number, pair in enumerate(values) if number == 0 or pair[1] != values[number - 1][1]]


def pointwise_sat(phi, dt=0.1):
    evaluate = whole(phi, dt)
    names = {node.id for node in phi.walk() if isinstance(node, ast.AtomicPred)}

    def reduced(data, *options, **named):
        return evaluate({name: changes(data[name]) for name in names}, *options, **named)

    return reduced


evaluator.pointwise_sat = pointwise_sat
"""
"""Code for the judge's process: formulas get only their own signals, and only where these change, which is 20 times as
fast (package metric-temporal-logic, MIT)."""
POLICIES = ("ppo", "orca", "apf", "straight")
"""Policies that steer all vessels; some break rules, because agreement on vessels that keep all rules shows nothing."""
SEED = 49
"""Seed of the encounters and of the measurement noise."""
DUTIES = ("none", "head-on", "give-way", "overtaking", "stand-on")
"""Duties that both judges tell apart; the vessel that is overtaken stands on, too."""
VERDICTS = ("no duty", "kept", "broken")
"""Possible verdicts on a vessel's duty towards the other vessel."""
PREDICATES = {"head-on": ("R_G4", "head_on"), "give-way": ("R_G3", "crossing"), "overtaking": ("R_G5", "overtake")}
"""Names of the judge's rule and of its predicate by duty; the rule of standing on is R_G6."""
OUR_PARAMETERS = {
    "max_orientation_diff_head_on": "22.5",
    "max_orientation_diff_no_change": "15",
    "sig_orientation_diff": "15",
    "t_horizon_collision_possible": "400",
}
"""This project's values of parameters of the judge, by name: courses and turns (degrees), and the horizon (s)."""


# The encounters, and their marks here -----------------------------------------------------------


def record_encounters(policy: str, episodes: int) -> Recording:
    """Return a recording of encounters of two vessels, both controlled by a policy.

    Args:
        policy: name of a shipped policy or a baseline.
        episodes: number of encounters of each type.
    """
    device = torch.device("cpu")
    evaluated = find_evaluated(policy, "best", device)
    world = WorldConfig() if evaluated.trained is None else evaluated.trained.config.world
    chosen = make_scenario_set("encounters", world, episodes, SEED)
    drawn = replace(chosen, parts=tuple(part for part in chosen.parts if _max_vessels(part) == 2))
    _, recording = run_set(evaluated, drawn, world, ActingOptions(), device, policy)
    if recording is None:
        raise RuntimeError("nothing was recorded")
    return recording


def _max_vessels(part: Part) -> int:
    """Return the largest number of vessels in the scenarios of a part."""
    return int(part.scenarios.robot_mask.sum(-1).max()) if isinstance(part.scenarios, Scenario) else 0


def our_verdicts(recording: Recording) -> list[dict[str, str]]:
    """Return the verdict of the profile ``tum`` on each of the two vessels of every encounter in turn.

    Each has ``duty`` (from DUTIES), ``mark`` (from VERDICTS) and ``part``, the part of the duty that was not done. Of
    several duties of a vessel, the first that it broke counts, or else its first.
    """
    judged = judge(recording, with_profile(recording.rules, "tum"))
    nothing = {"duty": "none", "mark": "no duty", "part": ""}
    rows = [nothing] * (2 * len(recording.steps))
    columns = (judged.episode, judged.own, judged.state.has_duty, judged.state.role, judged.breaches())
    for number, vessel, has_duty, role, breach in zip(*(column.tolist() for column in columns), strict=True):
        place, name = 2 * number + vessel, ROLES[int(role)]
        known = rows[place]["mark"]
        if has_duty and (known == "no duty" or (known == "kept" and breach >= 0)):
            duty = "stand-on" if name == "overtaken" else name
            mark, part = ("kept", "") if breach < 0 else ("broken", BREACHES[breach])
            rows[place] = {"duty": duty, "mark": mark, "part": part}
    return rows


def enlarged_tracks(recording: Recording, number: int) -> list[list[Pose]]:
    """Return the tracks of the vessels of encounter ``number`` of a recording, enlarged by SCALE.

    The judge's formulas need the beginning and the end of an encounter. The tracks begin when the vessels are in range
    of a sensor and end STEPS_AFTER_CLOSEST steps after the closest approach; if an episode ends earlier, vessels keep
    course and speed.
    """
    seen = present_robots(recording.active)[:, number, :2]
    position = recording.poses[:, number, :2, :2]
    distance = torch.linalg.vector_norm(position[:, 0] - position[:, 1], dim=-1)
    in_range = distance <= (recording.sensor_range + recording.detect_radius.flip(-1))[number, :2].max()
    both = seen.all(-1)
    first, closest = int(in_range.to(torch.int8).argmax()), int(torch.where(both, distance, torch.inf).argmin())
    frames, tracks = closest - first + STEPS_AFTER_CLOSEST + 1, []
    for vessel in (0, 1):
        there = seen[first : first + frames, vessel]
        poses = recording.poses[first : first + int(there.sum()), number, vessel].double()
        velocities = recording.velocities[first : first + len(poses), number, vessel].double()
        course = poses[:, 2]
        ahead = (course.cos() * velocities[:, 0] + course.sin() * velocities[:, 1]).clamp_min(0.0)
        states = [(*pose, speed) for pose, speed in zip(poses.tolist(), ahead.tolist(), strict=True)]
        for _ in range(frames - len(states)):
            north, east, course_, speed = states[-1]
            way = speed * recording.dt
            states.append((north + way * math.cos(course_), east + way * math.sin(course_), course_, speed))
        tracks.append([(SCALE * north, SCALE * east, heading, speed) for north, east, heading, speed in states])
    return tracks


def common_ocean_text(tracks: Sequence[Sequence[Pose]], name: str) -> str:
    """Return tracks as dynamic obstacles of a CommonOcean scenario, after a state in which all are at rest.

    Here x is north and y west. Without a navigable area, commonocean-io reads no file.
    """
    stated = {"timeStepSize": str(JUDGE_TIME_STEP), "commonOceanVersion": "2022a", "author": "marinenav"}
    stated |= {"affiliation": "", "source": "marinenav", "benchmarkID": name, "date": "2026-01-01"}
    root = Element("commonOcean", stated)
    location = SubElement(root, "location")
    for tag, number in {"geoNameId": -999.0, "gpsLatitude": 999.0, "gpsLongitude": 999.0}.items():
        SubElement(location, tag).text = f"{number:.0f}"
    SubElement(SubElement(root, "scenarioTags"), "open_sea")
    area = SubElement(SubElement(root, "navigationableArea"), "rectangle")
    side = 4.0 * max(abs(value) for track in tracks for state in track for value in state[:2]) + 100.0
    _add_numbers(area, length=side, width=side, orientation=0.0)
    _add_numbers(SubElement(area, "center"), x=0.0, y=0.0)
    for identifier, track in enumerate(tracks, 1):
        obstacle = SubElement(root, "dynamicObstacle", id=str(identifier))
        SubElement(obstacle, "type").text = "motorvessel"
        shape = SubElement(SubElement(obstacle, "shape"), "rectangle")
        _add_numbers(shape, length=SCALE * HULL[0], width=SCALE * HULL[1])
        _add_state(SubElement(obstacle, "initialState"), 0, (*track[0][:3], 0.0))
        trajectory = SubElement(obstacle, "trajectory")
        for step, state in enumerate(track, 1):
            _add_state(SubElement(trajectory, "state"), step, state)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _add_state(element: Element, step: int, pose: Pose) -> None:
    """Add a pose at a time step to the element of a state."""
    north, east, course, speed = pose
    _add_numbers(SubElement(SubElement(element, "position"), "point"), x=north, y=0.0 - east)
    _add_numbers(SubElement(element, "orientation"), exact=0.0 - course)
    SubElement(SubElement(element, "time"), "exact").text = str(step)
    _add_numbers(SubElement(element, "velocity"), exact=speed)


def _add_numbers(element: Element, **values: float) -> None:
    """Add a child with each name and number, which has all digits but no exponent, as the format allows none."""
    for tag, value in values.items():
        SubElement(element, tag).text = format(Decimal(repr(float(value))), "f")


# The judge --------------------------------------------------------------------------------------


def judge_settings(text: str, parameters: Mapping[str, str]) -> str:
    """Return the judge's settings with added formulas for the parts of its rules, and with other parameters.

    Formulas in ``_steps`` have the bounds of the rules in time steps, as its paper does: in the package they are
    seconds, of which a time step has ten.

    Args:
        text: content of the judge's file ``traffic_rules_ship.yaml``.
        parameters: values that replace parameters of the judge, by name.

    Raises:
        ConfigError: if the settings are not of the form that is expected.
    """
    keeps = "keep__x_ego_x_o"
    formulas = {"R_G6_met": f"G(~{keeps})", "R_G6_held": f"G({keeps} -> no_turning__x_ego_x_o)"}
    for rule, predicate in PREDICATES.values():
        held = f"{predicate}__x_ego_x_o"
        for suffix, factor in (("", 1), ("_steps", int(JUDGE_TIME_STEP))):
            begins = f"(~{held} & G[{factor},{6 * factor}]({held}))"
            formulas[f"{rule}_met{suffix}"] = f"G(~{begins})"
            formulas[f"{rule}_act{suffix}"] = f"G({begins} -> F[0,{12 * factor}](maneuver_{held}))"
    names = ", ".join(("R_G3", "R_G4", "R_G5", "R_G6", *formulas))
    lines = "".join(f"    {name}: {formula}\n" for name, formula in formulas.items())
    changes = {
        r"^traffic_rules_forward:\n": f"traffic_rules_forward:\n{lines}",
        r"^    F_0: \[.*\]": f"    F_0: [{names}]",
        r"^vehicle_dependent_rules: \[.*\]": f"vehicle_dependent_rules: [{names}]",
    }
    changes |= {rf"^    {name}: [0-9.]+": f"    {name}: {value}" for name, value in parameters.items()}
    for pattern, line in changes.items():
        text, count = re.subn(pattern, line, text, flags=re.MULTILINE)
        if count != 1:
            raise ConfigError(f"traffic_rules_ship.yaml: {pattern!r} must be there once")
    return text


def read_verdicts(text: str) -> dict[tuple[str, int], dict[str, bool]]:
    """Return whether each formula of the judge holds, by name, for each pair of scenario and vessel.

    Args:
        text: what the judge printed.

    Raises:
        ConfigError: if the judge did not judge all vessels.
    """
    places = re.findall(r"^\* Scenario: (\S+) - evaluated obs-id: (\d+)", text, re.MULTILINE)
    values = [pair for line in re.findall(r"^\[\(.*\)\]$", text, re.MULTILINE) for pair in ast.literal_eval(line)]
    if not places or [int(vessel) for _, vessel in places] != [vessel for vessel, _ in values]:
        raise ConfigError("the judge printed no list of verdicts")
    verdicts = {}
    for (scenario, vessel), (_, formulas) in zip(places, values, strict=True):
        verdicts[scenario, int(vessel)] = {name.rpartition("_veh_")[0]: value for name, value in formulas.items()}
    return verdicts


def judge_verdict(formulas: Mapping[str, bool], duty: str) -> dict[str, str]:
    """Return the judge's verdict on a vessel: ``duty``, ``mark`` and ``part``, as our_verdicts describes them.

    The judge sees duties at any time, this project only at the beginning of an encounter. If the judge sees several
    duties, that of this project counts, else the first in the order of DUTIES.

    Args:
        formulas: whether each formula holds, by name.
        duty: duty of the vessel by this project.
    """
    rules = {name: rule for name, (rule, _) in PREDICATES.items()} | {"stand-on": "R_G6"}
    seen = [name for name, rule in rules.items() if not formulas[f"{rule}_met"]]
    if not seen:
        return {"duty": "none", "mark": "no duty", "part": ""}
    name = duty if duty in seen else seen[0]
    if formulas[rules[name]]:
        return {"duty": name, "mark": "kept", "part": ""}
    if name == "stand-on":
        return {"duty": name, "mark": "broken", "part": "did not stand on"}
    acted = formulas[f"{rules[name]}_act"]
    return {"duty": name, "mark": "broken", "part": "the encounter goes on" if acted else "no manoeuvre"}


def repair(rules: Path) -> None:
    """Repair a copy of the judge in two places, in which its program is not what its paper says.

    Velocity obstacles are moved by the other's velocity: the program discards the moved one. The bounds of formulas are
    time steps: the program takes them for seconds.
    """
    predicates, settings = rules / "predicates" / "general_predicates_ship.py", rules / "traffic_rules_ship.yaml"
    code = predicates.read_text()
    predicates.write_text(re.sub(r"(?m)^( +)VO\.translate_rotate", r"\1VO = VO.translate_rotate", code))
    step = int(JUDGE_TIME_STEP)

    def in_steps(found: re.Match[str]) -> str:
        return f"{found[1]}[{step * int(found[2])},{step * int(found[3])}]"

    lines = settings.read_text().splitlines(keepends=True)
    settings.write_text(
        "".join(line if "_steps: " in line else re.sub(r"([GF])\[(\d+),(\d+)\]", in_steps, line) for line in lines)
    )


def run_judge(
    python: Path, scenarios: Mapping[str, str], parameters: Mapping[str, str], is_repaired: bool = False
) -> str:
    """Return what the judge prints about scenarios.

    Args:
        python: interpreter of the environment that the judge is installed in.
        scenarios: content of the files by name.
        parameters: values that replace parameters of the judge.
        is_repaired: whether to repair it first.

    Raises:
        ConfigError: if the judge fails, or its settings are not of the expected form.
    """
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip())
    with tempfile.TemporaryDirectory() as folder:
        # A copy, as the settings are a file within the package.
        shutil.copytree(packages / "rules", Path(folder, "rules"))
        file = Path(folder, "rules", "traffic_rules_ship.yaml")
        file.write_text(judge_settings(file.read_text(), parameters))
        if is_repaired:
            repair(file.parent)
        Path(folder, "sitecustomize.py").write_text(SPEED_UP_CODE)
        Path(folder, "encounters").mkdir()
        for name, content in scenarios.items():
            Path(folder, "encounters", f"{name}.xml").write_text(content)
        command = [str(python.absolute()), "-m", "rules.main", "--scenario_directories", "/encounters"]
        command += ["--max_num_scenarios", str(len(scenarios)), "--num_vehicles", str(2 * len(scenarios))]
        environment = os.environ | {"PYTHONPATH": folder}
        run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        raise ConfigError(f"the judge failed: {(run.stdout + run.stderr).strip().splitlines()[-1]}")
    return run.stdout + run.stderr


# Agreement --------------------------------------------------------------------------------------


UNEXPLAINED = "unexplained"
"""Name of the reason of disagreements that no definition explains."""


def explain(our: Mapping[str, str], their: Mapping[str, str], formulas: Mapping[str, bool]) -> str:
    """Return the definition by which two verdicts on a vessel differ, from the judge's formulas about it by name."""
    duty, is_late = their["duty"], their["part"] == "no manoeuvre"
    rule, _ = PREDICATES.get(duty, ("R_G6", ""))
    if our["part"] == "contact":
        return "a contact breaks every duty here, even unconfirmed, and none there"
    if our["part"] == "crossed ahead":
        return "passing ahead breaks the duty to give way here alone"
    if duty == "stand-on" and their["mark"] == "broken" and formulas["R_G6_held"]:
        return "its until is strong: to stand on until the track ends is a breach there"
    if our["duty"] == "none" and duty == "stand-on":
        return "a duty to stand on needs no confirmation there"
    if our["duty"] == "none" and formulas[f"{rule}_met_steps"]:
        return "its bounds are seconds, and its time step ten: one step of risk is enough there"
    if duty == "head-on" and is_late:
        return "its manoeuvre head-on must turn 20 degrees within 5 degrees of the reciprocal course"
    if is_late and formulas[f"{rule}_act_steps"]:
        return "its bounds are seconds: a turn must come within 1.2 of its time steps"
    if is_late and our["mark"] == "kept":
        return "its manoeuvre counts only while the risk goes on, and a turn that ends it does not"
    if their["part"] == "the encounter goes on":
        return "the risk must be over within 18 s of its beginning there"
    if our["duty"] != duty and "none" not in (our["duty"], duty):
        return "roles hold from the beginning of an encounter here, and are those of each step there"
    return UNEXPLAINED


def agreement(
    ours: Sequence[Mapping[str, str]], theirs: Sequence[Mapping[str, str]], formulas: Sequence[Mapping[str, bool]]
) -> dict[str, Any]:
    """Return kappas, confusion matrices and counts of disagreements of the two judges' verdicts on the same vessels.

    ``formulas`` are those of the judge about each vessel, from which disagreements are explained.
    """
    rows = [*zip(ours, theirs, strict=True)]
    causes = Counter(
        explain(*row, seen)
        for row, seen in zip(rows, formulas, strict=True)
        if any(row[0][key] != row[1][key] for key in ("duty", "mark"))
    )
    same_duty = [(our, their) for our, their in rows if our["duty"] == their["duty"] != "none"]
    duty_pairs = [(our["duty"], their["duty"]) for our, their in rows]
    mark_pairs = [(our["mark"], their["mark"]) for our, their in same_duty]
    reasons: Counter[str] = Counter()
    for our, their in rows:
        if (our["duty"], our["mark"]) != (their["duty"], their["mark"]):
            reasons[" | ".join(f"{row['duty']}, {row['mark']}, {row['part'] or '-'}" for row in (our, their))] += 1
    by_duty = {
        duty: [pair for (our, _), pair in zip(same_duty, mark_pairs, strict=True) if our["duty"] == duty]
        for duty in DUTIES[1:]
    }
    return {
        "vessels": len(rows),
        "kappa_duties": cohens_kappa(duty_pairs),
        "kappa_marks_all": cohens_kappa([(our["mark"], their["mark"]) for our, their in rows]),
        "kappa_marks_same_duty": cohens_kappa(mark_pairs),
        "kappa_marks_by_duty": {duty: cohens_kappa(pairs) for duty, pairs in by_duty.items()},
        "duties": _confusion_matrix(duty_pairs, DUTIES),
        "marks": _confusion_matrix([(our["mark"], their["mark"]) for our, their in rows], VERDICTS),
        "marks_by_duty": {duty: _confusion_matrix(pairs, VERDICTS[1:]) for duty, pairs in by_duty.items()},
        "definitions": dict(causes.most_common()),
        "unexplained_share": causes[UNEXPLAINED] / len(rows),
        "disagreements": dict(reasons.most_common()),
    }


def _confusion_matrix(pairs: Sequence[tuple[str, str]], names: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the counts of pairs of classes, by our class and then by that of the judge."""
    counts = Counter(pairs)
    return {first: {second: counts[first, second] for second in names} for first in names}


def export_encounters(policies: Sequence[str], episodes: int) -> Iterator[tuple[str, str, list[dict[str, str]]]]:
    """Yield name and content of each encounter's scenario file, and this project's verdicts on its two vessels."""
    for index, policy in enumerate(policies):
        recording = record_encounters(policy, episodes)
        rows = our_verdicts(recording)
        for number in range(len(recording.steps)):
            name = f"ZAM_Encounter-{index * 10_000 + number + 1}_1_T-1"
            text = common_ocean_text(enlarged_tracks(recording, number), name)
            yield name, text, rows[2 * number : 2 * number + 2]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison, and print its metrics."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--judge", type=Path, required=True, metavar="PYTHON", help="interpreter with commonocean-rules")
    add("--policies", nargs="*", default=POLICIES, help=f"by default {' '.join(POLICIES)}")
    add("--episodes", type=int, default=50, help=f"encounters of each of {len(COURSES_BY_KIND)} kinds; 50 by default")
    add("--ours", action="store_true", help="use our values of the judge's parameters")
    add("--repaired", action="store_true", help="repair the judge in two places first, see repair")
    add("--json", type=Path, help="write figures there")
    options = parser.parse_args(arguments)
    encounters = [*export_encounters(options.policies, options.episodes)]
    parameters = OUR_PARAMETERS if options.ours else {}
    text = run_judge(options.judge, {name: content for name, content, _ in encounters}, parameters, options.repaired)
    verdicts = read_verdicts(text)
    ours = [row for _, _, rows in encounters for row in rows]
    places = [(name, vessel) for name, _, _ in encounters for vessel in (1, 2)]
    theirs = [judge_verdict(verdicts[place], row["duty"]) for place, row in zip(places, ours, strict=True)]
    metrics = agreement(ours, theirs, [verdicts[place] for place in places])
    metrics |= {"parameters": parameters, "repaired": options.repaired}
    print(json.dumps(metrics, indent=1))
    if options.json is not None:
        options.json.write_text(json.dumps(metrics, indent=1) + "\n")


if __name__ == "__main__":
    main()
