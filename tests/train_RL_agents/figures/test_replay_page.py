"""The interactive page: what is in it, and (slow) what a real browser makes of it."""

import base64
import zlib
from dataclasses import replace

import numpy as np
import pytest

from marinenav_env import ConfigError
from marinenav_env.config import ColregsConfig
from tests.train_RL_agents.figures.helpers import CROSSING_PAIR, HEAD_ON_PAIR, data_in, small_recording, unreached
from train_RL_agents.commands.cli import main
from train_RL_agents.figures.episode_view import HEAD_ON, NO_RULE, RULE_NAMES, view_episode
from train_RL_agents.figures.replay_page import NEAR_MISS_CLEARANCE, NON_FINITE_CODE, STEPS_PER_UNIT, make_page


def views(quantiles=True):
    recording = small_recording(quantiles)
    return [view_episode(recording, number + 1) for number in range(len(recording.steps))]


def arrays_in(episode):
    """What changes with time, [T+1, R, N] by name, as the page's scripts read it."""
    data, found = zlib.decompress(base64.b64decode(episode["data"])), {}
    for name, entries, steps in episode["arrays"]:
        size = 4 * episode["frames"] * episode["vessels"] * entries
        planes = np.frombuffer(data[:size], np.uint8).reshape(4, -1)
        change = planes.T.copy().view("<i4").reshape(episode["vessels"], entries, -1)
        whole = np.moveaxis(change.cumsum(-1, dtype=np.int32), -1, 0)
        found[name], data = np.where(whole == NON_FINITE_CODE, np.inf, whole / steps), data[size:]
    assert not data
    return found


# What is in it


def test_page_holds_every_episode():
    episodes = views()
    side = data_in(make_page([episodes]))["sides"][0]
    assert side["policy"] == "To the goal"
    assert [each["title"] for each in side["episodes"]] == [view.title for view in episodes]
    for each, view in zip(side["episodes"], episodes, strict=True):
        found = arrays_in(each)
        assert np.abs(found["poses"] - view.poses).max() <= 0.000501
        assert np.abs(found["quantiles"] - view.quantiles).max() <= 0.0101
        assert np.array_equal(found["rule"][..., 0], view.rule)
        assert np.array_equal(found["phase"], view.phase) and np.array_equal(found["role"], view.role)
        assert np.array_equal(np.isinf(found["gap"][..., 0]), np.isinf(view.clearance))
        assert each["goals"] == pytest.approx(view.goals, abs=1e-4)


