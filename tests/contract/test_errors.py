"""The error tree: every class has its wire code and status, and comes back from a reply as
itself."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import mqlite_actor
from mqlite_actor.contract import errors
from mqlite_actor.contract.errors import MqliteError, from_wire

WIRE: dict[str, tuple[int, type[MqliteError]]] = {
    "invalid_argument": (400, errors.InvalidArgument),
    "group_required": (400, errors.GroupRequired),
    "unauthenticated": (401, errors.Unauthenticated),
    "permission_denied": (403, errors.PermissionDenied),
    "not_found": (404, errors.NotFound),
    "unimplemented": (405, errors.Unimplemented),
    "already_exists": (409, errors.DedupConflict),
    "name_conflict": (409, errors.NameConflict),
    "key_conflict": (409, errors.KeyConflict),
    "lock_lost": (409, errors.LockLost),
    "queue_not_empty": (409, errors.QueueNotEmpty),
    "generation_conflict": (409, errors.GenerationConflict),
    "message_too_large": (413, errors.MessageTooLarge),
    "canceled": (499, errors.Canceled),
    "internal": (500, errors.Internal),
    "outcome_unknown": (503, errors.OutcomeUnknown),
    "unavailable": (503, errors.Unavailable),
    "storage_full": (507, errors.StorageFull),
}
"""The contract's codes: status and class."""


def tree(root: type[MqliteError] = MqliteError) -> Iterator[type[MqliteError]]:
    yield root
    for child in root.__subclasses__():
        yield from tree(child)


for module in pkgutil.walk_packages(mqlite_actor.__path__, "mqlite_actor."):
    importlib.import_module(module.name)  # so that the tree is whole, whichever tests run beside

CLASSES = sorted(set(tree()), key=lambda cls: cls.__name__)


@pytest.mark.parametrize("code", WIRE)
def test_a_code_comes_back_as_its_class_with_its_status(code: str) -> None:
    status, cls = WIRE[code]
    error = from_wire(code, "what and how", status)
    assert type(error) is cls
    assert (error.code, error.http_status) == (code, status)
    assert (error.message, str(error)) == ("what and how", "what and how")


@pytest.mark.parametrize("cls", CLASSES, ids=[cls.__name__ for cls in CLASSES])
def test_every_class_goes_over_the_wire_and_comes_back_as_itself_or_its_parent(
    cls: type[MqliteError],
) -> None:
    sent = cls("what and how")
    found = from_wire(sent.code, sent.message, sent.http_status)
    if sent.code in WIRE:
        assert sent.http_status == WIRE[sent.code][0]
        assert type(found) is WIRE[sent.code][1]
    assert found.message.endswith("what and how")


def test_no_code_is_new_or_lost() -> None:
    assert {cls.code for cls in CLASSES} - {"unsupported"} == set(WIRE)


@pytest.mark.parametrize(
    ("code", "message", "status", "cls"),
    [
        ("", "", 404, errors.Unsupported),
        ("", "<html>", 404, errors.Unsupported),
        ("not_found", "no such path: /x", 404, errors.Unsupported),
        ("not_found", "queue 'no such path' is unknown", 404, errors.NotFound),
        ("brand_new", "m", 409, errors.Internal),
        ("", "", 502, errors.Internal),
    ],
)
def test_a_reply_of_another_broker_is_told_apart(
    code: str, message: str, status: int, cls: type[MqliteError]
) -> None:
    error = from_wire(code, message, status)
    assert type(error) is cls
    assert error.message


def test_the_three_owners_of_an_error_are_told_apart() -> None:
    for cls in CLASSES:
        owners = [
            owner
            for owner in (errors.CallerError, errors.WorldError, errors.Closed, errors.OpenError)
            if issubclass(cls, owner)
        ]
        alone = {MqliteError, errors.Canceled, errors.Unsupported, errors.TxTimeout}
        assert len(owners) == (0 if cls in alone else 1), cls


def test_every_class_says_what_its_reader_should_know() -> None:
    for cls in CLASSES:
        assert cls.__doc__, cls
        assert cls.__doc__ != (cls.__mro__[1].__doc__ or ""), cls


def test_an_unknown_queue_is_a_kind_of_not_found() -> None:
    assert issubclass(errors.QueueNotFound, errors.NotFound)
    assert issubclass(errors.InvalidFilter, errors.InvalidArgument)
