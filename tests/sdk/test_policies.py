"""What becomes of a message whose handler failed, by policy."""

from __future__ import annotations

from typing import Any

import pytest

import mqlite_actor as mq
from mqlite_actor.contract.wire import Message
from tests.sdk.loops import run


def after(deliveries: int) -> mq.Received:
    return mq.Received("q", Message(seq_number=1, delivery_count=deliveries))


def delays(policy: mq.Policy, deliveries: range) -> list[int]:
    verdicts = [policy(after(count), ValueError()) for count in deliveries]
    assert all(isinstance(verdict, mq.Retry) for verdict in verdicts)
    return [verdict.delay_ms for verdict in verdicts if isinstance(verdict, mq.Retry)]


def test_retry_waits_the_same_each_time() -> None:
    assert delays(mq.retry(), range(1, 4)) == [0, 0, 0]
    assert delays(mq.retry(delay=1.5), range(1, 4)) == [1500, 1500, 1500]


def test_the_exponential_pause_grows_to_its_bound_and_never_overflows() -> None:
    policy = mq.retry_exponentially(first=1, factor=3, longest=60, jitter=0)
    assert delays(policy, range(1, 7)) == [1000, 3000, 9000, 27_000, 60_000, 60_000]
    assert delays(policy, range(2**31 - 2, 2**31)) == [60_000, 60_000]


def test_jitter_only_shortens_and_stays_within_its_part() -> None:
    policy = mq.retry_exponentially(first=10, factor=1, jitter=0.5)
    found = delays(policy, range(1, 200))
    assert all(5_000 <= each <= 10_000 for each in found)
    assert len(set(found)) > 50


def test_the_nearest_class_of_the_table_decides() -> None:
    policy = mq.by_exception(
        {LookupError: mq.retry(delay=1), KeyError: mq.reject(reason="no key")},
        otherwise=mq.retry(delay=2),
    )
    assert policy(after(1), KeyError("a")) == mq.DeadLetter("no key", "'a'")
    assert policy(after(1), IndexError()) == mq.Retry(1000)
    assert policy(after(1), OSError()) == mq.Retry(2000)


@pytest.mark.parametrize(
    "options", [{"factor": 0.5}, {"jitter": 2}, {"first": 0}, {"longest": -1}], ids=str
)
def test_a_policy_that_makes_no_sense_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(mq.InvalidArgument):
        mq.retry_exponentially(**options)


NO_TABLES: dict[str, dict[str, Any]] = {
    "table: .*KeyError.* is no class": {"table": {(ValueError, KeyError): mq.reject()}},
    "table: 'ValueError' is no class": {"table": {"ValueError": mq.reject()}},
    "table.ValueError.: a policy": {"table": {ValueError: mq.DeadLetter()}},
    "table.OSError.: a policy": {"table": {ValueError: mq.reject(), OSError: None}},
    "otherwise: a policy": {"table": {}, "otherwise": mq.Retry(5)},
}


@pytest.mark.parametrize("words", NO_TABLES)
def test_a_table_that_could_not_decide_is_refused(words: str) -> None:
    with pytest.raises(mq.InvalidArgument, match=words):
        mq.by_exception(**NO_TABLES[words])


def test_a_receiver_does_what_the_policy_says() -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q", max_delivery_count=9)
            await q.send("q", ["unfit", "later", "bad policy"])
            policy = mq.by_exception({ValueError: mq.reject(), OSError: mq.retry(delay=60)})

            def decide(message: mq.Received, error: Exception) -> mq.Verdict:
                if isinstance(error, RuntimeError) and message.delivery_count == 1:
                    raise ZeroDivisionError
                return policy(message, error)

            receiver = q.receiver("q", on_failure=decide)
            errors = {
                "unfit": ValueError("broken"),
                "later": OSError(),
                "bad policy": RuntimeError(),
            }

            async def handle(message: mq.HeldMessage) -> None:
                if message.delivery_count == 2:
                    receiver.stop()
                    return
                raise errors[message.text]

            await receiver.run(handle)
            dead, later = await q.peek("q")
            assert (dead.dead_letter_reason, dead.dead_letter_description) == (
                "ValueError",
                "broken",
            )
            assert later.state in {"scheduled", "active"}
            assert later.visible_at_ms > later.enqueued_at_ms

    run("trio", main)
