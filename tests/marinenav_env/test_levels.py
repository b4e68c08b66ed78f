"""Levels: what is refused with which words."""

import re

import pytest

from marinenav_env.levels import Level
from marinenav_env.support.validation import ConfigError

MEETING = {"encounter": True}
OVERTAKEN = {"encounter": True, "overtaken": True}
NO_SLOW = "level.slow_vessel=True: must be false without traffic and a second robot"
NOT_OVERTAKEN = "level.overtaken=True: must be false but in an encounter of two robots or more without slow_vessel"


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        (MEETING | {"num_robots": 7}, "level.num_robots=7: must be at most 6 in an encounter"),
        ({"traffic": 0.5}, "level.traffic=0.5: must be 0 but in an encounter"),
        ({"unruly": 0.5}, "level.unruly=0.5: must be 0 but in an encounter"),
        (MEETING | {"unruly": 1.5}, "level.unruly=1.5: must be at least 0 and at most 1"),
        (MEETING | {"behaviours": ()}, "level.behaviours=(): must be one or more of keep, act_late, "),
        (MEETING | {"behaviours": ("sink",)}, "level.behaviours=('sink',): must be one or more of keep, act_late, "),
        (MEETING | {"slow_vessel": True}, NO_SLOW),
        (MEETING | {"slow_vessel": True, "traffic": 0.1, "num_robots": 1}, NO_SLOW),
        (MEETING | {"speed_spread": 0.5}, "level.speed_spread=0.5: must be 0.3 where no vessel starts in motion"),
        (MEETING | {"time_spread": 0.5}, "level.time_spread=0.5: must be 0.0 where no vessel starts in motion"),
        ({"core_speed": 1.0, "num_cores": 0}, "level.core_speed=1.0: must be 0 without vortex cores"),
        (MEETING | {"behaviours": ("stop",)}, "level.behaviours=('stop',): must be left out without unruly robots"),
        (MEETING | {"speed_reserve": 1.5}, "level.speed_reserve=1.5: must be 0.0 where no vessel starts in motion"),
        (MEETING | {"traffic": 0.1, "speed_reserve": 0.5}, "level.speed_reserve=0.5: must be 0 or at least 1"),
        (OVERTAKEN | {"encounter": False}, NOT_OVERTAKEN),
        (OVERTAKEN | {"num_robots": 1}, NOT_OVERTAKEN),
        (OVERTAKEN | {"traffic": 0.5, "slow_vessel": True}, NOT_OVERTAKEN),
    ],
)
def test_levels_that_cannot_be(options, refused):
    with pytest.raises(ConfigError, match=f"^{re.escape(refused)}"):
        Level(**({"num_robots": 2} | options))
