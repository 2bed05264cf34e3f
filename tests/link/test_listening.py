"""The socket file: private, never stolen, gone at the end."""

from __future__ import annotations

import errno
import socket
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
import trio
import trio.testing

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidArgument, OpenError
from mqlite_actor.engine.engine import Engine
from mqlite_actor.link import frames
from mqlite_actor.link.client import connect
from mqlite_actor.link.frames import Begun
from mqlite_actor.link.listening import (
    ACCEPT_PAUSE_SECONDS,
    PATH_BYTES_MAX,
    _next,
    _place,
    bound,
    serve_links,
)
from tests.conformance.handles import served_links
from tests.engine.gate import bounded, create, sending, settled, take, taking, until
from tests.link.peer import short_path


@pytest.fixture
def path() -> Iterator[str]:
    with short_path() as path:
        yield path


def test_only_its_owner_can_connect_and_nothing_stays_behind(path: str) -> None:
    with bound(path):
        mode = Path(path).stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
    assert list(Path(path).parent.iterdir()) == []


def test_a_path_where_somebody_answers_is_refused(path: str) -> None:
    with bound(path):
        with pytest.raises(OpenError, match="belongs to a running program"), bound(path):
            pass
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(path)


def test_a_socket_that_a_dead_process_left_is_replaced(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)
    with bound(path), socket.socket(socket.AF_UNIX) as caller:
        caller.connect(path)


def test_a_file_of_that_name_is_left_alone(path: str) -> None:
    Path(path).write_text("mine")
    with pytest.raises(OpenError, match="something else"), bound(path):
        pass
    assert Path(path).read_text() == "mine"
    assert list(Path(path).parent.iterdir()) == [Path(path)]


def test_a_socket_that_another_put_there_meanwhile_is_not_removed(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        with bound(path):
            Path(path).unlink()
            other.bind(path)
        assert Path(path).is_socket()


@pytest.mark.parametrize("path", ["", "/tmp/" + "x" * PATH_BYTES_MAX, "/tmp/a\0b"])
def test_a_path_that_no_socket_can_have_is_refused(path: str) -> None:
    with pytest.raises(InvalidArgument, match="1 to 90 bytes"), bound(path):
        pass


def test_the_longest_path_that_may_be_can_be_bound(path: str) -> None:
    longest = path + "x" * (PATH_BYTES_MAX - len(path))
    with bound(longest), socket.socket(socket.AF_UNIX) as caller:
        caller.connect(longest)


def test_a_socket_that_cannot_take_its_place_leaves_nothing_behind(path: str) -> None:
    Path(path).mkdir()
    with socket.socket(socket.AF_UNIX) as listener, pytest.raises(OpenError, match="directory"):
        _place(listener, path)
    assert list(Path(path).parent.iterdir()) == [Path(path)]


def test_a_folder_that_does_not_exist_is_refused_in_one_line(path: str) -> None:
    with pytest.raises(OpenError, match="No such file or directory"), bound(f"{path}/link"):
        pass


# -- programs --------------------------------------------------------------------------------------


async def hears(path: str) -> trio.socket.SocketType:
    """A program that has said its hello."""
    sock = trio.socket.from_stdlib_socket(await connect(path))
    await sock.send(frames.frame([frames.hello()]))
    return sock


async def test_so_many_programs_are_served_as_may_be_and_the_next_when_one_leaves(
    engine: Engine, path: str, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINKS_MAX", 1)
    heard = trio.Event()

    async def listen(sock: trio.socket.SocketType) -> None:
        assert await sock.recv(1)
        heard.set()

    async with served_links(engine, path):
        first = await hears(path)
        with bounded():
            assert await first.recv(1)
        second = await hears(path)
        nursery.start_soon(listen, second)
        await settled()
        assert not heard.is_set()
        first.close()
        with bounded():
            await heard.wait()
        second.close()


class Refusing(socket.socket):
    """Its first programs cannot be accepted, each for its own reason."""

    reasons: ClassVar[list[int]] = []

    def accept(self) -> tuple[socket.socket, object]:
        if self.reasons:
            raise OSError(self.reasons.pop(0), "on purpose")
        return super().accept()


async def test_who_cannot_be_accepted_now_is_tried_again_and_what_is_wrong_is_told(
    path: str, mock_clock: trio.testing.MockClock
) -> None:
    mock_clock.autojump_threshold = 0
    with (
        Refusing(socket.AF_UNIX, socket.SOCK_STREAM) as listener,
        socket.socket(socket.AF_UNIX) as caller,
    ):
        listener.bind(path)
        listener.listen()
        caller.connect(path)
        listener.reasons[:] = [errno.ECONNABORTED, errno.EMFILE, errno.ENFILE]
        (await _next(listener)).close()
        assert trio.current_time() == pytest.approx(2 * ACCEPT_PAUSE_SECONDS)
        listener.reasons[:] = [errno.EBADF]
        with pytest.raises(OSError, match="on purpose"):
            await _next(listener)


async def test_what_runs_at_the_stop_has_its_grace(engine: Engine, path: str) -> None:
    await create(engine, "q")
    await engine.call(sending("q", b"x"))
    stopping = trio.Event()
    with bound(path) as listener, bounded():
        async with trio.open_nursery() as nursery:
            serve = partial(serve_links, stopping=stopping, grace_seconds=60)
            nursery.start_soon(serve, listener, engine)
            sock = await hears(path)
            await sock.send(frames.frame([frames.encoded_ask(1, taking("q"))]))
            while b"lock_token" not in await sock.recv(1 << 16):
                pass
            stopping.set()
            await settled()
            await sock.send(frames.frame([frames.encoded(Begun(1))]))
        sock.close()
    assert await take(engine, "q") == [], "it was confirmed, and stays with its reader"


async def test_a_program_that_confirms_nothing_holds_up_no_stop(engine: Engine, path: str) -> None:
    await create(engine, "q")
    await engine.call(sending("q", b"x"))
    stopping = trio.Event()
    with bound(path) as listener, bounded():
        async with trio.open_nursery() as nursery:
            serve = partial(serve_links, stopping=stopping, grace_seconds=0.05)
            nursery.start_soon(serve, listener, engine)
            sock = await hears(path)
            await sock.send(frames.frame([frames.encoded_ask(1, taking("q"))]))
            await until(lambda: engine.statistics()["mailbox_commands"] == 0)
            while b"lock_token" not in await sock.recv(1 << 16):
                pass
            stopping.set()
        sock.close()
    assert len(await take(engine, "q")) == 1, "and it goes back"
