"""The socket file: private, never stolen, gone at the end."""

from __future__ import annotations

import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqlite_actor.contract.errors import InvalidArgument, OpenError
from mqlite_actor.link.listening import PATH_BYTES_MAX, bound
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


def test_a_folder_that_does_not_exist_is_refused_in_one_line(path: str) -> None:
    with pytest.raises(OpenError, match="No such file or directory"), bound(f"{path}/link"):
        pass
