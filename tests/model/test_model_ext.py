"""Random lives in which our own routes are used too, judged step by step by their model.

The settings of tests/model/test_model.py hold here.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test
from msgspec import UNSET

from mqlite_actor.contract import ext, wire
from mqlite_actor.contract.wire import Message, QueueConfig, SettleItem
from tests.model.model_ext import ExtModel
from tests.model.test_model import (
    EXAMPLES,
    PLAIN,
    SEED,
    STEPS,
    EngineLives,
    configs,
    holds,
    messages,
)

patches = st.builds(
    ext.MessagePatch,
    body=st.sampled_from([UNSET, b"", b"edited", b"long" * 400]),
    group_id=st.sampled_from([UNSET, UNSET, "", "g", "h"]),
    properties=st.sampled_from([UNSET, {}, {"k": "v"}]),
)
CHANGED = ("ordering_mode", "lock_duration_ms", "max_delivery_count", "default_ttl_ms")


class ExtLives(EngineLives):
    """Everything, and our own routes."""

    model: ExtModel

    def __init__(self) -> None:
        super().__init__()
        self.model = ExtModel()

    @precondition(lambda self: len(self.leases) > 1)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        leases = data.draw(st.lists(self._leases(), max_size=4))
        queue = leases[0][0] if leases else "q"
        items = [SettleItem(seq, token) for _, seq, token in leases]
        self.ask(ext.ReleaseRequest(queue, items))

    @rule(
        data=st.data(),
        batch=st.lists(messages, min_size=1, max_size=3),
        request_id=st.sampled_from(["", "a", "b"]),
    )
    def send_result(self, data: st.DataObject, batch: list[Message], request_id: str) -> None:
        queue = data.draw(self._places())
        self.ask(ext.SendResultRequest(queue=queue, messages=batch, request_id=request_id))

    @rule(data=st.data(), number=st.sampled_from([1, 2, 3]))
    def bury(self, data: st.DataObject, number: int) -> None:
        """Without it too few die to be picked."""
        queue = data.draw(st.sampled_from(sorted(self.model.queues)))
        batch = [Message(body=b"%d" % each, group_id="gh"[each % 2]) for each in range(number)]
        self.ask(wire.SendRequest(queue=queue, messages=batch))
        known = len(self.leases)
        self.ask(wire.ReceiveRequest(queue=queue, max_messages=number))
        for home, seq, token in self.leases[known:]:
            self.ask(wire.RejectRequest(queue=home, seq_number=seq, lock_token=token))

    @precondition(holds("dead_lettered"))
    @rule(data=st.data(), into=st.sampled_from(["", "", *PLAIN, "unknown"]), patch=patches)
    def pick_dead_letters(self, data: st.DataObject, into: str, patch: ext.MessagePatch) -> None:
        numbers = data.draw(st.lists(self._numbers("dead_lettered"), min_size=1, max_size=4))
        queue = self._home(numbers[0])
        requests: list[wire.Request[Any]] = [
            ext.RedriveSelectedRequest(queue, numbers, into),
            ext.ResubmitRequest(queue, numbers[0], patch, into),
        ]
        self.ask(data.draw(st.sampled_from(requests)))

    @precondition(holds("active"))
    @rule(
        data=st.data(),
        off=st.sampled_from([0, 0, 0, 1]),
        most=st.sampled_from([0, 1, 2]),
        older_than_ms=st.sampled_from([0, 0, 1, 5_000]),
    )
    def purge_active(self, data: st.DataObject, off: int, most: int, older_than_ms: int) -> None:
        queue = self._home(data.draw(self._numbers("active")))
        seen = sum(row.shown.state == "active" for row in self.model.of(queue))
        request = ext.PurgeActiveRequest(
            queue, expected_count=seen + off, max=most, older_than_ms=older_than_ms
        )
        self.ask(request)

    @rule(data=st.data(), config=configs, names=st.sets(st.sampled_from(CHANGED)))
    def update(self, data: st.DataObject, config: QueueConfig, names: set[str]) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.queues)))
        patch = msgspec.convert({each: getattr(config, each) for each in names}, ext.QueuePatch)
        (reply,) = self.driver.ask([ext.UpdateQueueRequest(name, patch)])
        assert isinstance(reply, ext.UpdateQueueResponse)
        expected = self.model.update(name, patch)
        for each in CHANGED:
            assert getattr(reply.config, each) == (getattr(expected, each) or _default(each))

    @rule(data=st.data())
    def explain(self, data: st.DataObject) -> None:
        seq = data.draw(st.integers(1, self.model.last_seq + 1))
        queue = self._home(seq)
        if queue not in self.model.queues:
            return
        (reply,) = self.driver.ask([ext.ExplainRequest(queue, seq)])
        assert isinstance(reply, ext.ExplainResponse)
        assert isinstance(reply.message, ext.Finding)
        expected = self.model.why(queue, seq, self.clock.now_ms())
        assert (reply.reason, reply.message.blocked_by) == expected

    @rule(data=st.data(), state=st.sampled_from(["", "active", "dead_lettered"]))
    def search(self, data: st.DataObject, state: str) -> None:
        queue = data.draw(st.sampled_from(sorted(self.model.queues)))
        wanted = data.draw(messages)
        request = ext.SearchRequest(
            queue=queue,
            state=state,
            group_id=wanted.group_id,
            message_id=wanted.message_id,
            body_text=wanted.body.decode(),
            include_bodies=True,
        )
        (page,) = self.driver.ask([request])
        assert isinstance(page, ext.SearchResponse)
        expected = [
            row.shown
            for row in self.model.of(queue)
            if state in ("", row.shown.state)
            and wanted.group_id in ("", row.shown.group_id)
            and wanted.message_id in ("", row.shown.message_id)
            and wanted.body in row.shown.body
        ]
        assert [each.message for each in page.messages] == expected[:32]


def _default(name: str) -> int | str:
    return "standard" if name == "ordering_mode" else 0


def test_our_own_routes_live_as_their_model_says() -> None:
    run_state_machine_as_test(
        seed(int(SEED))(ExtLives) if SEED else ExtLives,
        settings=settings(
            max_examples=EXAMPLES // 2,
            stateful_step_count=STEPS,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
            print_blob=True,
        ),
    )
