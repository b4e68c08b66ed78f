"""The demo page's scripts, run by Node or in the page."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from train_RL_agents.figures.page import bundle_module

NODE = shutil.which("node")
CHECKS = bundle_module(Path(__file__).with_name("demo_checks.js"))


def in_node(name, argument):
    """Call one of the checks in Node."""
    if NODE is None:
        pytest.skip("needs node")
    call = f"checks.{name}(JSON.parse(require('fs').readFileSync(0)))"
    source = f"{CHECKS}\nprocess.stdout.write(JSON.stringify({call}))"
    done = subprocess.run([NODE, "-e", source], input=json.dumps(argument), text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def unreached(page, least):
    """The controls of a page that Tab does not reach, or that do not show it; there are at least so
    many controls."""
    page.evaluate("document.activeElement.blur()")
    controls = page.evaluate("""() => Array.from(
      document.querySelectorAll('button, select, input, summary, canvas[tabindex]')).filter(
      (each) => !each.disabled && each.checkVisibility()).map((each, number) => {
        each.dataset.number = number;
        return each.outerHTML.slice(0, 80);
      })""")
    assert len(controls) >= least
    reached = set()
    for _ in range(len(controls) + 2):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("""() => {
          const now = document.activeElement, seen = getComputedStyle(now).outlineStyle === "solid";
          return seen ? now.dataset.number ?? "" : "";
        }""")
        )
    return [each for number, each in enumerate(controls) if str(number) not in reached]
