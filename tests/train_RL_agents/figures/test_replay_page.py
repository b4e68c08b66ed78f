"""The interactive page: what is in it, and (slow) what a real browser makes of it."""

import base64
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from marinenav_env import ConfigError
from marinenav_env.config import ColregsConfig
from tests.train_RL_agents.recorded import CROSSING_PAIR, small_recording
from train_RL_agents.figures.episode_view import HEAD_ON, NO_RULE, RULES, view_episode
from train_RL_agents.figures.replay_page import write_page


def views(quantiles=True):
    recording = small_recording(quantiles)
    return [view_episode(recording, number + 1) for number in range(len(recording.steps))]


def data_in(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>',
                                page, re.DOTALL)[1])  # fmt: skip


def floats(text, *shape):
    return np.frombuffer(base64.b64decode(text), "<f4").reshape(shape)


# What is in it


def test_page_holds_every_episode():
    ours = views()
    side = data_in(write_page([ours]))["sides"][0]
    assert side["policy"] == "To the goal"
    assert [each["title"] for each in side["episodes"]] == [view.title for view in ours]
    for each, view in zip(side["episodes"], ours, strict=True):
        shape = (each["frames"], each["vessels"])
        assert np.array_equal(floats(each["poses"], *shape, 3), view.poses)
        assert np.array_equal(floats(each["quantiles"], *shape, 8), view.quantiles)
        rule = np.frombuffer(base64.b64decode(each["rule"]), np.uint8).reshape(shape)
        assert np.array_equal(rule, view.rule)
        assert each["goals"] == view.goals.tolist()


def test_each_side_has_the_zones_of_its_world():
    other = ColregsConfig(head_on_x=(0.0, 30.0))
    changed = [replace(view, rules=other) for view in views()]
    sides = data_in(write_page([views(), changed]))["sides"]
    lengths = [max(ahead for ahead, _ in side["zones"][str(HEAD_ON)]) for side in sides]
    assert lengths == [17.0, 30.0]


def test_page_needs_nothing_else():
    page = write_page([views()])
    assert "__REPLAY_DATA__" not in page
    assert not re.search(r"https?:|src=|@import|fetch\(|XMLHttpRequest|url\(", page)
    # The only reference is the icon, which is empty.
    assert re.findall(r'href="([^"]*)"', page) == ["data:,"]


def test_a_name_cannot_end_the_data():
    named = [replace(view, policy="</script><b>") for view in views()]
    page = write_page([named])
    assert page.count("</script>") == write_page([views()]).count("</script>")
    assert data_in(page)["sides"][0]["policy"] == "</script><b>"


def test_policies_that_met_different_scenarios_are_refused():
    ours = views()
    with pytest.raises(ConfigError, match="equally many episodes"):
        write_page([ours, ours[1:]])
    with pytest.raises(ConfigError, match="from the same scenarios"):
        write_page([ours, ours[1:] + ours[:1]])
    with pytest.raises(ConfigError, match="from 1 to 2"):
        write_page([ours] * 3)


# In a browser


@pytest.fixture
def open_page(open_page):
    """Opens a page of these sides."""
    return lambda sides, *address, **options: open_page(write_page(sides), *address, **options)


