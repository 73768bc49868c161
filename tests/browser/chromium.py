"""A browser for the tests: Chromium, wherever it is installed."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page, Playwright, sync_playwright

ARTIFACTS = Path(__file__).parents[1] / "artifacts"  # screenshots; git ignores them
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_MAC_CHROME = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"


@contextlib.contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser. Skips the test where there is none."""
    with sync_playwright() as playwright:
        browser = launch(playwright)
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the tests of a file: ``browser = chromium.browser`` there makes it the file's own fixture."""
    with open_browser() as browser:
        yield browser


def launch(playwright: Playwright) -> Browser:
    """Start it. Skips the test where there is none."""
    args = ["--disable-gpu", "--disable-dev-shm-usage"]
    if os.geteuid() == 0:
        args.append("--no-sandbox")  # as root, Chromium will not start with it
    return playwright.chromium.launch(executable_path=_found(playwright), args=args)


def screenshot(page: Page, name: str) -> None:
    """The page as it is, whole, into tests/artifacts."""
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"{name}.png", full_page=True)


def _found(playwright: Playwright) -> str:
    for name in (*_BROWSERS, _MAC_CHROME):
        if path := shutil.which(name):
            return path
    with contextlib.suppress(Error):
        if Path(playwright.chromium.executable_path).is_file():
            return playwright.chromium.executable_path
    pytest.skip("no Chromium here; to get one: .venv/bin/python -m playwright install --with-deps chromium")
