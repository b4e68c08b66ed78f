"""The page in which a policy steers, in Chromium."""

import json

import numpy as np
import pytest

from marinenav_env.scenarios.scenario_file import parse_scenarios
from tests.train_RL_agents.figures.helpers import page_of, unreached

pytestmark = pytest.mark.slow


@pytest.fixture
def open_demo(open_page):
    """Opens the page of a policy, paused at the start of a scenario of the published levels."""

    def opened(name="dqn", **options):
        page = open_page(page_of(name), **options)
        page.evaluate("demo.pause(); demo.open(50)")
        return page

    return opened


def begin(page, name):
    """Open a scenario."""
    find = "(name) => demo.open(demo.session.scenarios.findIndex((each) => each.name === name))"
    page.evaluate(find, name)


def state(page):
    return page.evaluate("demo.session.now().state")


@pytest.mark.parametrize("name", ["level 6, 1", "head-on, 1", "case 1"])
def test_the_view_fits_the_scene_and_the_window(open_demo, name):
    page = open_demo(viewport={"width": 1280, "height": 800})
    begin(page, name)
    page.wait_for_timeout(100)
    places = [place for vessel in state(page)["vessels"] for place in ([vessel["x"], vessel["y"]], vessel["goal"])]
    found = np.array([page.evaluate("(at) => demo.toCanvas(...at)", each) for each in places])
    size = page.evaluate("document.getElementById('map').clientWidth")
    assert found.min() > 0 and found.max() < size
    assert np.ptp(found, axis=0).max() > 0.6 * size, "as large as there is room"
    assert page.locator("#status").bounding_box()["y"] < 800, "map and controls are in the window"


def test_keys_work_with_any_focus(open_demo):
    page = open_demo("ac_iqn")
    page.keyboard.press("h")
    for name in ("#scenario", "#noise", "#follow", "#step", "summary", "#speed", "#map"):
        page.focus(name)
        page.keyboard.press("3")
        assert page.evaluate("demo.session.helm") == 2
        page.keyboard.down("ArrowUp")
        assert page.evaluate("demo.commanded()") == [1, 1]
        page.keyboard.up("ArrowUp")
        page.keyboard.press(" ")
        assert page.evaluate("demo.playing()")
        page.keyboard.press(" ")
        assert not page.evaluate("demo.playing()")
        page.keyboard.press("1")
    assert page.evaluate("[demo.session.scenario, demo.session.now().state.noise]") == [50, 1]
    page.keyboard.press("h")
    page.focus("#noise")
    page.keyboard.press("ArrowRight")
    assert state(page)["noise"] == 1.5, "sliders keep the keys that move them"


def test_time_goes_on_back_and_on_again(open_demo):
    page = open_demo()
    page.click("#step")
    page.click("#step")
    page.keyboard.press(".")
    there = state(page)
    assert there["steps"] == 3
    page.click("#back")
    page.keyboard.press(",")
    assert state(page)["steps"] == 1
    page.keyboard.press("End")
    assert state(page) == there
    page.keyboard.press("Home")
    assert state(page)["steps"] == 0
    page.fill("#time", "2")
    assert state(page)["steps"] == 2
    page.keyboard.press("Tab")
    page.click("#step")
    assert state(page) == there, "the same noise is drawn again"
    page.click("#play")
    page.wait_for_function("demo.session.at > 4")
    page.keyboard.press(" ")  # on the button that has just been clicked
    assert not page.evaluate("demo.playing()")


