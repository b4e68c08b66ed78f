"""Which policies a run may imitate."""

import pytest

from marinenav_env import ConfigError
from tests.refusals import refusal
from tests.train_RL_agents.tiny_runs import new_run
from train_RL_agents.config.building import require_compatible_teacher
from train_RL_agents.config.reading import from_dict
from train_RL_agents.run.checkpoint import TEACHER_FILE, load_policy

pytestmark = pytest.mark.usefixtures("surroundings")


def test_a_run_has_a_copy_of_its_teacher(tmp_path, trained):
    words = ("agent_type=SAC", "imitation_learning=true", f"teacher={trained.path}")
    run = new_run(tmp_path, *words)
    assert (run.path / TEACHER_FILE).read_bytes() == load_policy(trained.path).path.read_bytes()


def test_a_teacher_may_observe_less_than_the_run(tmp_path, trained):
    run = new_run(tmp_path, "imitation_learning=true", f"teacher={trained.path}", "world.sensor.duties=true")
    assert (run.path / TEACHER_FILE).is_file()
    less, more = (from_dict({"world": {"sensor": {"duties": flag}}}) for flag in (False, True))
    require_compatible_teacher(more, less, "t")
    with pytest.raises(ConfigError, match="observes what robots of this run observe"):
        require_compatible_teacher(less, more, "t")
    with pytest.raises(ConfigError, match=r"t: agent\.memory\.kind='frames': must be none"):
        require_compatible_teacher(less, from_dict({"agent": {"memory": {"kind": "frames"}}}), "t")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("world.sensor.max_objects=8", "observes what robots of this run observe"),
        ("world.vessel.left_thrust_change=0,500", "world.vessel.left_thrust_change="),
        ("world.dt=0.5", "world.dt="),
        ("teacher=absent.pt", "absent.pt"),
    ],
)
def test_teachers_that_do_not_fit_are_refused(tmp_path, trained, word, said):
    words = ("imitation_learning=true", f"teacher={trained.path}", word)
    message = refusal(new_run, tmp_path, *words)
    assert said in message and len(message) < 2 * len(str(trained.path)) + 200
    assert not list(tmp_path.iterdir())
