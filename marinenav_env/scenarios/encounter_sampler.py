"""Sampling of encounters, in which the courses of vessels meet at one point.

They start at rest or in motion; some keep their course or misbehave.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from marinenav_env.config import ScenarioConfig
from marinenav_env.levels import BEHAVIOURS, Level
from marinenav_env.scenarios.draws import (
    BEHAVIOUR_CHOICES,
    COURSES,
    DELAYS,
    DISTANCES,
    INITIAL_MOTION,
    PLACE_OFFSETS,
    Draws,
    examine_until_enough,
    scale_to_range,
)

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
MEETING_DISTANCE_RANGE = (15.0, 25.0)
"""Range of the distance (m) from a start, and from a goal, to the point where the courses of an encounter meet."""
MAX_PLACE_OFFSET = 1.5
"""Largest random shift of starts and goals along either axis (m)."""
USUAL_SPEED = 2.0
"""Usual speed of vessels that start in motion (m/s), for the default vessel; others have it times ``speed_scale``."""
SLOW_SPEED_SHARE = 0.4
"""Speed of a slow vessel, which others overtake, as a share of USUAL_SPEED."""
SLOW_VESSEL_PROBABILITY = 0.25
"""Probability that the second vessel is slow in an encounter whose vessels start in motion."""
MAX_SLOW_COURSE_DIFFERENCE = math.radians(20.0)
"""Largest difference between the courses of a slow vessel and of the vessel that overtakes it (rad)."""
MIN_OVERTAKING_DISTANCE = 22.0
"""Smallest initial distance where the first vessel is overtaken (m), beyond the usual sensor range of 20 m."""
DELAY_FACTORS = (1.0, 0.6, 0.3, 0.0)
"""Factors on the drawn delays, tried in this order until no two vessels are too close at the start."""
MAX_MEETING_TIME = 30.0
"""Largest time until vessels that start in motion meet, apart from delays (s)."""
ONSET_LEAD_TIMES = (2.0, 8.0)
"""Smallest and largest time from the start of a misbehaviour until the vessels meet (s), for the default vessel."""


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


class Encounters(NamedTuple):
    """Starts, goals, motion and behaviours of P encounters with R robot slots; values in empty slots do not matter."""

    places: Tensor
    """[4, P, R] x and y of the starts, then x and y of the goals (m)."""
    course: Tensor
    """[P, R] initial course (rad)."""
    speed: Tensor
    """[P, R] initial speed (m/s)."""
    scripted: Tensor
    """[P, R] bool, robots that are not controlled by actions."""
    behaviour: Tensor | None
    """[P, R] int64, index of each scripted robot's behaviour in levels.BEHAVIOURS; None if all scripted robots
    keep course and speed."""
    onset: Tensor | None
    """[P, R] time from the start of the episode until the behaviour begins (s); None if all scripted robots keep course
    and speed."""


def _min_relative_speed(course: Tensor, speed: Tensor, both: Tensor) -> Tensor:
    """Return the smallest relative speed (m/s), [P, 1], of any two vessels of which ``both`` [P, R, R] are present."""
    velocity = speed[..., None] * torch.stack((course.cos(), course.sin()), -1)
    return least_of_pairs((velocity[:, :, None] - velocity[:, None]).norm(dim=-1), both)[:, None]


class EncounterSampler:
    """Sampler of the robots of encounters, for batches of mixed levels.

    ``sides`` [2, L] are the width and height of the map of each level (m); options are the device and type of tensors.
    """

    def __init__(
        self, config: ScenarioConfig, levels: tuple[Level, ...], sides: Tensor, options: dict[str, Any]
    ) -> None:
        self.config, self._sides, device = config, sides, sides.device
        apart = [level.separation or MIN_COURSE_DIFFERENCE for level in levels]
        self._separation = torch.tensor(apart, **options)
        self._traffic = torch.tensor([level.traffic for level in levels], **options)
        self._slow = torch.tensor([level.slow_vessel for level in levels], device=device)
        self._unruly = torch.tensor([level.unruly for level in levels], **options)
        rows = [torch.tensor([BEHAVIOURS.index(name) for name in level.behaviours]) for level in levels]
        self._num_behaviours = torch.tensor([len(row) for row in rows], device=device)
        self._behaviours = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(device)
        self._overtaken = torch.tensor([level.overtaken for level in levels], device=device)
        self._speed_spread, self._time_spread = (
            torch.tensor([getattr(level, name) for level in levels], **options)
            for name in ("speed_spread", "time_spread")
        )
        self._has_delays = any(level.time_spread for level in levels)
        self._has_unruly = any(level.unruly for level in levels)
        self.has_motion = self._has_unruly or any(level.traffic or level.overtaken for level in levels)
        """True if vessels of any level start in motion."""

    def draw(self, level: Tensor, present: Tensor, is_encounter: Tensor, draws: Draws) -> Encounters:
        """Draw encounters of robots whose courses meet at one point, for P scenarios of up to R robots.

        The point is the centre of the map; vessels with a delay meet robot 0 farther along its course. ``level`` [P] is
        the index of the level, and ``present`` [P, R] says which robots are present if the scenario is an encounter,
        ``is_encounter`` [P]; the results of others must be ignored.
        """
        robots = present.shape[-1]
        # Courses in other scenarios are ignored and need no separation.
        separation = self._separation[level] * is_encounter
        course = draw_courses(present, draws, separation)
        scale, usual_speed = self.config.scale, USUAL_SPEED * self.config.speed_scale
        near, far = (scale * distance for distance in MEETING_DISTANCE_RANGE)
        offset, longest = scale * MAX_PLACE_OFFSET, MAX_MEETING_TIME * self.config.time_scale
        before, beyond = near + (far - near) * draws.uniform(DISTANCES, (2,), (1,))
        # Robots on nearly parallel courses start farther from the centre, so that their starts keep apart.
        chord = 2.0 * torch.sin(0.5 * smallest_course_difference(course, present))[:, None]
        apart = self.config.clear_r + 2.0 * offset
        reach = torch.maximum(before, apart / chord).expand(present.shape)
        speed, scripted = torch.zeros_like(course), torch.zeros_like(present)
        behaviour, onset, delay = None, None, None
        if self.has_motion:
            moving = (self._traffic[level] > 0.0) | (self._unruly[level] > 0.0) | self._overtaken[level]
            moving = moving[:, None]
            course, speed, scripted = self._draw_motion(level, moving, course, draws)
            both = present[:, :, None] & present[:, None]
            gap = torch.where(self._overtaken[level][:, None], scale * MIN_OVERTAKING_DISTANCE, apart)
            time = torch.maximum(before / usual_speed, gap / _min_relative_speed(course, speed, both))
            time = time.clamp_max(longest)
            if self._has_delays:
                delay = self._draw_delays(level, course, speed, time, gap, both, draws) * moving
                time = time + delay
            reach = torch.where(moving, speed * time, reach)
            if self._has_unruly:
                scripted, behaviour, onset = self._draw_behaviours(level, scripted, time, draws)
        jitter = 2.0 * draws.uniform(PLACE_OFFSETS, (2,), (robots, 2)) - 1.0
        centre = 0.5 * self._sides[:, level].T[:, None]
        beyond = beyond.expand(present.shape)
        if delay is not None:
            # Each vessel meets the first at its delayed time, and the first's goal lies beyond the last meeting.
            way = speed[:, :1] * delay
            ahead = torch.stack((course[:, :1].cos(), course[:, :1].sin()), -1)
            centre = centre + way[..., None] * ahead
            beyond = torch.cat((beyond[:, :1] + way.amax(-1, keepdim=True), beyond[:, 1:]), -1)
        start, goal = starts_and_goals(course, reach, beyond, centre)
        ends = (torch.stack((start, goal)) + offset * jitter).movedim(-1, 1).flatten(0, 1)
        return Encounters(ends, course, speed, scripted, behaviour, onset)

    def _draw_delays(
        self, level: Tensor, course: Tensor, speed: Tensor, time: Tensor, gap: Tensor, both: Tensor, draws: Draws
    ) -> Tensor:
        """Return how much later than without delays each vessel meets the first one (s), [P, R]; 0 for the first.

        ``time`` [P, 1] is the time until all would meet without delays (s), ``gap`` [P, 1] the smallest distance of two
        starts (m), and ``both`` [P, R, R] says of which pairs both vessels are present.
        """
        velocity = speed[..., None] * torch.stack((course.cos(), course.sin()), -1)
        drawn = draws.uniform(DELAYS, (), speed.shape[1:]) * self._time_spread[level][:, None] * time
        # Empty slots, which only other levels fill, must not delay the last meeting.
        drawn = torch.cat((torch.zeros_like(time), drawn[:, 1:]), -1) * both.any(-1)
        delays = torch.stack([share * drawn for share in DELAY_FACTORS])
        starts = (time + delays)[..., None] * (velocity[:, :1] - velocity)
        distance = (starts[..., :, None, :] - starts[..., None, :, :]).norm(dim=-1)
        closest = least_of_pairs(distance, both)[..., None]
        # Without delays, the smallest distance may be slightly below the gap because of rounding.
        has_room = (closest >= gap) | (delays.amax(-1, keepdim=True) == 0.0)
        first = has_room.to(torch.int8).argmax(0, keepdim=True)
        return delays.gather(0, first.expand(1, *speed.shape))[0]

    def _draw_behaviours(
        self, level: Tensor, scripted: Tensor, time: Tensor, draws: Draws
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the mask of scripted robots, indices of their behaviours in BEHAVIOURS and onsets (s), all [P, R].

        ``scripted`` [P, R] are robots that keep course and speed unless they misbehave, and ``time`` [P, 1 or R] is the
        time until the vessels would meet (s).
        """
        chance, choice, lead = draws.uniform(BEHAVIOUR_CHOICES, (3,), scripted.shape[1:])
        slot = torch.arange(scripted.shape[-1], device=level.device)
        unruly = (chance < self._unruly[level][:, None]) & (slot > 0) & ~(self._slow[level][:, None] & (slot == 1))
        count = self._num_behaviours[level][:, None]
        index = (choice * count).to(torch.int64).minimum(count - 1)
        behaviour = torch.where(unruly, self._behaviours[level].gather(-1, index), 0)
        low, high = (limit * self.config.time_scale for limit in ONSET_LEAD_TIMES)
        onset = torch.where(unruly, (time - scale_to_range(lead, (low, high))).clamp_min(0.0), 0.0)
        return scripted | unruly, behaviour, onset

    def _draw_motion(
        self, level: Tensor, moving: Tensor, course: Tensor, draws: Draws
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return courses (rad), speeds (m/s) and the mask of scripted robots, all [P, R]; use them where ``moving``."""
        traffic, controlled, overtaken, spread = (
            values[level][:, None] for values in (self._traffic, self._slow, self._overtaken, self._speed_spread)
        )
        chance, vary, turn = draws.uniform(INITIAL_MOTION, (3,), course.shape[1:])
        slot = torch.arange(course.shape[-1], device=course.device)
        slow = ((chance[:, :1] < SLOW_VESSEL_PROBABILITY) | controlled) & (slot == 1) & moving
        slow, nearly_ahead = (torch.where(overtaken, slot == first, slow) for first in (0, 1))
        course = torch.where(nearly_ahead, MAX_SLOW_COURSE_DIFFERENCE * (2.0 * turn - 1.0), course)
        share = torch.where(slow, SLOW_SPEED_SHARE, 1.0 + spread * (2.0 * vary - 1.0))
        scripted = torch.where(slow, ~controlled, (chance < traffic) & (slot > 0))
        scripted = torch.where(overtaken & (slot < 2), slot == 1, scripted)
        return course, torch.where(moving, USUAL_SPEED * self.config.speed_scale * share, 0.0), scripted
