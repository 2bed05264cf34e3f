"""Random lives of two queues, judged step by step by the model.

The machine asks engine and model the same, compares every answer, and after each step everything
that can be seen. `MQLITE_MODEL_EXAMPLES` sets the number of lives; `MQLITE_MODEL_SEED` chooses
others than the few that are always the same.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.contract.wire import Message, QueueConfig, SettleItem
from tests.conformance.audit import audit_file
from tests.figures import record
from tests.model.drivers import Answer, EngineDriver, GroupDriver
from tests.model.model import Model
from tests.places import memory

SEED = os.environ.get("MQLITE_MODEL_SEED", "")
EXAMPLES = int(os.environ.get("MQLITE_MODEL_EXAMPLES", "125"))
STEPS = 40
PLAIN = ("p", "q")
SUBSCRIPTIONS = ("s1", "s2")
TOPIC = "t"
CHANGES = ("restart", "restart", "configure", "configure", "configure", "subscribe", "delete")

anywhere = st.sampled_from([*PLAIN, *PLAIN, TOPIC, TOPIC, *SUBSCRIPTIONS])
configs = st.builds(
    QueueConfig,
    ordering_mode=st.sampled_from(["standard", "standard", "group_fifo", "strict_fifo"]),
    lock_duration_ms=st.sampled_from([10_000, 400_000]),
    max_delivery_count=st.sampled_from([10, 3, 2, 1]),
    default_ttl_ms=st.sampled_from([0, 0, 20_000]),
    dead_letter_on_expire=st.booleans(),
    dedup_window_ms=st.sampled_from([0, 30_000]),
)
messages = st.builds(
    Message,
    body=st.sampled_from([b"", b"a", b"b"]),
    group_id=st.sampled_from(["", "g", "h", "", "g"]),
    message_id=st.sampled_from(["", "", "m", "n"]),
    ttl_ms=st.sampled_from([0, 0, 0, 5_000]),
)
STEPS_MS = (1, 1, 100, 100, 1_000, 5_000, 9_999, 10_000, 30_000, 300_000, 1_800_000, -3_000)
BATCHES = (wire.CompleteBatchRequest, wire.RenewBatchRequest)

Lease = tuple[str, int, str]
"""Queue, number, token."""


def holds(state: str) -> Callable[[Lives], bool]:
    """Whether some message is in this state: what needs one is not tried without."""
    return lambda lives: any(row.shown.state == state for row in lives.model.rows.values())


class Lives(RuleBasedStateMachine):
    """Engine and model side by side."""

    driver_kind: ClassVar[type[EngineDriver | GroupDriver]]

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="mqlite-model-", dir=memory())
        self.path = Path(self.folder.name) / "mq.db"
        self.clock = ManualClock()
        self.driver = self.driver_kind(self.path, self.clock)
        self.model = Model()
        self.leases: list[Lease] = [("q", 1, "0" * 32)]
        self.was_set_back = False  # then the lowest number need not be the oldest message

    def teardown(self) -> None:
        self.driver.close()
        problems = audit_file(self.path)
        self.folder.cleanup()
        assert not problems, "\n".join(problems)

    # -- asking both -------------------------------------------------------------------------------

    def ask(self, *requests: wire.Request[Any]) -> None:
        """Ask engine and model the same and compare."""
        self._compare(requests, self.driver.ask(list(requests)))

    def _compare(self, requests: Iterable[wire.Request[Any]], answers: Iterable[Answer]) -> None:
        for request, answer in zip(requests, answers, strict=True):
            expected = self._judge(request, answer)
            if self.was_set_back and isinstance(expected, wire.StatsResponse):
                assert isinstance(answer, wire.StatsResponse)
                expected = msgspec.structs.replace(
                    expected, oldest_message_age_ms=answer.oldest_message_age_ms
                )
            assert answer == expected, f"{request}\n got {answer}\n not {expected}"
            if isinstance(answer, wire.MessagesResponse):
                queue: str = getattr(request, "queue", "")
                self.leases += [(queue, m.seq_number, m.lock_token) for m in answer.messages]

    def _judge(self, request: wire.Request[Any], answer: Answer) -> Answer:
        given = answer.messages if isinstance(answer, wire.MessagesResponse) else []
        tokens = iter([message.lock_token for message in given])
        try:
            return self.model.answer(request, self.clock.now_ms(), tokens)
        except MqliteError as error:
            return error.code

    # -- what can happen ---------------------------------------------------------------------------

    @initialize(first=configs, second=configs)
    def begin(self, first: QueueConfig, second: QueueConfig) -> None:
        self.ask(wire.CreateQueueRequest(name="p", config=first))
        self.ask(wire.CreateQueueRequest(name="q", config=second))
        for name in SUBSCRIPTIONS:
            self.ask(wire.SubscribeRequest(topic=TOPIC, name=name))

    @rule(
        data=st.data(),
        batch=st.lists(messages, min_size=1, max_size=5),
        after_ms=st.sampled_from([0, 0, 0, 0, 5_000]),
        ttl_ms=st.sampled_from([0, 0, 9_000]),
    )
    def send(self, data: st.DataObject, batch: list[Message], after_ms: int, ttl_ms: int) -> None:
        queue = data.draw(self._places())
        at = self.clock.now_ms() + after_ms if after_ms else 0
        self.ask(
            wire.SendRequest(
                queue=queue, messages=batch, scheduled_enqueue_time_ms=at, ttl_ms=ttl_ms
            )
        )

    @precondition(holds("active"))
    @rule(
        data=st.data(),
        number=st.sampled_from([1, 2, 4, 0]),
        mode=st.sampled_from([0, 0, 0, 1]),
        attempt=st.sampled_from(["", "", "x", "y"]),
    )
    def receive(self, data: st.DataObject, number: int, mode: int, attempt: str) -> None:
        queue = self._home(data.draw(self._numbers("active")))
        self.ask(
            wire.ReceiveRequest(
                queue=queue, max_messages=number, receive_mode=mode, receive_attempt_id=attempt
            )
        )

    @precondition(holds("deferred"))
    @rule(data=st.data())
    def receive_deferred(self, data: st.DataObject) -> None:
        numbers = data.draw(st.lists(self._numbers("deferred"), max_size=4))
        queue = self._home(numbers[0]) if numbers else "q"
        self.ask(wire.ReceiveDeferredRequest(queue=queue, seq_numbers=numbers))

    @precondition(lambda self: len(self.leases) > 1)
    @rule(data=st.data(), where=st.sampled_from(["", "", "", "", "", *PLAIN]))
    def settle(self, data: st.DataObject, where: str) -> None:
        queue, seq, token = data.draw(self._leases())
        lease: dict[str, Any] = {"queue": where or queue, "seq_number": seq, "lock_token": token}
        reason = data.draw(st.sampled_from(["", "AppRequested", "r"]))
        delay_ms = data.draw(st.sampled_from([0, 0, -1, 5_000]))
        kinds: list[wire.Request[Any]] = [
            wire.CompleteRequest(**lease),
            wire.AbandonRequest(**lease, delay_ms=delay_ms),
            wire.RejectRequest(**lease, dead_letter_reason=reason),
            wire.DeferRequest(**lease),
            wire.RenewRequest(**lease),
        ]
        self.ask(data.draw(st.sampled_from(kinds)))

    @precondition(lambda self: len(self.leases) > 1)
    @rule(data=st.data(), kind=st.sampled_from(BATCHES))
    def settle_a_batch(
        self,
        data: st.DataObject,
        kind: type[wire.CompleteBatchRequest | wire.RenewBatchRequest],
    ) -> None:
        leases = data.draw(st.lists(self._leases(), max_size=4))
        queue = leases[0][0] if leases else "q"
        items = [SettleItem(seq, token) for _, seq, token in leases]
        self.ask(kind(queue=queue, messages=items))

    @precondition(holds("scheduled"))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        seq = data.draw(self._numbers("scheduled"))
        self.ask(wire.CancelRequest(queue=self._home(seq), seq_number=seq))

    @rule(data=st.data(), batch=st.lists(messages, min_size=1, max_size=2))
    def do_several_things_at_once(self, data: st.DataObject, batch: list[Message]) -> None:
        """One group where the driver makes groups: later requests see what earlier ones did."""
        home, seq, token = data.draw(self._leases())
        queue = data.draw(st.sampled_from([home, home]) | self._places())
        receive = wire.ReceiveRequest(queue=queue, max_messages=2)
        requests: list[wire.Request[Any]] = [
            wire.SendRequest(queue=queue, messages=batch),
            receive,
            wire.CompleteRequest(queue=queue, seq_number=seq, lock_token=token),
            wire.SendRequest(queue="unknown", messages=batch),
            wire.AbandonRequest(queue=queue, seq_number=seq, lock_token=token),
            receive,
        ]
        self.ask(*data.draw(st.permutations(requests)))

    @rule(ms=st.sampled_from(STEPS_MS))
    def let_time_pass(self, ms: int) -> None:
        self.clock.advance(ms)
        self.was_set_back |= ms < 0

    @rule()
    def maintain(self) -> None:
        self.driver.maintain()
        self.model.maintain(self.clock.now_ms())

    @rule(change=st.sampled_from(CHANGES), queue=anywhere, config=configs, data=st.data())
    def change(self, change: str, queue: str, config: QueueConfig, data: st.DataObject) -> None:
        """What happens rarely, so that it does not drown the rest."""
        if change == "restart":
            self._restart()
        elif change == "delete":
            self._delete(queue, data)
        elif change == "subscribe":
            topic = data.draw(st.sampled_from([TOPIC, TOPIC, TOPIC, "u", "p"]))
            self.ask(wire.SubscribeRequest(topic=topic, name=queue))
        else:
            kind = "subscription" if queue in SUBSCRIPTIONS else "queue"
            config = msgspec.structs.replace(config, kind=kind)
            self.ask(wire.CreateQueueRequest(name=queue, config=config))

    def _restart(self) -> None:
        self.driver.close()
        assert audit_file(self.path) == []
        self.driver = self.driver_kind(self.path, self.clock)
        self.model.end_leases()

    def _delete(self, name: str, data: st.DataObject) -> None:
        (listed,) = self.driver.ask([wire.ListQueuesRequest()])
        assert isinstance(listed, wire.ListQueuesResponse)
        assert [info.name for info in listed.queues] == sorted(self.model.queues)
        self.model.generations = {info.name: info.generation for info in listed.queues}
        of_this_name = {generation for tomb, generation in self.model.tombs if tomb == name}
        present = self.model.generations.get(name, "unknown")
        generation = data.draw(st.sampled_from([present, *sorted(of_this_name)]))
        self.ask(wire.DeleteQueueRequest(name=name, generation=generation))

    # -- what must agree ---------------------------------------------------------------------------

    @invariant()
    def everything_that_can_be_seen_agrees(self) -> None:
        for queue in self.model.queues:
            peek = wire.PeekRequest(queue=queue, max=1000)
            (shown,) = self.driver.ask([peek])
            assert isinstance(shown, wire.MessagesResponse)
            self._learn_early_expiry(queue, shown.messages)
            assert shown == self.model.answer(peek, self.clock.now_ms(), iter(()))
            self.ask(wire.StatsRequest(queue=queue))

    def _learn_early_expiry(self, queue: str, shown: list[Message]) -> None:
        """A claim may clear an expired message away that the pass would take anyway."""
        states = {message.seq_number: message.state for message in shown}
        for row in self.model.of(queue):
            seq = row.shown.seq_number
            is_doomed = row.shown.state == "active" and row.is_over(self.clock.now_ms())
            if is_doomed and states.get(seq) != "active":
                self.model.expire(seq)

    def _leases(self) -> st.SearchStrategy[Lease]:
        """Leases that run, if there are any, or one of all that were ever given out."""
        now = self.clock.now_ms()
        live = [each for each in self.leases if self.model.held(*each, now)]
        return st.sampled_from([*live * 3, *self.leases] if len(live) < 5 else live)

    def _places(self) -> st.SearchStrategy[str]:
        """Where a send may go: what exists, and now and then what does not."""
        return st.sampled_from([*self.model.queues, *self.model.topics.values(), "nowhere"])

    def _home(self, seq: int) -> str:
        """The queue of a message; of one that is gone, any."""
        row = self.model.rows.get(seq)
        return row.queue if row else "q"

    def _numbers(self, state: str) -> st.SearchStrategy[int]:
        """Numbers of messages in this state, or any."""
        anything = st.integers(1, self.model.last_seq + 1)
        fitting = [seq for seq, row in self.model.rows.items() if row.shown.state == state]
        return st.sampled_from(fitting) | anything if fitting else anything


class EngineLives(Lives):
    """Also the calls that are no single command: they are made of chunks."""

    driver_kind = EngineDriver

    @precondition(holds("dead_lettered"))
    @rule(
        data=st.data(),
        into=st.sampled_from(["", "", *PLAIN, "unknown"]),
        most=st.sampled_from([0, 1, 2]),
        older_than_ms=st.sampled_from([0, 0, 1, 5_000]),
    )
    def redrive_or_purge(
        self, data: st.DataObject, into: str, most: int, older_than_ms: int
    ) -> None:
        queue = self._home(data.draw(self._numbers("dead_lettered")))
        redrive = wire.RedriveRequest(
            queue=queue, target=into, max=most, older_than_ms=older_than_ms
        )
        purge = wire.PurgeRequest(queue=queue, max=most, older_than_ms=older_than_ms)
        self.ask(data.draw(st.sampled_from([redrive, redrive, purge])))

    @rule(queue=anywhere, number=st.sampled_from([1, 2, 5]), steps=st.integers(0, 4))
    def receive_and_give_up(self, queue: str, number: int, steps: int) -> None:
        """A receive that is cancelled never happened, wherever it was; unless it answered first."""
        request = wire.ReceiveRequest(queue=queue, max_messages=number, wait_time_ms=20_000)
        assert isinstance(self.driver, EngineDriver)
        answer = self.driver.give_up(request, steps)
        if answer is not None:
            self._compare([request], [answer])


class GroupLives(Lives):
    driver_kind = GroupDriver


@pytest.mark.promise("E159", "E60", "E158")
@pytest.mark.parametrize("lives", [EngineLives, GroupLives])
def test_the_engine_lives_as_the_model_says(lives: type[Lives]) -> None:
    run_state_machine_as_test(
        seed(int(SEED))(lives) if SEED else lives,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
            print_blob=True,
        ),
    )
    record("model", lives=EXAMPLES)
