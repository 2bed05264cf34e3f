"""The engine's end against a peer that does as it likes: one link suffers, nobody else."""

from __future__ import annotations

import msgspec
import pytest
import trio

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import LockLost
from mqlite_actor.contract.keys import CreateKeyRequest
from mqlite_actor.engine.engine import Engine
from mqlite_actor.link import frames
from mqlite_actor.link.frames import Ask, Check, GiveBack, Hello, Note, Refusal, Reply
from tests.engine.gate import (
    Gate,
    bodies,
    bounded,
    completing,
    create,
    parked,
    sending,
    settled,
    take,
    taking,
    until,
)
from tests.link.peer import Peer, linked

HALF = frames.frame([frames.encoded_ask(1, sending("q", b"half"))])[:-2]

BREACHES = {
    "garbage": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "an oversized frame": (limits.LINK_ASK_BYTES_MAX + 1).to_bytes(4, "big"),
    "an empty frame": bytes(4),
    "no list": b"\x00\x00\x00\x01\xc0",
    "an item of the engine's": frames.frame([frames.encoded(Refusal(1, "internal", ""))]),
    "a note of a program": frames.frame([frames.encoded(Note("x", msgspec.Raw(b"\xc0")))]),
    "a program that checks a key": frames.frame([frames.encoded(Check(1, "mqk_"))]),
    "one id twice": frames.frame([frames.encoded_ask(1, taking("q", wait_ms=20_000))] * 2),
}


@pytest.mark.parametrize("breach", BREACHES.values(), ids=BREACHES.keys())
async def test_a_breach_of_the_rules_ends_that_link_and_no_other(
    engine: Engine, breach: bytes
) -> None:
    await create(engine, "q")
    async with linked(engine) as good, linked(engine) as bad:
        await good.greet()
        await bad.greet()
        await bad.say_bytes(breach)
        await bad.ended()
        await good.ask(1, sending("q", b"x"))
        await good.reply(1)
    assert await bodies(engine, "q") == [b"x"]


@pytest.mark.parametrize(
    "first", [frames.encoded(Hello("0", "0")), frames.encoded_ask(1, sending("q", b"x"))]
)
async def test_without_a_fitting_hello_nothing_is_run(engine: Engine, first: bytes) -> None:
    await create(engine, "q")
    async with linked(engine) as peer:
        await peer.say(first, frames.encoded_ask(2, sending("q", b"x")))
        await peer.ended()
        assert isinstance(await peer.hear(), Hello), "the peer can tell its user which version"
    assert await bodies(engine, "q") == []


async def test_half_a_frame_is_nothing(engine: Engine) -> None:
    await create(engine, "q")
    async with linked(engine) as peer:
        await peer.greet()
        await peer.say_bytes(HALF)
        await peer.leave()
    assert await bodies(engine, "q") == []


async def test_a_request_that_is_wrong_is_refused_and_the_link_goes_on(engine: Engine) -> None:
    async with linked(engine) as peer:
        await peer.greet()
        await peer.say(frames.encoded(Ask(1, "QueueService/Reap", msgspec.Raw(b"\x80"))))
        assert await peer.refusal(1) == "unsupported"
        await peer.say(frames.encoded(Ask(2, "QueueService/Stats", msgspec.Raw(b"\x81\xa1x\x01"))))
        assert await peer.refusal(2) == "invalid_argument"
        await peer.ask(3, wire.StatsRequest(queue="none"))
        assert await peer.refusal(3) == "not_found"


async def test_items_that_come_in_one_frame_are_all_answered(engine: Engine) -> None:
    await create(engine, "q")
    async with linked(engine) as peer:
        await peer.greet()
        number = 300
        asks = [frames.encoded_ask(n, sending("q", b"%d" % n)) for n in range(number)]
        await peer.say(*asks)
        answered = {getattr(await peer.hear(), "id", None) for _ in range(number)}
    assert answered == set(range(number))
    assert len(await bodies(engine, "q")) == number


# -- claims ----------------------------------------------------------------------------------------


async def claimed(peer: Peer, engine: Engine, *, attempt: str = "", mode: int = 0) -> wire.Message:
    """A message that this peer has received and not confirmed."""
    await create(engine, "q")
    await engine.call(sending("q", b"x"))
    await peer.greet()
    request = wire.ReceiveRequest(queue="q", receive_attempt_id=attempt, receive_mode=mode)
    await peer.ask(1, request)
    (message,) = await peer.taken(1)
    return message


async def test_an_unconfirmed_claim_goes_back_uncounted(engine: Engine) -> None:
    async with linked(engine) as peer:
        message = await claimed(peer, engine)
        await peer.leave()
    (again,) = await take(engine, "q")
    assert again.delivery_count == 1
    with pytest.raises(LockLost):
        await engine.call(completing("q", message))


async def test_a_confirmed_claim_stays_with_its_holder(engine: Engine) -> None:
    async with linked(engine) as peer:
        message = await claimed(peer, engine)
        await peer.begin(1)
        await peer.leave()
    assert await take(engine, "q") == []
    await engine.call(completing("q", message))


