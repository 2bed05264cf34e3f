"""Commands that go together do what they would do one after another.

Two writers on stores of their own run the same groups on the same clock, one with the runs of
neighbours and one without; every answer and everything that is stored has to agree. Lock tokens are
random, so a settle names the claim that it settles by its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import LockLost, MqliteError
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine.outcomes import Done
from tests.storage.writer import Writer, writing

LARGE = b"x" * (limits.INLINE_BYTES_MAX + 1)

messages = st.builds(
    Message,
    body=st.sampled_from([b"", b"a", b"b", LARGE]),
    message_id=st.sampled_from(["", "", "m"]),
    group_id=st.sampled_from(["", "", "", "g"]),
    ttl_ms=st.sampled_from([0, 0, 5, 5000]),
)
names = st.sampled_from(["plain", "plain", "plain", "groups", "strict", "dedup", "brief", "none"])
sends = st.builds(
    wire.SendRequest,
    queue=names,
    messages=st.lists(messages, max_size=3),
    ttl_ms=st.sampled_from([0, 0, 7]),
)
receives = st.builds(
    wire.ReceiveRequest,
    queue=names,
    max_messages=st.integers(-1, 3),
    receive_mode=st.sampled_from([0, 0, 0, 1]),
    receive_attempt_id=st.sampled_from(["", "", "", "again"]),
)
settles = st.tuples(st.integers(0, 12), st.booleans())
"""Which of the claims so far, and whether the token is spoilt."""

groups = st.lists(
    st.one_of(
        st.lists(sends, max_size=6),
        st.lists(receives, max_size=6),
        st.lists(settles, max_size=6),
        st.integers(1, 9),
    ),
    max_size=8,
)

Command = wire.Request[Any] | tuple[int, bool]
"""A request, or what `settles` draws."""

CONFIGS = {
    "plain": QueueConfig(),
    "groups": QueueConfig(ordering_mode="group_fifo"),
    "strict": QueueConfig(ordering_mode="strict_fifo"),
    "dedup": QueueConfig(dedup_window_ms=60_000),
    "brief": QueueConfig(default_ttl_ms=6, lock_duration_ms=1000),
}


class Run:
    """One writer and the claims that it gave out, by place."""

    def __init__(self, writer: Writer, *, together: bool) -> None:
        self.writer = writer
        self.claims: list[tuple[str, int, str]] = []
        if not together:
            writer.table.runs = {}
        for name, config in CONFIGS.items():
            writer.create(name, config)

    def step(self, commands: list[Command]) -> list[object]:
        """Run a group; its answers without their tokens."""
        requests = [self._request(each) for each in commands]
        if not requests:
            return []
        seen: list[object] = []
        for request, outcome in zip(requests, self.writer.group(*requests), strict=True):
            if isinstance(request, wire.ReceiveRequest) and isinstance(outcome, Done):
                found = outcome.value.messages
                self.claims += [(request.queue, m.seq_number, m.lock_token) for m in found]
                seen.append([(m.seq_number, m.body, m.delivery_count, m.group_id) for m in found])
            elif isinstance(outcome, Done):
                seen.append(outcome.value)
            else:
                assert isinstance(outcome.error, MqliteError)
                seen.append((type(outcome.error), outcome.error.message))
        return seen

    def _request(self, command: Command) -> wire.Request[Any]:
        if not isinstance(command, tuple):
            return command
        place, is_spoilt = command
        if place >= len(self.claims):
            return wire.CompleteRequest(queue="plain", seq_number=1, lock_token="no token")
        queue, seq, token = self.claims[place]
        return wire.CompleteRequest(
            queue=queue, seq_number=seq, lock_token="0" * 32 if is_spoilt else token
        )

    def stored(self) -> list[object]:
        """Every row that is left, counts included; without tokens."""
        found: list[object] = []
        for name in CONFIGS:
            found.append(self.writer.ask(wire.StatsRequest(queue=name)))
            page = self.writer.ask(wire.PeekRequest(queue=name, max=limits.PEEK_MAX))
            found += page.messages
        return found


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def writer(tmp_path: Path, clock: ManualClock) -> Iterator[Writer]:
    with writing(tmp_path / "q.db", clock=clock) as opened:
        opened.create("q")
        yield opened


@settings(max_examples=150, deadline=None)
@given(groups)
def test_together_or_one_after_another_is_the_same(script: list[Any]) -> None:
    clock = ManualClock()
    with writing(":memory:", clock=clock) as first, writing(":memory:", clock=clock) as second:
        together, apart = Run(first, together=True), Run(second, together=False)
        for group in script:
            if isinstance(group, int):
                clock.advance(group)
                continue
            assert together.step(group) == apart.step(group)
            assert first.store.ledger.last_seq == second.store.ledger.last_seq
        assert together.stored() == apart.stored()
        first.check()


def test_a_claim_that_fills_a_page_leaves_the_rest_for_the_next(writer: Writer) -> None:
    body = b"x" * limits.MESSAGE_BYTES_DEFAULT
    number = limits.PAGE_BYTES_MAX // len(body) + 2
    for _ in range(number):
        writer.send("q", body)
    claims = [wire.ReceiveRequest(queue="q") for _ in range(number)]
    replies = [each.unwrap().messages for each in writer.group(*claims)]
    assert [[m.seq_number for m in found] for found in replies] == [[n + 1] for n in range(number)]


def test_a_pair_that_comes_twice_in_a_run_is_done_once_and_told_twice(writer: Writer) -> None:
    writer.send("q", b"a", b"b")
    first, second = writer.take("q", 2)

    def complete(message: Message, token: str = "") -> wire.CompleteRequest:
        return wire.CompleteRequest(
            queue="q", seq_number=message.seq_number, lock_token=token or message.lock_token
        )

    outcomes = writer.group(
        complete(first), complete(first, second.lock_token), complete(first), complete(second)
    )
    for each in (outcomes[0], outcomes[2], outcomes[3]):
        assert each.unwrap().ok
    with pytest.raises(LockLost):
        outcomes[1].unwrap()
    assert writer.bodies("q") == []
    writer.check()
