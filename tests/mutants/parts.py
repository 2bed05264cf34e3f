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
    "link/frames.py": ("tests/link/test_frames.py",),
    "link/server.py": ("tests/link/test_server.py",),
}  # fmt: skip
"""Module below mqlite_actor → test files."""
