"""Pictures of a running world, as pixels and in a window."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from marinenav_env import ConfigError, Curriculum, Level, MarineNavEnv, WorldConfig
from marinenav_env.config import ScenarioConfig
from marinenav_env.pictures import rendering
from marinenav_env.pictures.drawing import VESSEL_COLOURS
from marinenav_env.pictures.rendering import PICTURE_SIZE, Window
from tests.marinenav_env.helpers import simple_episode

pyplot = pytest.importorskip("matplotlib.pyplot", reason="needs the extra plot")


@pytest.fixture(autouse=True)
def _no_display():
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests set; sleeping sets it, too."""
    clock = SimpleNamespace(now=100.0, monotonic=lambda: clock.now)
    clock.sleep = lambda seconds: setattr(clock, "now", clock.now + seconds)
    monkeypatch.setattr(rendering, "time", clock)
    return clock


@pytest.fixture
def lengths(monkeypatch):
    """The numbers of poses of the tracks that are drawn."""
    found, draw = [], rendering.draw_vessel

    def noted(axes, voyage, vessel, step):
        if vessel == 0:
            found.append(len(voyage.poses))
        return draw(axes, voyage, vessel, step)

    monkeypatch.setattr(rendering, "draw_vessel", noted)
    return found


def world(cores=0):
    levels = (Level(3, cores, 2, 20.0),)
    return MarineNavEnv(WorldConfig(max_steps=5), 2, scenarios=Curriculum(levels, pool_size=4, refresh_size=4), seed=0)


def advance(env, step):
    step = env.step(step.update(env.action_spec.one()))["next"]
    return env.maybe_reset(step.exclude(("robots", "reward")))


def share_of(pixels, vessel):
    colour = np.frombuffer(bytes.fromhex(VESSEL_COLOURS[vessel][1:]), np.uint8)
    return (np.abs(pixels.astype(int) - colour).max(-1) <= 1).mean()


@pytest.mark.parametrize("cores", [0, 2])
def test_pixels_show_every_vessel_of_the_first_environment(cores):
    env = world(cores)
    step = env.reset()
    first = env.render()
    assert (first.shape, first.dtype) == ((100 * PICTURE_SIZE, 100 * PICTURE_SIZE, 3), np.uint8)
    assert all(share_of(first, vessel) > 2e-4 for vessel in range(3))
    assert np.array_equal(env.render(), first), "the same state gives the same picture"
    advance(env, step)
    assert not np.array_equal(env.render(), first)


def test_tracks_start_again_with_an_episode(lengths):
    env = world()
    step = env.reset()
    for _ in range(7):
        env.render()
        step = advance(env, step)
    assert lengths == [1, 2, 3, 4, 5, 1, 2]


def test_a_window_shows_the_pixels():
    env = world()
    env.reset()
    env.render("human", 1e6)
    (axes,) = pyplot.figure("marinenav").axes
    assert np.array_equal(axes.images[0].get_array(), env.render())
    env.close()
    assert not pyplot.get_fignums()


def test_a_window_waits_for_the_time_of_a_picture_and_may_be_closed(clock):
    window = Window(fps=10.0)
    for expected in (100.0, 100.1, 100.2):
        window.show(np.zeros((4, 4, 3), np.uint8))
        assert clock.now == pytest.approx(expected)
    assert window.is_open()
    pyplot.close("all")
    assert not window.is_open(), "the user has closed it"


LARGE = Curriculum((Level(1, 0, 0, 20.0, map_size=80.0),), pool_size=4, refresh_size=4)
WIDE = replace(
    simple_episode([(1.0, 1.0, 0.0)], [[90.0, 1.0]]), world=WorldConfig(scenario=ScenarioConfig(128.0, 40.0))
)


@pytest.mark.parametrize(("scenarios", "size"), [(LARGE, (80.0, 80.0)), ([WIDE], (40.0, 128.0))])
def test_the_border_is_of_the_map_of_the_level_or_the_file(monkeypatch, scenarios, size):
    maps, draw = [], rendering.draw_map
    monkeypatch.setattr(rendering, "draw_map", lambda axes, *given: maps.append(axes) or draw(axes, *given))
    env = MarineNavEnv(scenarios=scenarios, seed=0)
    env.reset()
    env.render()
    border = maps[0].patches[0]  # x points up, as north does
    assert (border.get_width(), border.get_height()) == size


@pytest.mark.parametrize(
    ("mode", "fps", "message"),
    [
        ("ansi", 10.0, "mode='ansi': must be rgb_array or human"),
        ("human", 0.0, "render_fps=0.0: must be a number above 0"),
    ],
)
def test_what_cannot_be_shown_is_refused(mode, fps, message):
    env = world()
    env.reset()
    with pytest.raises(ConfigError, match=message):
        env.render(mode, fps)
