"""The page in which a policy steers, in Chromium."""

import re

import numpy as np
import pytest
import torch

from marinenav_env import WorldConfig
from tests.marinenav_env.helpers import recordings
from tests.train_RL_agents.figures.demo_pages import AGENTS, agree, page_of, pretrained, recordings_agree
from tests.train_RL_agents.figures.javascript import in_page, unreached
from train_RL_agents.exporting.deployed import DeployedAgent


def recorded_observations(count, slots):
    """Observations of active robots of the recorded episodes, with so many slots of objects."""
    found = {name: [] for name in ("self_obs", "objects", "mask")}
    for _, arrays in recordings().values():
        active = arrays["self_obs"].any(-1)
        for name, rows in found.items():
            rows.append(arrays[name][active])
    for name in ("objects", "mask"):  # absent objects are zeros
        missing = slots - found[name][0].shape[1]
        found[name] = [np.pad(rows, [(0, 0), (0, missing), (0, 0)][: rows.ndim]) for rows in found[name]]
    names = zip(("self_state", "objects_state", "objects_mask"), found.values(), strict=True)
    chosen = np.random.default_rng(0).permutation(sum(map(len, found["mask"])))[:count]
    return {name: torch.from_numpy(np.concatenate(rows)[chosen]).double() for name, rows in names}


@pytest.fixture
def open_demo(open_page):
    """Opens the page of a policy, paused at the start of a scenario of the published levels."""

    def opened(name="dqn", **options):
        page = open_page(page_of(name), **options)
        page.evaluate("demo.pause(); demo.open(50)")
        return page

    return opened


@pytest.mark.slow
def test_chromium_reproduces_the_recorded_episodes(open_demo):
    recordings_agree(in_page(open_demo()))


@pytest.mark.slow
@pytest.mark.parametrize("name", AGENTS)
def test_chromium_acts_as_python_on_1000_observations(open_demo, name):
    agent = pretrained(name).agent
    drawn = DeployedAgent(agent).observations(500, seed=3)
    real = recorded_observations(500, drawn["objects_mask"].shape[1])
    both = {entry: torch.cat((drawn[entry], real[entry])) for entry in drawn}
    agree(in_page(open_demo()), agent, both)


def begin(page, name):
    """Open a scenario."""
    find = "(name) => demo.open(demo.session.scenarios.findIndex((each) => each.name === name))"
    page.evaluate(find, name)


def state(page):
    return page.evaluate("demo.session.now().state")


@pytest.mark.slow
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
    assert page.locator("#link").bounding_box()["y"] < 800, "map and controls are in the window"


@pytest.mark.slow
def test_keys_work_with_any_focus(open_demo):
    page = open_demo("ac_iqn")
    page.keyboard.press("h")
    for name in ("#scenario", "#noise", "#follow", "#share", "#step", "summary", "#speed", "#map"):
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
    page.focus("#fields input >> nth=0")
    before = page.evaluate("demo.session.at")
    page.keyboard.press("r")
    assert page.evaluate("demo.session.at") == before, "as fields do what is typed"


@pytest.mark.slow
def test_rounds_against_the_policy_are_shown(open_demo):
    page = open_demo()
    page.keyboard.press("b")
    assert page.evaluate("[demo.playing(), demo.session.helm]") == [True, 0]
    page.evaluate("demo.pause(); while (!demo.contest.last) demo.step()")
    assert page.inner_text("#score") == "You 0, policy 1, ties 0, in 1 round"
    assert page.inner_text("#status").startswith("The policy wins: you ")
    assert page.evaluate("[demo.playing(), demo.session.helm]") == [False, None]
    page.click("#beat")
    page.keyboard.press(" ")
    page.keyboard.press(",")
    assert page.inner_text("#status") == "The round does not count."
    assert page.inner_text("#score") == "You 0, policy 1, ties 0, in 1 round"


@pytest.mark.slow
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


