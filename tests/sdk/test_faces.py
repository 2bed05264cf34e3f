"""All handles have the same verbs: one set of names, signatures and docstrings."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import mqlite_actor as mq
from mqlite_actor.sdk.blocking import SyncHandle, SyncReceivedMessage
from mqlite_actor.sdk.blocking_embedded import SyncEmbedded
from mqlite_actor.sdk.blocking_receiver import SyncReceiver
from mqlite_actor.sdk.blocking_typed import SyncTypedReceiver
from mqlite_actor.sdk.embedded import AsyncioEmbedded, Embedded
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.http_async import HttpHandle
from mqlite_actor.sdk.message import ReceivedMessage
from mqlite_actor.sdk.receiver import Receiver
from mqlite_actor.sdk.transaction import SyncTx, Tx
from mqlite_actor.sdk.typed import TypedReceiver
from tests.services.cli_process import clean_environ

PAIRS = [
    (Handle, SyncHandle),
    (ReceivedMessage, SyncReceivedMessage),
    (Embedded, SyncEmbedded),
    (Tx, SyncTx),
]

ASYNC_ONLY = {"engine"}
SYNC_ONLY = {"close"}
"""What only one colour has: the engine lives in one loop, and a block ends the async handle."""


def verbs(kind: type) -> dict[str, object]:
    return {
        name: each
        for name in dir(kind)
        if not name.startswith("_") and callable(each := getattr(kind, name))
    }


def parameters(verb: object) -> list[tuple[str, object, object]]:
    assert callable(verb)
    found = inspect.signature(verb).parameters.values()
    return [(each.name, each.kind, each.default) for each in found]


@pytest.mark.parametrize(("colour", "other"), PAIRS)
def test_the_blocking_face_has_every_verb_of_the_async_one(colour: type, other: type) -> None:
    assert set(verbs(colour)) - ASYNC_ONLY == set(verbs(other)) - SYNC_ONLY


@pytest.mark.parametrize(("colour", "other"), PAIRS)
def test_the_two_colours_of_a_verb_take_the_same_arguments(colour: type, other: type) -> None:
    for name, verb in verbs(colour).items():
        assert parameters(verb) == parameters(verbs(other)[name]), name


@pytest.mark.parametrize("kind", [Embedded, AsyncioEmbedded, HttpHandle])
def test_every_handle_keeps_the_signatures_of_the_common_one(kind: type) -> None:
    for name, verb in verbs(Handle).items():
        assert parameters(verb) == parameters(getattr(kind, name)), name


@pytest.mark.parametrize(
    ("plain", "typed"), [(Receiver, TypedReceiver), (SyncReceiver, SyncTypedReceiver)]
)
def test_a_typed_receiver_has_all_that_a_plain_one_has(plain: type, typed: type) -> None:
    names = {each for each in dir(plain) if not each.startswith("_")} - {"queue"}
    assert names <= set(dir(typed))
    for name in names:
        assert type(getattr(typed, name)) is type(getattr(plain, name)), name


@pytest.mark.parametrize(
    "kind",
    [
        Handle, SyncHandle, Embedded, SyncEmbedded, Receiver, SyncReceiver, TypedReceiver,
        SyncTypedReceiver,
    ],
)  # fmt: skip
def test_every_verb_says_what_it_does(kind: type) -> None:
    for name, verb in verbs(kind).items():
        assert inspect.getdoc(verb), f"{kind.__name__}.{name}"


def test_blocking_verbs_are_no_coroutines() -> None:
    for name, verb in verbs(SyncHandle).items():
        assert not inspect.iscoroutinefunction(verb), name


@pytest.mark.parametrize("name", mq.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name: str) -> None:
    found = getattr(mq, name)
    if inspect.isclass(found) or inspect.isfunction(found):
        assert inspect.getdoc(found), name


def test_a_blocking_client_brings_no_loop_and_no_database() -> None:
    heavy = "{'trio', 'httpcore', 'apsw', 'anyio', 'asyncio', 'h11'}"
    code = (
        "import sys, mqlite_actor as mq\n"
        "with mq.connect_sync('http://127.0.0.1:1') as q: pass\n"
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env=clean_environ({}),
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
