"""Take the screenshots of pages for the documentation: demo.webp, demo_page.png, play_page.png.

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

from train_RL_agents.cli import main as marinenav

STEPS, MILLISECONDS = 44, 160
"""Control steps (of 0.5 s) in the animation, and milliseconds for which a step is shown."""
WIDTH, QUALITY = 960, 60
"""Width (pixels) and quality of the animation."""
SIZE = {"width": 1280, "height": 800}


def screenshot(page: Any) -> Image.Image:
    """Return a screenshot of a page."""
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def animate(page: Any, path: Path) -> None:
    """Write an animation of a page's demo from its start."""
    frames = []
    for _ in range(STEPS):
        page.evaluate("demo.step()")
        page.wait_for_timeout(60)
        frame = screenshot(page)
        size = WIDTH, WIDTH * frame.height // frame.width
        frames.append(frame.resize(size, Image.Resampling.LANCZOS))
    options = {"save_all": True, "append_images": frames[1:], "duration": MILLISECONDS, "loop": 0}
    frames[0].save(path, **options, quality=QUALITY, method=6)


def main() -> None:
    """Write the screenshots."""
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
        page = browser.new_page(viewport=SIZE, reduced_motion="reduce")
        page.goto(demo.as_uri())
        animate(page, out / "demo.webp")
        screenshot(page).save(out / "demo_page.png", optimize=True)
        page.goto(replay.as_uri())
        page.wait_for_function("window.replay")
        page.evaluate("replay.episode(6); replay.seek(20)")
        screenshot(page).save(out / "play_page.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
