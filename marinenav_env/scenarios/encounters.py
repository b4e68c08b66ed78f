"""Courses, starts and goals of encounters, in which the courses of all vessels meet at one point."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from marinenav_env.scenarios.draws import COURSES, Draws, examine_until_enough

MIN_COURSE_DIFFERENCE = math.radians(20.0)
"""Default of the smallest difference between the courses of two vessels in an encounter (rad)."""
MAX_HEAD_ON_DEVIATION = math.radians(10.0)
"""Largest deviation of a head-on course from the opposite of the first vessel's course (rad)."""
MEAN_COURSES = (math.pi, -math.pi / 2, math.pi / 2)
"""Mean courses of the other vessels when the first heads north (rad): head-on, from starboard and from port. Crossing
courses deviate from them by up to 90 degrees minus the smallest difference of courses."""
SAME_SPEED_SHARE = 0.99
"""Share of the initial speed of the first vessel below which another one counts as slower."""
MAX_COURSE_CANDIDATES = 256
"""Number of candidates for the courses of an encounter; the first one with the required differences is accepted."""


def smallest_course_difference(course: Tensor, present: Tensor) -> Tensor:
    """Return the least difference between the courses [..., R] of present vessels (rad), [...]; pi if there is one."""
    apart = torch.acos((course[..., None] - course[..., None, :]).cos().clamp(-1.0, 1.0))
    return least_of_pairs(apart, present[..., None] & present[..., None, :], math.pi)


def least_of_pairs(values: Tensor, both: Tensor, default: float = math.inf) -> Tensor:
    """Return the least of values [..., R, R] of pairs of two vessels of which ``both`` are present, [...]."""
    same = torch.eye(values.shape[-1], dtype=torch.bool, device=values.device)
    return torch.where(both & ~same, values, default).amin((-1, -2))


def draw_courses(present: Tensor, draws: Draws, separation: Tensor | float = MIN_COURSE_DIFFERENCE) -> Tensor:
    """Draw the courses [P, R] (rad, clockwise from north) of vessels that meet; the first vessel heads north.

    Any two of the ``present`` ones [P, R] differ by the ``separation`` (rad), a number or [P]; where no candidate
    reaches it, the candidate with the largest difference is taken.
    """
    size, robots = present.shape
    least = (torch.zeros(size, dtype=draws.dtype, device=present.device) + separation)[:, None]

    def examine(draws: Draws, rows: Tensor | slice, count: int) -> tuple[tuple[Tensor, ...], Tensor]:
        numbers = draws.candidates(COURSES, count, (robots - 1, robots - 1), len(MEAN_COURSES))
        courses = _candidate_courses(numbers[0], numbers[1], least[rows])
        closest = smallest_course_difference(courses, present[rows, None]).clamp_max(least[rows])
        best = closest >= closest.amax(-1, keepdim=True)
        number = torch.arange(len(best), device=best.device)
        chosen = courses[number, best.to(torch.int8).argmax(-1)]
        return (chosen,), (closest >= least[rows]).any(-1)

    return examine_until_enough(draws, MAX_COURSE_CANDIDATES, examine)[0]


def _candidate_courses(kind: Tensor, turn: Tensor, least: Tensor) -> Tensor:
    """Return courses [P, B, R] (rad) from indices into MEAN_COURSES and uniform numbers, both [R - 1, P, B]."""
    middle = torch.zeros_like(turn)
    # Filled with scalars, because making a tensor of Python numbers makes the CPU wait for a GPU.
    for number, course in enumerate(MEAN_COURSES):
        middle.masked_fill_(kind == number, course)
    spread = torch.where(kind == 0, MAX_HEAD_ON_DEVIATION, 0.5 * math.pi - least)
    others = middle + spread * (2.0 * turn - 1.0)
    return torch.nn.functional.pad(others.movedim(0, -1), (1, 0)).contiguous()


def starts_and_goals(course: Tensor, before: Tensor, beyond: Tensor, centre: Tensor | float) -> tuple[Tensor, Tensor]:
    """Return the starts and goals [P, R, 2] (m) of vessels on courses [P, R] (rad) that meet at a point.

    ``before`` and ``beyond`` [P, R] are the distances from the start to the point, and from there to the goal (m), and
    ``centre`` is the point [P, 1, 2] (m), or [P, R, 2] one per vessel.
    """
    ahead = torch.stack((course.cos(), course.sin()), -1)
    return centre - before[..., None] * ahead, centre + beyond[..., None] * ahead