@pytest.mark.slow
def test_browser_shows_the_recorded_positions(open_page):
    ours = views()
    page = open_page([ours])
    assert page.evaluate("replay.episodes()") == len(ours)
    for number, view in enumerate(ours, 1):
        page.evaluate(f"replay.episode({number})")
        assert page.evaluate("replay.frames()") == view.frames
        for frame in (0, view.frames // 2, view.frames - 1):
            page.evaluate(f"replay.seek({frame})")
            assert page.evaluate("replay.frame()") == frame
            assert page.evaluate("replay.positions()") == view.poses[frame].tolist()


@pytest.mark.slow
def test_browser_scrubs_to_the_frame_asked_for(open_page):
    view = views()[CROSSING_PAIR]
    page = open_page([views()])
    page.select_option("#episode", str(CROSSING_PAIR))
    page.fill("#frame", "9")
    assert page.evaluate("replay.frame()") == 9
    assert page.inner_text("#clock") == f"4.5 of {0.5 * (view.frames - 1):.1f} s, " + (
        f"frame 9 of {view.frames - 1}"
    )
    page.evaluate("replay.seek(100000)")
    assert page.evaluate("replay.frame()") == view.frames - 1
    page.evaluate("replay.seek(-3)")
    assert page.evaluate("replay.frame()") == 0
    page.keyboard.press("ArrowRight")
    assert page.evaluate("replay.frame()") == 1
    chart = page.locator("canvas.chart").bounding_box()
    page.mouse.click(chart["x"] + 62 + (600 - 76) / 2, chart["y"] + 60)
    assert page.evaluate("replay.frame()") == pytest.approx((view.frames - 1) / 2, abs=1)


@pytest.mark.slow
def test_browser_plays_to_the_end_and_pauses(open_page):
    page = open_page([views()])
    page.select_option("#speed", "1")  # so that even a busy machine pauses it before its end
    page.click("#play")
    assert page.evaluate("replay.playing()")
    page.wait_for_function("replay.frame() > 2")
    page.click("#play")
    assert not page.evaluate("replay.playing()")
    frame = page.evaluate("replay.frame()")
    page.wait_for_timeout(300)
    assert page.evaluate("replay.frame()") == frame
    page.select_option("#speed", "10")
    page.click("#play")
    page.wait_for_function("!replay.playing()")
    assert page.evaluate("replay.frame()") == page.evaluate("replay.frames()") - 1


@pytest.mark.slow
def test_browser_draws_hulls_where_the_vessels_are(open_page):
    """A pixel aft of the middle of a hull has the colour of the vessel."""
    page = open_page([views()])
    for follow in ("false", "true"):
        page.evaluate(f"replay.episode(1); replay.vessel(2); replay.follow({follow})")
        page.evaluate("replay.seek(6)")
        for vessel, colour in enumerate(([0, 114, 178], [213, 94, 0])):
            x, y, yaw = page.evaluate("replay.positions()")[vessel]
            # To the side, too: the ring of the other's detection range runs through the middle.
            x += -1.9 * np.cos(yaw) - 0.8 * np.sin(yaw)
            y += -1.9 * np.sin(yaw) + 0.8 * np.cos(yaw)
            across, down = page.evaluate(f"replay.toCanvas(0, {x}, {y})")
            if not (0 < across < 600 and 0 < down < 600):
                continue
            pixel = page.evaluate(
                "([x, y]) => Array.from(document.querySelector('canvas.map').getContext('2d')"
                ".getImageData(Math.round(x), Math.round(y), 1, 1).data)", [across, down],
            )  # fmt: skip
            assert pixel[:3] == colour
        if follow == "true":
            x, y, _ = page.evaluate("replay.positions()")[1]
            assert page.evaluate(f"replay.toCanvas(0, {x}, {y})") == pytest.approx([300, 300])


@pytest.mark.slow
def test_browser_shows_the_numbers_of_the_vessel(open_page):
    view = views()[CROSSING_PAIR]
    frame, vessel = (int(each) for each in np.argwhere(view.rule != NO_RULE)[0])
    page = open_page([views()])
    page.evaluate(f"replay.episode({CROSSING_PAIR + 1}); replay.vessel({vessel + 1})")
    page.evaluate(f"replay.seek({frame})")
    now = page.evaluate("replay.numbers()")
    assert now["speed"] == pytest.approx(view.speed[frame, vessel], rel=1e-5)
    assert now["distance"] == pytest.approx(view.distance[frame, vessel], rel=1e-5)
    assert [now["left"], now["right"]] == view.thrust[frame, vessel].tolist()
    assert now["rule"] == RULES[view.rule[frame, vessel]]
    assert "crossing" in page.inner_text("tr.chosen")


@pytest.mark.slow
def test_browser_shows_two_policies_side_by_side(open_page):
    ours, theirs = views(), [replace(view, policy="Other") for view in views(False)]
    longer = theirs[0].frames
    theirs[0] = replace(theirs[0], poses=theirs[0].poses + np.float32(1.0))
    # Their runs began elsewhere now: the starts must be those of the same scenario.
    theirs[0].poses[0] -= np.float32(1.0)
    page = open_page([ours, theirs])
    assert page.evaluate("replay.sides()") == 2
    assert page.locator("canvas.map").count() == 2
    page.evaluate(f"replay.seek({longer - 2})")
    mine, other = page.evaluate("replay.positions(0)"), page.evaluate("replay.positions(1)")
    assert mine == ours[0].poses[longer - 2].tolist()
    assert other == theirs[0].poses[longer - 2].tolist()
    assert [each.split(":")[0] for each in page.locator("h2").all_inner_texts()] == [
        "To the goal", "Other",
    ]  # fmt: skip


@pytest.mark.slow
def test_browser_keys_work_after_a_click_on_play(open_page):
    page = open_page([views()])
    page.click("#play")
    page.click("#play")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("replay.frame()") == 1
    page.keyboard.press("End")
    assert page.evaluate("replay.frame()") == page.evaluate("replay.frames()") - 1
    page.keyboard.press(" ")  # on the button that has been clicked: once, not twice
    assert page.evaluate("replay.playing()")


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
def test_browser_shows_failures_only(open_page):
    ours = views()
    failed = [number for number, view in enumerate(ours) if view.outcome != "success"]
    assert 0 < len(failed) < len(ours)
    page = open_page([ours])
    page.select_option("#filter", "failure")
    shown = page.evaluate(
        "Array.from(document.getElementById('episode').options)"
        ".filter((each) => !each.disabled).map((each) => Number(each.value))"
    )
    assert shown == failed
    assert int(page.input_value("#episode")) in failed
    assert f"failures ({len(failed)})" in page.inner_text("#filter")


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_browser_fits_and_is_accessible(open_page, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-core")
    page = open_page([views()], viewport={"width": width, "height": 844}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = axe.Axe().run(page).response["violations"]
    assert [(each["id"], [node["target"] for node in each["nodes"]]) for each in found] == []
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (back == "rgb(255, 255, 255)") == (scheme == "light")
