"""Groups of commands on a file that fails, and the judge of what they left behind.

`prepare` makes a file with something for every verb to do. `Trial` runs GROUPS on a copy of it and
keeps what each command was told; `judge` looks at the file, through any connection, and holds the
rule of group commit: told ok means done, told refused means not done, told unknown means either,
and nothing is ever half done.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outcome import Error, Outcome, Value

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import CallerError, OutcomeUnknown
from tests.storage.fault_vfs import Fault, FaultVfs
from tests.storage.writer import Writer, killed_copy, writing

HELD = (b"held 1", b"held 2", b"held 3")
GROUPED = (b"g1", b"g2", b"g3")
BIG = 3_000  # a few pages, so that a write can fail within one body


@dataclass(frozen=True)
class Step:
    """A command of a group and what it would do to bodies: store some, remove some."""

    request: wire.Request[Any]
    stores: tuple[bytes, ...] = ()
    removes: tuple[bytes, ...] = ()
    frees: tuple[bytes, ...] = ()
    locks: tuple[bytes, ...] = ()


def prepare(path: Path) -> dict[bytes, wire.Message]:
    """A file with held, free and grouped messages; the held ones by body."""
    with writing(path) as writer:
        for queue in ("q", "g"):
            writer.create(queue)
        writer.create("d", wire.QueueConfig(dedup_window_ms=60_000))
        writer.send("q", *HELD)
        held = {message.body: message for message in writer.take("q", 3)}
        writer.send("q", b"free")
        batch = [wire.Message(group_id="g", body=body) for body in GROUPED]
        writer.ask(wire.SendRequest(queue="g", messages=batch))
    return held


def send(queue: str, *bodies: bytes) -> Step:
    batch = [wire.Message(body=body, message_id=body[:2].decode()) for body in bodies]
    return Step(wire.SendRequest(queue=queue, messages=batch), stores=bodies)


def groups(held: dict[bytes, wire.Message]) -> list[list[Step]]:
    """Three groups that use most verbs."""

    def lease(body: bytes) -> dict[str, Any]:
        message = held[body]
        return {"queue": "q", "seq_number": message.seq_number, "lock_token": message.lock_token}

    drain = wire.ReceiveRequest(queue="g", receive_mode=1, max_messages=2)
    return [
        [
            send("q", b"a"),
            send("q", b"b1", b"b2" * BIG, b"b3"),
            Step(wire.CompleteRequest(**lease(HELD[0])), removes=HELD[:1]),
            Step(wire.SendRequest(queue="nowhere", messages=[wire.Message()])),
            Step(wire.AbandonRequest(**lease(HELD[1])), frees=HELD[1:2]),
            send("d", b"d1", b"d2"),
        ],
        [
            Step(drain, removes=GROUPED[:2]),
            Step(wire.CompleteRequest(**lease(HELD[2])), removes=HELD[2:]),
            send("q", b"c" * BIG),
        ],
        [send("d", b"e1", b"e2", b"e3")],
    ]


class Trial:
    """One run under one fault."""

    def __init__(self, template: Path, held: dict[bytes, wire.Message], folder: Path) -> None:
        self.path = folder / "q.db"
        shutil.copyfile(template, self.path)
        self.groups = groups(held)
        self.told: list[tuple[Step, Outcome[Any]]] = []

    def run(self, vfs: FaultVfs, fault: Fault, *, synchronous: str) -> None:
        """Run the groups under the fault, then judge: the same connection, the files as a kill
        would leave them, and the file after closing."""
        with writing(self.path, synchronous=synchronous) as writer:
            vfs.arm(fault)
            for group in self.groups:
                outcomes = writer.group(*[step.request for step in group])
                self.told += zip(group, outcomes, strict=True)
            vfs.disarm()
            copy = killed_copy(self.path, self.path.with_name("killed"))
            seen = self.judge(writer)
            writer.send("q", b"after")
        with writing(copy) as dead:
            self.judge(dead)
        with writing(self.path) as again:
            assert self.judge(again) == seen | {b"after"}

    def judge(self, writer: Writer) -> frozenset[bytes]:
        """Hold the rule against what this connection sees; all bodies that it sees."""
        seen = {
            (message.body, message.state)
            for queue in ("q", "g", "d")
            for message in writer.ask(wire.PeekRequest(queue=queue, max=limits.PEEK_MAX)).messages
        }
        writer.check()  # after the first command, which opens a file in doubt anew
        bodies = frozenset(body for body, _ in seen)
        for step, outcome in self.told:
            done = outcome_of(step, outcome)
            judge_presence(bodies, step.stores, done)
            judge_presence(bodies, step.removes, None if done is None else not done)
            for body in step.frees:
                free = (body, "active") in seen
                assert done is None or free is done, (body, outcome)
        self.judge_proofs(writer, bodies)
        return bodies

    def judge_proofs(self, writer: Writer, bodies: frozenset[bytes]) -> None:
        """Receipts and duplicate keys stand exactly where their effect does."""
        settled = {row[0] for row in writer.store.run([("SELECT seq_number FROM receipts", ())])[0]}
        for step, _ in self.told:
            if isinstance(step.request, wire.CompleteRequest):
                assert (step.request.seq_number in settled) is (step.removes[0] not in bodies)
        keys = {row[0].encode() for row in writer.store.run([("SELECT key FROM dedup", ())])[0]}
        assert keys == {body for body in bodies if body[:1] in (b"d", b"e")}


def outcome_of(step: Step, outcome: Outcome[Any]) -> bool | None:
    """True: told that it was done. False: that it was not. None: that nobody knows."""
    if isinstance(outcome, Value):
        return True
    assert isinstance(outcome, Error)
    if isinstance(outcome.error, OutcomeUnknown):
        return None
    refused_anyway = not (step.stores or step.removes or step.frees)
    assert isinstance(outcome.error, CallerError) <= refused_anyway, outcome.error
    return False


def judge_presence(bodies: frozenset[bytes], mine: tuple[bytes, ...], done: bool | None) -> None:  # noqa: FBT001 - three answers, not a switch
    """All of a command's bodies are there, or none; which of the two must be as told."""
    present = {body in bodies for body in mine}
    assert len(present) <= 1, f"half done: {mine[0][:9]!r}"
    assert done is None or present <= {done}, f"told {done}: {mine[0][:9]!r}"
