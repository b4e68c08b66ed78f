"""A browser for the tests of pages."""

import shutil
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with sync_api.sync_playwright() as playwright:
        program = CHROMIUM or playwright.chromium.executable_path
        if not Path(program).exists():
            pytest.skip("needs chromium")
        opened = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """Opens HTML; any message in the console or request beyond the file fails the test."""
    complaints, contexts = [], []

    def opened(html, address="", **options):
        file = tmp_path / "page.html"
        file.write_text(html, encoding="utf-8")
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        # Only tests read pixels back.
        page.on(
            "console", lambda message: complaints.append(message.text) if "getImageData" not in message.text else None
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: complaints.append(request.url) if not request.url.startswith(("file:", "data:")) else None,
        )
        page.goto(file.as_uri() + address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
