"""The console in a real browser at a real broker, for every test of this folder.

A test here is a plain function; it runs in the browser's thread. It is given a `scene`: a tab of
its own, at a broker that all tests of the folder share, so each makes queues of its own names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext

from tests.console.browser import PATIENCE_MS, Stage, opened
from tests.console.scene import Scene
from tests.services.broker_process import TOKEN, BrokerProcess, started

MakeScene = Callable[..., Scene]
MakeBroker = Callable[..., BrokerProcess]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that looks at the stage where the browser is."""
    stage = pyfuncitem.funcargs.get("stage")
    if not isinstance(stage, Stage):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters  # funcargs has what they need, too
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    stage.run(lambda: pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    with opened() as stage:
        yield stage


@pytest.fixture(scope="session")
def console_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("console")
    with started(folder, MQLITE_DB=":memory:") as broker:
        yield broker


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[MakeBroker]:
    """Starts brokers that no other test has been at; `environ` are their variables."""
    with ExitStack() as running:

        def make(**environ: str) -> BrokerProcess:
            return running.enter_context(started(tmp_path, **{"MQLITE_DB": ":memory:", **environ}))

        yield make


@pytest.fixture
def make_scene(
    stage: Stage,
    make_broker: MakeBroker,  # noqa: ARG001  # asked for so that its brokers outlive the tabs
) -> Iterator[MakeScene]:
    """Opens tabs, and checks each at the end; `options` are Playwright's, of a context."""
    made: list[tuple[Scene, BrowserContext]] = []

    def make(broker: BrokerProcess, *, token: str = TOKEN, **options: object) -> Scene:
        def opened() -> Scene:
            chosen: dict[str, Any] = {"viewport": {"width": 1200, "height": 800}, **options}
            context = stage.browser.new_context(**chosen)
            context.set_default_timeout(PATIENCE_MS)
            scene = Scene(context.new_page(), broker, token)
            made.append((scene, context))
            return scene

        return opened() if stage.is_inside else stage.run(opened)

    yield make
    try:
        for scene, _ in made:
            stage.run(scene.check)
    finally:
        for _, context in made:
            stage.run(context.close)


@pytest.fixture
def scene(make_scene: MakeScene, console_broker: BrokerProcess) -> Scene:
    return make_scene(console_broker)