def test_pointer_moves_vessels_goals_and_obstacles(open_demo):
    page = open_demo()
    box = page.locator("#map").bounding_box()

    def drag(place, to):
        (x, y), (to_x, to_y) = (page.evaluate("(at) => demo.toCanvas(...at)", each) for each in (place, to))
        page.mouse.move(box["x"] + 1 + x, box["y"] + 1 + y)
        page.mouse.down()
        page.mouse.move(box["x"] + 1 + to_x, box["y"] + 1 + to_y, steps=3)
        page.mouse.up()

    before = state(page)
    vessel = before["vessels"][2]
    drag([vessel["x"], vessel["y"]], [30, 30])
    drag(vessel["goal"], [12, 40])
    drag(before["obstacles"][1][:2], [8, 8])
    after = state(page)
    assert [after["vessels"][2]["x"], after["vessels"][2]["y"]] == pytest.approx([30, 30], abs=0.2)
    assert after["vessels"][2]["goal"] == pytest.approx([12, 40], abs=0.2)
    assert after["obstacles"][1][:2] == pytest.approx([8, 8], abs=0.2)
    assert page.evaluate("demo.session.chosen") == 2
    assert page.evaluate("demo.session.now().observations[2].self_state[1]") != 0


def test_things_are_added_and_removed(open_demo):
    page = open_demo()
    for kind in ("vessel", "obstacle", "vortex"):
        page.click(f"[data-add={kind}]")
    now = state(page)
    assert (len(now["vessels"]), len(now["obstacles"]), len(now["cores"])) == (6, 5, 1)
    page.fill("#current", "5")
    speed = state(page)["cores"][0][2] / (2 * np.pi * 0.5)
    assert speed == pytest.approx(5.0)
    for _ in range(10):
        page.evaluate("demo.step()")
    page.click("#remove")
    assert state(page)["cores"] == []
    page.select_option("#item", "vessel 0")
    page.click("#remove")
    assert len(state(page)["vessels"]) == 5
    page.evaluate("demo.step()")


def test_every_control_is_reached_by_tab(open_demo):
    page = open_demo("ac_iqn")
    page.click("#helm")
    assert unreached(page, least=20) == []


@pytest.mark.parametrize("touch", [False, True])
def test_land_and_a_route_are_drawn_saved_and_opened(open_demo, tmp_path, touch):
    """By a mouse, and by a finger on a narrow page."""
    width = 390 if touch else 1280
    page = open_demo(viewport={"width": width, "height": 800}, has_touch=touch)
    page.locator("#map").scroll_into_view_if_needed()
    touches = page.context.new_cdp_session(page)

    def move(kind, place=None):
        if touch:
            points = [] if place is None else [{"x": place[0], "y": place[1]}]
            touches.send("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": points})
        elif place is not None:
            page.mouse.move(*place)
        if not touch and kind != "Move":
            (page.mouse.down if kind == "Start" else page.mouse.up)()

    def at(north, east):
        box = page.locator("#map").bounding_box()
        across, down = page.evaluate("(at) => demo.toCanvas(...at)", [north, east])
        return box["x"] + across, box["y"] + down

    def press(name):
        page.evaluate("(name) => document.querySelector(name).click()", name)

    press("[data-draw=land]")
    corners = [(20.0, 20.0), (30.0, 20.0), (30.0, 30.0), (20.0, 30.0)]
    move("Start", at(*corners[0]))
    for corner in corners[1:]:
        move("Move", at(*corner))
    move("End")
    press("[data-draw=route]")
    for place in ((10.0, 25.0), (12.0, 40.0)):
        move("Start", at(*place))
        move("End")
    press("[data-draw=route]")
    shown = state(page)
    assert len(shown["shores"]) == 4
    assert shown["vessels"][0]["route"] == [pytest.approx(place, abs=0.2) for place in ((10.0, 25.0), (12.0, 40.0))]
    with page.expect_download() as download:
        press("#save")
    path = tmp_path / "scenario.json"
    download.value.save_as(path)
    (saved,) = parse_scenarios(json.loads(path.read_text()))
    assert (saved.shores, saved.route[0]) == (shown["shores"], shown["vessels"][0]["route"])
    press("#clear")
    assert state(page)["shores"] == []
    page.set_input_files("#file", path)
    page.wait_for_function("demo.session.now().state.shores.length === 4")
    page.evaluate("demo.pause(); demo.seek(0)")
    assert state(page)["vessels"][0]["route"] == saved.route[0]
    path.write_text("{}")
    page.set_input_files("#file", path)
    page.wait_for_function("document.getElementById('status').textContent.includes('no scenario file')")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