@pytest.mark.slow
def test_keys_take_the_helm(open_demo):
    page = open_demo()
    page.keyboard.press("2")
    page.keyboard.press("h")
    assert page.evaluate("[demo.session.chosen, demo.session.helm]") == [1, 1]
    page.keyboard.down("d")
    page.keyboard.press(".")
    page.keyboard.up("d")
    vessel = state(page)["vessels"][1]
    assert [vessel["left"], vessel["right"]] == [500, -500]
    page.focus("[data-key=ahead]")
    page.keyboard.down("Enter")
    page.evaluate("demo.step()")
    page.keyboard.up("Enter")
    vessel = state(page)["vessels"][1]
    assert [vessel["left"], vessel["right"]] == [1000, 0]
    page.keyboard.press("h")
    assert page.evaluate("demo.session.helm") is None


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_finger_moves_a_vessel(open_demo):
    page = open_demo(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    vessel = state(page)["vessels"][3]
    page.evaluate(
        """([from, to]) => {
      const canvas = document.getElementById('map'), box = canvas.getBoundingClientRect();
      const send = (type, place) => {
        const [x, y] = demo.toCanvas(...place);
        const at = { clientX: box.left + 1 + x, clientY: box.top + 1 + y };
        canvas.dispatchEvent(new PointerEvent(type, { ...at, pointerId: 1, pointerType: 'touch' }));
      };
      canvas.setPointerCapture = () => {};
      send('pointerdown', from);
      send('pointermove', to);
      send('pointerup', to);
    }""",
        [[vessel["x"], vessel["y"]], [27, 27]],
    )
    moved = state(page)["vessels"][3]
    assert [moved["x"], moved["y"]] == pytest.approx([27, 27], abs=0.3)


@pytest.mark.slow
def test_keys_move_and_turn_an_item(open_demo):
    page = open_demo()
    page.focus("#map")
    before = state(page)["vessels"][0]
    page.keyboard.press("ArrowUp")
    page.keyboard.press("e")
    after = state(page)["vessels"][0]
    assert after["x"] == before["x"] + 0.5
    assert after["theta"] == pytest.approx(before["theta"] + np.pi / 36)
    page.select_option("#item", "obstacle 0")
    radius = page.get_by_label("radius (m)")
    radius.focus()
    page.keyboard.press("ArrowUp")
    assert state(page)["obstacles"][0][2] == 1.5


@pytest.mark.slow
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


@pytest.mark.slow
def test_noise_and_risk_are_set(open_demo):
    page = open_demo("iqn")
    page.fill("#noise", "0")
    seen = page.evaluate("Array.from(demo.session.now().observations[0].objects_state)")
    assert seen[4] == pytest.approx(WorldConfig().vessel.detect_radius, abs=1e-12)
    page.uncheck("#configured")
    page.fill("#risk", "0.25")
    assert page.evaluate("demo.session.risk") == 0.25
    assert page.inner_text("#risk-text") == "0.25"
    page.check("#configured")
    assert page.evaluate("demo.session.risk") is None
    assert not open_demo("dqn").is_visible("#risk")


def weather_controls(page):
    return [page.input_value(f"#{name}") for name in ("wind", "direction", "waves")]


@pytest.mark.slow
def test_weather_is_set_by_keys_and_rewound(open_demo):
    page = open_demo()
    calm = {"wind": 0, "direction": 0, "waves": 0}
    assert state(page)["weather"] == calm
    page.evaluate("demo.step()")
    for name, times in (("wind", 8), ("direction", 6), ("waves", 4)):
        page.focus(f"#{name}")
        for _ in range(times):
            page.keyboard.press("ArrowRight")
    expected = {"wind": 8, "direction": np.pi / 2, "waves": 0.4}
    assert state(page)["weather"] == pytest.approx(expected)
    texts = [page.inner_text(f"#{name}-text") for name in expected]
    assert texts == ["8 m/s", "090°", "0.4 m"]
    page.click("[data-add=vortex]")
    page.evaluate("demo.step()")
    page.fill("#time", "0")
    page.wait_for_timeout(100)  # the added vortex, which was chosen, is not there
    assert state(page)["weather"] == calm and weather_controls(page) == ["0", "0", "0"]
    page.fill("#time", "2")
    assert weather_controls(page) == ["8", "90", "0.4"]
    begin(page, "head-on, 1")
    assert state(page)["weather"] == pytest.approx(expected), "kept, as noise is"


@pytest.mark.slow
def test_the_rule_and_the_decision_are_shown(open_demo):
    page = open_demo("ac_iqn")
    begin(page, "head-on, 1")
    for _ in range(20):
        page.evaluate("demo.step()")
        if page.evaluate("demo.session.now().observations[0].rule.name"):
            break
    page.wait_for_timeout(100)
    text = page.inner_text("[data-part=rule]")
    assert text.startswith("Head-on with vessel 2: turn ") and " to starboard, to course " in text
    assert page.locator(".dot").is_visible()
    scores = page.locator("[data-part=scores] tbody td").all_inner_texts()
    assert len(scores) == 25 and all(re.fullmatch(r"−?\d+\.\d\d", each) for each in scores)
    assert "mean (dashed)" in page.inner_text("[data-part=return-text]")
    page = open_demo("ppo")
    assert page.locator("td.chosen").count() == 1
    assert not page.is_visible("[data-part=returns]")


@pytest.mark.slow
def test_a_link_holds_the_state(open_demo, open_page):
    page = open_demo("iqn")
    page.keyboard.press("4")
    page.fill("#noise", "2")
    page.fill("#wind", "8")
    page.fill("#direction", "135")
    page.uncheck("#configured")
    page.fill("#risk", "0.5")
    for _ in range(12):
        page.evaluate("demo.step()")
    page.click("#share")
    link = page.input_value("#link")
    assert link == page.url and len(link) < 2000
    other = open_page(page_of("iqn"), "#" + link.partition("#")[2])
    assert state(other) == state(page)
    assert other.evaluate("[demo.session.chosen, demo.session.risk]") == [3, 0.5]
    for each in (page, other):
        each.evaluate("demo.step(); demo.step()")
    assert state(other) == state(page)
    other.evaluate("location.hash = '#state=AAAA'")
    other.wait_for_function("document.getElementById('status').textContent.includes('does not')")


@pytest.mark.slow
def test_every_control_is_reached_by_tab(open_demo):
    page = open_demo("ac_iqn")
    page.click("#helm")
    assert unreached(page, least=20) == []
