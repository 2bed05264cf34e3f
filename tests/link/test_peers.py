"""Another user's program is sent away, and another user's socket not talked to (decision 21)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from mqlite_actor.contract import limits
from mqlite_actor.engine.engine import Engine
from mqlite_actor.link import peers
from mqlite_actor.link.client import connect
from tests.conformance.handles import served_links
from tests.engine.gate import bounded
from tests.link.peer import short_path

NOBODY, SOMEBODY = 65534, 54321

# The user is changed within, since not every user may start this interpreter.
CONNECTS = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
with socket.socket(socket.AF_UNIX) as caller:
    caller.connect(sys.argv[1])
    print(len(caller.recv(1)))
"""
LISTENS = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    os.chmod(sys.argv[1], 0o666)
    listener.listen()
    print("listening", flush=True)
    sys.stdin.read()
"""

only_root = pytest.mark.skipif(
    not hasattr(socket, "SO_PEERCRED") or os.geteuid() != 0,
    reason="only root can start programs of other users, only Linux says whose they are",
)


@pytest.fixture
def path() -> Iterator[str]:
    with short_path() as path:
        Path(path).parent.chmod(0o755)
        yield path


@pytest.mark.parametrize(
    ("user", "ours", "allowed"),
    [
        (1000, 1000, "comes, is told"),
        (peers.ROOT, 1000, "comes, is told"),
        (1001, 1000, ""),
        (NOBODY, 1000, ""),
        (1000, peers.ROOT, "is told"),
        (None, 1000, "comes, is told"),
    ],
)
def test_only_the_same_user_and_root_meet(user: int | None, ours: int, allowed: str) -> None:
    assert peers.may_come(user, ours) is ("comes" in allowed)
    assert peers.may_be_told(user, ours) is ("is told" in allowed)


@only_root
@pytest.mark.parametrize(("user", "greeting"), [(NOBODY, 0), (peers.ROOT, 1)])
async def test_whoever_connects_through_a_widened_mode_hears_nothing(
    engine: Engine, path: str, user: int, greeting: int
) -> None:
    with bounded():
        async with served_links(engine, path):
            await trio.Path(path).chmod(0o666)
            words = [sys.executable, "-Ic", CONNECTS, path, str(user)]
            told = await trio.run_process(words, capture_stdout=True)
    assert int(told.stdout) == greeting


@only_root
async def test_whoever_is_sent_away_takes_nobodys_place(
    engine: Engine, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINKS_MAX", 1)
    with bounded():
        async with served_links(engine, path):
            await trio.Path(path).chmod(0o666)
            words = [sys.executable, "-Ic", CONNECTS, path]
            for user, greeting in ((NOBODY, 0), (NOBODY, 0), (peers.ROOT, 1)):
                told = await trio.run_process([*words, str(user)], capture_stdout=True)
                assert int(told.stdout) == greeting


@only_root
def test_a_socket_that_another_user_listens_at_is_not_talked_to(path: str) -> None:
    Path(path).parent.chmod(0o777)
    words = [sys.executable, "-Ic", LISTENS, path, str(NOBODY)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"listening\n"
        trio.run(connect, path).close()  # root may
        os.seteuid(SOMEBODY)
        try:
            with pytest.raises(PermissionError, match="user 65534 listens there"):
                trio.run(connect, path)
        finally:
            os.seteuid(peers.ROOT)
            other.communicate()
