"""Take the screenshots of pages for the documentation: demo.webp, demo_page.webp, play_page.webp.

    python tools/picture_pages.py --out docs

It needs the extra ``browser`` and Chromium. The demo plays its first scenario.
"""

from __future__ import annotations

import argparse
import io
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

from train_RL_agents.commands.cli import main as marinenav

NUM_STEPS = 30
"""Number of control steps (of 0.5 s) in the animation."""
FRAME_DURATION = 160
"""Time for which a step is shown (ms)."""
ANIMATION_WIDTH = 720
"""Width of the animation (pixels)."""
ANIMATION_QUALITY = 20
"""Quality of the animation as WebP, from 0 to 100."""
NUM_COLOURS = 160
"""Number of colours of the screenshots, which keeps them small."""
VIEWPORT_SIZE = {"width": 1280, "height": 800}
"""Size of the browser's window (pixels)."""


def screenshot(page: Any) -> Image.Image:
    """Return a screenshot of a Playwright page."""
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def picture(page: Any, path: Path) -> None:
    """Write a screenshot of a Playwright page to a lossless WebP file."""
    image = screenshot(page).quantize(NUM_COLOURS, kmeans=3, dither=Image.Dither.NONE)
    image.save(path, lossless=True, quality=100, method=6)


def animate(page: Any, path: Path) -> None:
    """Write an animation of the demo in a Playwright page, from its start, to a WebP file."""
    frames = []
    for _ in range(NUM_STEPS):
        page.evaluate("demo.step()")
        page.wait_for_timeout(60)
        frame = screenshot(page)
        size = ANIMATION_WIDTH, ANIMATION_WIDTH * frame.height // frame.width
        frames.append(frame.resize(size, Image.Resampling.LANCZOS))
    options = {"save_all": True, "append_images": frames[1:], "duration": FRAME_DURATION, "loop": 0}
    frames[0].save(path, **options, quality=ANIMATION_QUALITY, method=6)


def main() -> None:
    """Write the animation and the two screenshots."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder; docs by default")
    out = parser.parse_args().out
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        demo, replay = Path(folder) / "demo.html", Path(folder) / "replay.html"
        marinenav(["demo", "ac_iqn", "--no-open", "--out", str(demo)])
        marinenav(["play", "ac_iqn", "ppo", "--episodes", "1", "--seed", "7", "--html", str(replay)])
        program = shutil.which("chromium") or playwright.chromium.executable_path
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport=VIEWPORT_SIZE, reduced_motion="reduce")
        page.goto(demo.as_uri())
        animate(page, out / "demo.webp")
        picture(page, out / "demo_page.webp")
        page.goto(replay.as_uri())
        page.wait_for_function("window.replay")
        page.evaluate("replay.episode(6); replay.seek(20)")
        picture(page, out / "play_page.webp")
        browser.close()


if __name__ == "__main__":
    main()
