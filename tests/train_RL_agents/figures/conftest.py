"""A browser for the tests of pages."""

import shutil
from pathlib import Path

import pytest

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
def chromium(request):
    """Chromium, or None where there is none or no Playwright; says which on the terminal."""
    playwright, program = start_playwright()
    opened = playwright and playwright.chromium.launch(executable_path=program, args=list(FLAGS))
    name = f"Chromium {opened.version}" if opened else "Node, with a stand-in for the document"
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"pages run in {name}", flush=True)
    yield opened
    if opened:
        opened.close()
        playwright.stop()


def start_playwright():
    """Playwright and the path of Chromium; None and None without either."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None, None
    playwright = sync_playwright().start()
    program = shutil.which("chromium") or playwright.chromium.executable_path
    if Path(program).exists():
        return playwright, program
    playwright.stop()
    return None, None


@pytest.fixture
def open_page(chromium, tmp_path):
    """Opens HTML; any message in the console or request beyond the file fails the test."""
    if chromium is None:
        pytest.skip("needs Playwright and Chromium")
    complaints, contexts = [], []

    def opened(html, address="", **options):
        file = tmp_path / "page.html"
        file.write_text(html, encoding="utf-8")
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
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