def test_numbers_of_any_size_are_kept():
    """What is beyond the range of the page's integers ends there, and does not turn around."""
    view = views()[0]
    scores = np.zeros((*view.active.shape, 3), np.float32)
    scores[2], scores[3, 0, 0], scores[3, 0, 1] = [-1e30, 1e30, -2e7], np.inf, np.nan
    (side,) = data_in(make_page([[replace(view, scores=scores)]]))["sides"]
    found = arrays_in(side["episodes"][0])["scores"]
    most = (NON_FINITE_CODE - 1) / STEPS_PER_UNIT["scores"]
    assert found[2, 0].tolist() == pytest.approx([-most, most, -2e7])
    assert np.isinf(found[3, 0, :2]).all() and not found[4:].any()


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["ac_iqn", "iqn", "ppo"])
def test_sixty_episodes_take_less_than_2_mb(tmp_path, policy):
    assert main(["play", policy, "--html", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert len(data_in(page)["sides"][0]["episodes"]) == 60
    assert len(page.encode()) < 2_000_000


def test_each_side_has_the_zones_of_its_world():
    other = ColregsConfig(head_on_x=(0.0, 30.0))
    changed = [replace(view, rules=other) for view in views()]
    sides = data_in(make_page([views(), changed]))["sides"]
    lengths = [max(ahead for ahead, _ in side["zones"][RULE_NAMES[HEAD_ON]]) for side in sides]
    assert lengths == [17.0, 30.0]


def test_policies_that_met_different_scenarios_are_refused():
    episodes = views()
    for others in (episodes[1:], episodes[1:] + episodes[:1]):
        with pytest.raises(ConfigError, match="of the same scenarios"):
            make_page([episodes, others])


# In a browser


@pytest.fixture
def open_page(open_page):
    """Opens a page of these sides, and waits until it has unpacked them."""

    def opened(sides, *address, **options):
        page = open_page(make_page(sides), *address, **options)
        page.wait_for_function("window.replay")
        return page

    return opened


def rounded(view, frame):
    """Positions of a frame, but for what the page rounds."""
    return [pytest.approx(pose, abs=0.00051) for pose in view.poses[frame].tolist()]


@pytest.mark.slow
def test_browser_scrubs_to_the_frame_asked_for(open_page):
    view = views()[CROSSING_PAIR]
    page = open_page([views()])
    page.select_option("#episode", str(CROSSING_PAIR))
    page.fill("#frame", "9")
    assert page.evaluate("replay.frame()") == 9
    assert page.inner_text("#clock") == f"4.5 of {0.5 * (view.frames - 1):.1f} s, " + (f"step 9 of {view.frames - 1}")
    page.evaluate("replay.seek(100000)")
    assert page.evaluate("replay.frame()") == view.frames - 1
    page.evaluate("replay.seek(-3)")
    assert page.evaluate("replay.frame()") == 0
    page.keyboard.press("ArrowRight")
    assert page.evaluate("replay.frame()") == 1
    chart = page.locator("[data-part=charts] svg").first.bounding_box()
    place = chart["x"] + 44 + (chart["width"] - 58) / 2, chart["y"] + 60
    page.mouse.move(*place)
    middle = (view.frames - 1) / 2
    seconds = float(page.inner_text("[data-part=charts] output").split(" s")[0])
    assert seconds == pytest.approx(0.5 * middle, abs=0.5)
    page.mouse.click(*place)
    assert page.evaluate("replay.frame()") == pytest.approx(middle, abs=1)


@pytest.mark.slow
def test_browser_shows_the_numbers_of_the_vessel(open_page):
    view = views()[CROSSING_PAIR]
    frame, vessel = (int(each) for each in np.argwhere(view.rule != NO_RULE)[0])
    page = open_page([views()])
    page.evaluate(f"replay.episode({CROSSING_PAIR + 1}); replay.vessel({vessel + 1})")
    page.evaluate(f"replay.seek({frame})")
    shown = "replay.sessions[0].now()"
    now = page.evaluate(f"{shown}.state.vessels[{vessel}]")
    assert np.hypot(now["gx"], now["gy"]) == pytest.approx(view.speed[frame, vessel], abs=1e-3)
    assert now["gap"] == pytest.approx(view.clearance[frame, vessel], abs=1e-3)
    assert [now["left"], now["right"]] == pytest.approx(view.thrust[frame, vessel], abs=0.051)
    assert page.evaluate(f"{shown}.observations[{vessel}].rule.name") == RULE_NAMES[view.rule[frame, vessel]]
    assert "crossing" in page.inner_text("tr.chosen")
    other = page.inner_text("[data-part=rule]")
    assert other.startswith(f"Vessel {2 - vessel} crosses from starboard: turn ")
    terms = {name: term[frame, vessel] for name, term in view.reward_terms.items()}
    assert page.evaluate(f"{shown}.outcomes[{vessel}].terms") == pytest.approx(terms, abs=1e-3)
    assert page.locator("[data-part=reward] tr").count() == len(terms) + 1


@pytest.mark.slow
def test_browser_shows_values_of_the_alternatives(open_page):
    (view,) = views()[:1]
    pairs = np.float32([(left, right) for left in (-500, 0, 500) for right in (-500, 0, 500)])
    scores = np.broadcast_to(np.arange(9, dtype=np.float32), (*view.active.shape, 9))
    rates = np.broadcast_to(np.float32([0, 500]), view.rates.shape)
    page = open_page([[replace(view, scores=scores, commands=pairs, rates=rates)]])
    cells = page.locator("[data-part=scores] tbody td")
    assert cells.all_inner_texts() == [f"{value:.2f}" for value in (6, 7, 8, 3, 4, 5, 0, 1, 2)]
    assert page.inner_text("td.chosen") == "5.00"
    assert page.inner_text("[data-part=decision]") == "left +0, right +500 N/s"
    assert [page.inner_text(f"[data-part={end}]") for end in ("low", "high")] == ["0.00", "8.00"]
    assert not open_page([views()]).is_visible("[data-part=scores]")


@pytest.mark.slow
def test_browser_marks_and_jumps_to_what_happens(open_page):
    episodes = views()
    page = open_page([episodes])
    page.evaluate(f"replay.episode({HEAD_ON_PAIR + 1})")
    view, found = episodes[HEAD_ON_PAIR], page.evaluate("replay.marks()")
    gap, frame, vessel = view.closest_approach
    assert [frame, "▲", f"Closest approach, {gap:.1f} m, vessel {vessel + 1}", vessel] in found
    ends = {glyph: (at, text) for at, glyph, text, _ in found if glyph in "×"}
    at = int(view.collided[:, 0].argmax())
    assert (at, "Vessel 2 collides") == ends["×"]
    assert page.locator("#marks text").count() == sum(bool(glyph) for _, glyph, *_ in found)
    page.keyboard.press("End")
    page.keyboard.press("Home")
    page.keyboard.press("n")
    assert page.evaluate("replay.frame()") == min(each[0] for each in found if each[0])
    assert page.inner_text("#status").endswith(" s).")
    page.keyboard.press("End")
    page.keyboard.press("n")
    assert page.inner_text("#status") == "There is no further mark."


@pytest.mark.slow
def test_browser_shows_two_policies_side_by_side(open_page):
    episodes, other_episodes = views(), [replace(view, policy="Other") for view in views(False)]
    longer = other_episodes[0].frames
    other_episodes[0] = replace(other_episodes[0], poses=other_episodes[0].poses + np.float32(1.0))
    # Their runs began elsewhere now: the starts must be those of the same scenario.
    other_episodes[0].poses[0] -= np.float32(1.0)
    page = open_page([episodes, other_episodes])
    assert page.evaluate("replay.sessions.length") == 2
    assert page.locator("canvas.map").count() == 2
    page.evaluate(f"replay.seek({longer - 2})")
    places = "({ state }) => state.vessels.map(({ x, y, theta }) => [x, y, theta])"
    mine, other = page.evaluate(f"replay.sessions.map((each) => each.now()).map({places})")
    assert mine == rounded(episodes[0], longer - 2)
    assert other == rounded(other_episodes[0], longer - 2)
    assert [each.split(":")[0] for each in page.locator("h2").all_inner_texts()] == ["To the goal", "Other"]


@pytest.mark.slow
def test_browser_goes_to_the_address_and_names_it(open_page):
    page = open_page([views()], f"#episode={CROSSING_PAIR + 1}&frame=4&vessel=2")
    assert page.evaluate("[replay.frame(), document.getElementById('vessel').value]") == [4, "1"]
    assert page.input_value("#episode") == str(CROSSING_PAIR)
    page.keyboard.press("ArrowRight")
    page.wait_for_function("location.hash.includes('frame=5')")
    page.evaluate("location.hash = '#episode=2&frame=3'")
    page.wait_for_function("replay.frame() === 3")
    assert page.input_value("#episode") == "1"
    page.evaluate("location.hash = '#episode=99'")
    page.wait_for_timeout(50)
    assert page.input_value("#episode") == "1"


@pytest.mark.slow
def test_browser_shows_failures_and_near_misses_only(open_page):
    episodes = views()
    first = next(number for number, view in enumerate(episodes) if view.outcome == "success")
    episodes[first] = replace(episodes[first], clearance=np.full_like(episodes[first].clearance, 0.5))
    failed = [number for number, view in enumerate(episodes) if view.outcome != "success"]
    near = [
        number
        for number, view in enumerate(episodes)
        if view.outcome != "collision" and (view.closest_approach or [9.0])[0] < NEAR_MISS_CLEARANCE
    ]
    page = open_page([episodes])
    for which, wanted in (("failure", failed), ("near", near)):
        page.select_option("#filter", which)
        shown = page.evaluate(
            "Array.from(document.getElementById('episode').options)"
            ".filter((each) => !each.disabled).map((each) => Number(each.value))"
        )
        assert shown == wanted and 0 < len(shown) < len(episodes)
        assert int(page.input_value("#episode")) in shown


@pytest.mark.slow
def test_browser_reaches_every_control_by_tab_and_keys_work_with_any_focus(open_page):
    page = open_page([views()])
    assert unreached(page, least=10) == []
    page.click("#play")
    page.keyboard.press(" ")  # on the button that has been clicked: once, not twice
    assert not page.evaluate("replay.playing()")
    for name in ("#episode", "#vessel", "#follow", "#next", "#frame", "summary"):
        page.focus(name)
        page.keyboard.press("2")
        assert page.input_value("#vessel") == "1"
        page.keyboard.press("1")
        page.keyboard.press(" ")
        assert page.evaluate("replay.playing()")
        page.keyboard.press(" ")
        assert not page.evaluate("replay.playing()") and page.input_value("#episode") == "0"
    page.focus("#follow")
    page.keyboard.press("Enter")
    assert page.is_checked("#follow")
