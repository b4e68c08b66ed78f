"""Pictures of TensorBoard's pages, by a headless Chromium in front of a real server.

    tensorboard --logdir runs --port 6006 &
    python tools/tensorboard_picture.py docs

writes tensorboard_custom_scalars.png, tensorboard_images.png and tensorboard_histograms.png. It
needs the extra `browser` and Chromium, its own (`playwright install chromium`) or the system's.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

PAGES = {"custom_scalars": (1280, 900), "images": (1280, 900), "histograms": (1280, 480)}
"""Width and height of each page (pixels)."""
PATIENCE = 180_000
"""For the server to answer and the browser to draw, on a busy machine (ms)."""
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]


def take(browser: Any, url: str, name: str, path: Path, seconds: float) -> None:
    """Open a page, give its charts time to appear, and write what is seen."""
    width, height = PAGES[name]
    page = browser.new_page(viewport={"width": width, "height": height})
    page.set_default_timeout(PATIENCE)
    page.goto(f"{url}/#{name}")
    page.wait_for_timeout(1000 * seconds)
    if name == "images":
        page.get_by_text("Show actual image size").click()
        page.wait_for_timeout(1000)
    page.screenshot(path=path)
    page.close()


def main() -> int:
    """Take the pictures asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder of the pictures; it must exist")
    parser.add_argument("--url", default="http://localhost:6006", help="of the server")
    parser.add_argument("--only", nargs="+", choices=PAGES, default=list(PAGES))
    parser.add_argument("--seconds", type=float, default=10.0, help="for a page to appear")
    args = parser.parse_args()
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        print("playwright is not installed: pip install 'marinenav[browser]'", file=sys.stderr)
        return 2
    try:
        with sync_playwright() as playwright:
            found = shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
            for name in args.only:
                path = args.out / f"tensorboard_{name}.png"
                take(browser, args.url, name, path, args.seconds)
                print(path)
    except Error as error:
        print(f"no picture: {str(error).splitlines()[0]}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
