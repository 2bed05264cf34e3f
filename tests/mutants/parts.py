"""Which tests are to notice what is wrong in which module. The quickest stand first."""

from __future__ import annotations

from typing import Final

_SIMULATION = "tests/simulation"
_LIFE = ("tests/semantics/test_lifecycle_matrix.py", "tests/semantics/test_neighbours.py")
_MODEL = "tests/model/test_model.py"


def _conformance(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/conformance/test_{name}.py" for name in names)


PARTS: Final[dict[str, tuple[str, ...]]] = {
    "semantics/settle.py": (
        *_LIFE, *_conformance("settlement", "receipts", "complete_batch", "renew"), _MODEL,
    ),
    "semantics/receive.py": (
        *_LIFE, *_conformance("peek_lock", "receive_modes", "attempts", "groups", "lanes"), _MODEL,
    ),
    "semantics/send.py": (
        *_conformance("sending", "dedup", "dedup_memory", "topics", "schedule", "limits", "ttl"),
        _MODEL,
    ),
    "semantics/renew.py": (*_LIFE, *_conformance("renew")),
    "semantics/release.py": (*_LIFE, *_conformance("release")),
    "semantics/neighbours.py": (*_LIFE, *_conformance("complete_batch", "groups"), _MODEL),
    "semantics/lifecycle.py": (*_LIFE, *_conformance("settlement", "dead_letters"), _MODEL),
    "semantics/sweep.py": (*_LIFE, *_conformance("ttl", "dead_letters", "peek_lock"), _MODEL),
    "semantics/dead_letters.py": (*_conformance("dead_letters", "redrive"), _MODEL),
    "semantics/selected.py": (
        *_conformance("redrive", "resubmit"), "tests/model/test_model_ext.py",
    ),
    "semantics/clearing.py": (*_conformance("delete_queue", "purge_active"), _MODEL),
    "semantics/routing.py": _conformance("topics", "topic_names", "filters"),
    "semantics/send_result.py": _conformance("send_result"),
    "semantics/cancel.py": (*_conformance("schedule"), "tests/engine/test_observed_events.py"),
    "semantics/keys.py": _conformance("keys", "key_pages"),
    "engine/sweeper.py": ("tests/engine/test_sweeper.py", "tests/engine/test_timers.py"),
    "engine/chores.py": ("tests/engine/test_chores.py", *_conformance("dead_letters")),
    "engine/outbox.py": (
        "tests/engine/test_outbox.py", "tests/engine/test_outbox_verbs.py",
        "tests/engine/test_outbox_limits.py", "tests/engine/test_outbox_cancellation.py",
    ),
    "engine/group.py": (
        "tests/engine/test_group.py", "tests/engine/test_group_faults.py", _SIMULATION, _MODEL,
    ),
    "engine/waiters.py": (
        "tests/engine/test_long_poll.py", "tests/engine/test_cancellation.py", _SIMULATION,
    ),
    "engine/mailbox.py": (
        "tests/engine/test_mailbox.py", "tests/engine/test_cancellation.py", _SIMULATION,
    ),
    "engine/actor.py": (
        "tests/engine/test_cancellation.py", "tests/engine/test_long_poll.py",
        "tests/engine/test_life.py", _SIMULATION,
    ),
    "link/frames.py": (
        "tests/link/test_frames.py", "tests/link/test_client.py", "tests/link/test_server.py",
    ),
    "link/server.py": ("tests/link/test_server.py",),
    "link/client.py": ("tests/link/test_client.py", "tests/link/test_server.py"),
    "link/pipe.py": (
        "tests/link/test_pipe.py", "tests/link/test_client.py", "tests/link/test_server.py",
    ),
}  # fmt: skip
"""Module below mqlite_actor → test files."""