async def test_what_was_said_before_a_breach_is_still_heard(engine: Engine) -> None:
    async with linked(engine) as peer:
        message = await claimed(peer, engine)
        await peer.say_bytes(frames.frame([frames.encoded(frames.Begun(1))]) + bytes(4))
        await peer.ended()
    await engine.call(completing("q", message))


async def test_a_confirmation_that_the_reader_never_came_to_is_still_heard(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link is not read while much is owed; at its end the kernel's rest decides."""
    monkeypatch.setattr(limits, "LINK_STALL_SECONDS", 0.2)
    await create(engine, "big")
    for _ in range(12):
        await engine.call(sending("big", bytes(limits.MESSAGE_BYTES_DEFAULT)))
    async with linked(engine) as peer:
        message = await claimed(peer, engine)
        await peer.say(*(frames.encoded_ask(n, taking("big")) for n in range(2, 14)))
        await until(lambda: engine.statistics()["mailbox_commands"] == 0)
        await settled()
        await peer.begin(1)
        await peer.ended()
    await engine.call(completing("q", message))
    assert len(await take(engine, "big", 12)) == 12, "what it never took went back"


async def test_a_claim_under_an_attempt_id_waits_for_its_repetition(engine: Engine) -> None:
    async with linked(engine) as peer:
        message = await claimed(peer, engine, attempt="a")
        await peer.leave()
    request = wire.ReceiveRequest(queue="q", receive_attempt_id="a")
    (again,) = (await engine.call(request)).messages
    assert again.lock_token == message.lock_token


async def test_a_message_that_was_removed_by_its_delivery_stays_removed(engine: Engine) -> None:
    async with linked(engine) as peer:
        await claimed(peer, engine, mode=1)
        await peer.leave()
    assert await bodies(engine, "q") == []


@pytest.mark.parametrize(("is_counted", "deliveries"), [(False, 1), (True, 2)])
async def test_a_front_end_gives_back_what_its_client_did_not_get(
    engine: Engine,
    is_counted: bool,  # noqa: FBT001  # a parameter of the test
    deliveries: int,
) -> None:
    async with linked(engine) as peer:
        message = await claimed(peer, engine)
        await peer.begin(1)
        lease = wire.SettleItem(seq_number=message.seq_number, lock_token=message.lock_token)
        await peer.say(frames.encoded(GiveBack(2, 0, "q", [lease], is_counted)))
        peer.asked[2] = wire.CreateQueueRequest()
        await peer.reply(2)
    (again,) = await take(engine, "q")
    assert again.delivery_count == deliveries


async def test_what_is_given_back_with_the_last_words_goes_back(engine: Engine) -> None:
    async with linked(engine) as peer:
        message = await claimed(peer, engine)
        lease = wire.SettleItem(seq_number=message.seq_number, lock_token=message.lock_token)
        back = frames.encoded(GiveBack(2, 0, "q", [lease], is_counted=True))
        await peer.say(frames.encoded(frames.Begun(1)), back)
        await peer.leave()
    (again,) = await take(engine, "q")
    assert again.delivery_count == 2


# -- waiting, leaving, stopping --------------------------------------------------------------------


async def test_a_poll_whose_program_died_takes_nothing(engine: Engine) -> None:
    await create(engine, "q")
    async with linked(engine) as peer:
        await peer.greet()
        await peer.ask(1, taking("q", wait_ms=20_000))
        await parked(engine, "q", 1)
        await peer.leave()
        assert engine.statistics()["waiters"] == {}
    await engine.call(sending("q", b"x"))
    (message,) = await take(engine, "q")
    assert message.delivery_count == 1


async def test_a_call_that_is_withdrawn_in_time_never_runs(
    engine: Engine, nursery: trio.Nursery
) -> None:
    await create(engine, "q")
    gate = Gate(engine, nursery)
    async with linked(engine) as peer:
        await peer.greet()
        stop = await gate.stop()
        await peer.ask(1, sending("q", b"x"))
        await until(lambda: engine.statistics()["mailbox_commands"] == 1)
        await peer.cancel(1)
        assert await peer.refusal(1) == "canceled"
        stop.release()
    assert await bodies(engine, "q") == []


async def test_a_call_that_is_withdrawn_too_late_is_answered(
    engine: Engine, nursery: trio.Nursery
) -> None:
    await create(engine, "q")
    gate = Gate(engine, nursery)
    async with linked(engine) as peer:
        await peer.greet()
        await gate.stop()
        await peer.ask(1, sending("q", b"x"))
        await until(lambda: engine.statistics()["mailbox_commands"] == 1)
        second = gate.later()
        gate.release_all()
        with bounded():
            await second.entered.wait()
        await peer.cancel(1)
        gate.release_all()
        assert await peer.reply(1) == wire.SendResponse(seq_numbers=[1])
    assert await bodies(engine, "q") == [b"x"]


async def test_a_stop_answers_polls_and_takes_no_new_calls(engine: Engine) -> None:
    await create(engine, "q")
    stopping = trio.Event()
    async with linked(engine, stopping=stopping) as peer:
        await peer.greet()
        await peer.ask(1, taking("q", wait_ms=20_000))
        await parked(engine, "q", 1)
        stopping.set()
        await peer.ask(2, sending("q", b"x"))
        assert await peer.refusal(2) == "unavailable"
        engine.stop_waiting()
        assert await peer.taken(1) == []
        await peer.ended()
    assert await bodies(engine, "q") == []


async def test_a_stop_waits_for_the_confirmation_of_a_claim(engine: Engine) -> None:
    stopping = trio.Event()
    async with linked(engine, stopping=stopping) as peer:
        message = await claimed(peer, engine)
        stopping.set()
        await settled()
        await peer.begin(1)
        await peer.ended()
    await engine.call(completing("q", message))


async def test_a_closed_engine_says_that_it_is_not_there(engine: Engine) -> None:
    async with linked(engine) as peer:
        await peer.greet()
        engine.close()
        await peer.ask(1, wire.StatsRequest(queue="q"))
        assert await peer.refusal(1) == "unavailable"


# -- bounds ----------------------------------------------------------------------------------------


async def test_a_program_that_takes_no_answers_is_cut_and_keeps_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINK_STALL_SECONDS", 0.2)
    await create(engine, "q")
    for _ in range(4):
        await engine.call(sending("q", bytes(limits.MESSAGE_BYTES_DEFAULT)))
    async with linked(engine) as stalled, linked(engine) as other:
        await stalled.greet()
        await other.greet()
        await stalled.say(*(frames.encoded_ask(n, taking("q")) for n in range(1, 5)))
        await other.ask(1, sending("q", b"x"))
        await other.reply(1)
        await stalled.ended()
    taken = await take(engine, "q", 5)
    assert [message.delivery_count for message in taken] == [1] * 5


async def test_a_program_that_is_owed_too_much_and_reads_nothing_is_cut(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINK_OWED_BYTES_MAX", 2 * limits.MIB)
    monkeypatch.setattr(limits, "LINK_STALL_SECONDS", 0.2)
    await create(engine, "q")
    for _ in range(4):
        await engine.call(sending("q", bytes(limits.MESSAGE_BYTES_DEFAULT)))
    async with linked(engine) as peer:
        await peer.greet()
        await peer.say(*(frames.encoded_ask(n, taking("q")) for n in range(1, 5)))
        await peer.ended()
    assert len(await take(engine, "q", 4)) == 4


async def test_calls_beyond_the_bound_are_refused_and_the_others_go_on(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINK_CALLS_MAX", 3)
    await create(engine, "q")
    async with linked(engine) as peer:
        await peer.greet()
        for number in range(1, 4):
            await peer.ask(number, taking("q", wait_ms=20_000))
        await parked(engine, "q", 3)
        await peer.ask(4, taking("q"))
        assert await peer.refusal(4) == "unavailable"
        await engine.call(sending("q", b"x"))
        assert isinstance(await peer.hear(), Reply)


async def test_a_program_that_never_confirms_is_cut(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINK_CALLS_MAX", 3)
    await create(engine, "q")
    await engine.call(sending("q", *[b"x"] * 5))
    async with linked(engine) as peer:
        await peer.greet()
        for number in range(1, 5):
            await peer.ask(number, taking("q"))
            await peer.taken(number)
        await peer.ask(5, taking("q"))
        await peer.ended()
    assert len(await take(engine, "q", 5)) == 5


# -- front-end processes ---------------------------------------------------------------------------


async def test_a_front_end_leaves_notes_and_one_that_makes_no_sense_ends_its_link(
    engine: Engine,
) -> None:
    notes: list[tuple[str, int]] = []

    def noted(topic: str, content: msgspec.Raw) -> None:
        notes.append((topic, msgspec.msgpack.decode(content, type=int)))

    async with linked(engine, noted=noted) as peer:
        await peer.greet()
        await peer.say(frames.encoded(Note("a", msgspec.Raw(msgspec.msgpack.encode(1)))))
        await peer.say(frames.encoded(Note("b", msgspec.Raw(msgspec.msgpack.encode("x")))))
        await peer.ended()
    assert notes == [("a", 1)]


async def test_a_front_end_learns_what_a_key_may_do(engine: Engine) -> None:
    key = CreateKeyRequest(id="ab" * 16, name="k", permissions=["send", "listen"])
    token = (await engine.call(key)).token
    async with linked(engine, noted=lambda *_: None) as peer:
        await peer.greet()
        await peer.say(frames.encoded(Check(1, token)), frames.encoded(Check(2, "mqk_none")))
        answers = {}
        for _ in range(2):
            item = await peer.hear()
            assert isinstance(item, Reply)
            answers[item.id] = msgspec.msgpack.decode(item.body)
    assert answers == {1: ["success", ["listen", "send"]], 2: ["invalid", []]}
