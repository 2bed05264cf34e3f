"""A browser to try the console in, driven from a thread of its own.

Playwright's plain interface keeps an event loop in its thread for as long as the browser runs,
where nobody else could start one; so the browser and every test of this folder run in one thread
beside (`conftest.py` sends them there). The browser is the distribution's Chromium.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, NoReturn, TypeVar

import pytest
from playwright.sync_api import Browser, Playwright, expect, sync_playwright

T = TypeVar("T")

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip

POPUPS: Final = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup")
"""What drops from the address bar are pages, too: each window of Chromium loads them into a process
of their own, for more than half of what a tab costs. Nobody sees an address bar here."""

PLAYWRIGHTS: Final = (
    "AimEnabled", "AvoidCorsURLLoaderRestartOnRedirect", "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose", "HttpsFirstBalancedModeAutoEnable", "HttpsUpgrades",
    "LensOverlay", "MediaRouter", "NetworkTimeServiceQuerying", "OptimizationHints", "PaintHolding",
    "PreconnectToSearch", "ThirdPartyStoragePartitioning",
)  # fmt: skip
"""What Playwright switches off by itself; a browser hears the last list of features alone."""

FEATURES: Final = f"--disable-features={','.join((*POPUPS, *PLAYWRIGHTS))}"

PATIENCE_MS: Final = 15_000
"""Generous for anything that a page does; reaching it is a failure."""


class Stage:
    """The thread with the browser in it."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="browser")
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None

    @property
    def is_inside(self) -> bool:
        """Whether this is the thread of the browser."""
        return threading.current_thread().name.startswith("browser")

    def run(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises, run in the thread of the browser."""
        return self._thread.submit(work).result()

    @property
    def browser(self) -> Browser:
        """Started when it is first asked for; only inside `run`."""
        if self._browser is None:
            expect.set_options(timeout=PATIENCE_MS)  # by itself it has five seconds
            self._playwright = sync_playwright().start()
            self._browser = self._playwright.chromium.launch(
                executable_path=program(), args=[*FLAGS, FEATURES]
            )
        return self._browser

    def close(self) -> None:
        self.run(self._close)
        self._thread.shutdown()

    def _close(self) -> None:
        if self._browser is not None:
            self._browser.close()
        if self._playwright is not None:
            self._playwright.stop()


@contextmanager
def opened() -> Iterator[Stage]:
    """A stage, whose browser has ended when this has."""
    stage = Stage()
    try:
        yield stage
    finally:
        stage.close()


def program() -> str:
    """Where the browser is."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    return found or missing("chromium is not installed; .ci/run brings it")


def missing(reason: str) -> NoReturn:
    """End the test: something that it needs cannot be had."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
