"""How many requests a group takes: what a round trip of 45 ms makes of everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqlite_actor.contract import ext, limits, wire
from mqlite_actor.contract.errors import QueueNotFound
from mqlite_actor.engine import commands
from tests.hrana.server import running_hrana
from tests.remote.afar import Afar, afar


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Afar]:
    with afar(tmp_path_factory.mktemp("far")) as place:
        place.writer.send("q", b"first")  # the queues are known from now on
        yield place


def settling(place: Afar, number: int) -> list[wire.CompleteRequest]:
    return [
        wire.CompleteRequest(queue="q", seq_number=each.seq_number, lock_token=each.lock_token)
        for each in place.writer.take("q", number)
    ]


def test_sends_of_many_producers_are_one_request(place: Afar) -> None:
    sends = [place.sending(b"%d" % number) for number in range(64)]
    assert place.trips(*sends) == 1


def test_sends_into_many_queues_and_lines_are_one_request(place: Afar) -> None:
    for name in ("r", "s"):
        place.writer.create(name)
    place.writer.create("strict", wire.QueueConfig(ordering_mode="strict_fifo"))
    sends = [place.sending(b"x", queue=queue) for queue in ("r", "strict", "s", "q", "r") * 4]
    later = place.writer.clock.now_ms() + 1000
    scheduled = wire.ScheduleRequest(
        queue="q", messages=[wire.Message()], scheduled_enqueue_time_ms=later
    )
    assert place.trips(*sends, scheduled) == 1


def test_claims_of_many_consumers_are_one_request(place: Afar) -> None:
    place.writer.send("q", *[b"y"] * 64)
    plain = [wire.ReceiveRequest(queue="q", max_messages=1)] * 32
    assert place.trips(*plain) == 1


def test_claims_under_attempt_ids_are_two_requests_for_all(place: Afar) -> None:
    place.writer.send("q", *[b"y"] * 64)
    attempts = [
        wire.ReceiveRequest(queue="q", receive_attempt_id=f"{place.server.round_trips}-{number}")
        for number in range(32)
    ]
    assert place.trips(*attempts) == 2
    assert place.trips(*attempts) == 2, "and so they are when they are repeated"


def test_settlements_of_leases_that_were_given_out_here_are_one_request(place: Afar) -> None:
    place.writer.send("q", *[b"z"] * 70)
    assert place.trips(*settling(place, 64)) == 1
    (lone,) = settling(place, 1)
    assert place.trips(lone) == 1
    for kind in (wire.AbandonRequest, wire.RejectRequest, wire.DeferRequest, wire.RenewRequest):
        (message,) = place.writer.take("q")
        request = kind(queue="q", seq_number=message.seq_number, lock_token=message.lock_token)
        assert place.trips(request) == 1, kind.__name__


def test_a_wrong_guess_costs_requests_and_nothing_else(place: Afar) -> None:
    place.writer.send("q", b"guess")
    (settle,) = settling(place, 1)
    leases = place.store.ledger.leases
    assert leases
    row = leases[settle.seq_number]
    leases[settle.seq_number] = (*row[:3], row[3] + 1, *row[4:])
    assert place.trips(settle) > 1
    assert settle.seq_number not in [row[0] for row in place.server.look("SELECT id FROM messages")]


def test_settlements_of_leases_from_before_are_two_requests(place: Afar) -> None:
    place.writer.send("q", *[b"w"] * 8)
    settles = settling(place, 8)
    leases = place.store.ledger.leases
    assert leases is not None
    leases.clear()
    assert place.trips(*settles) == 2


def test_sends_with_duplicate_detection_are_two_requests(place: Afar) -> None:
    place.writer.create("once", wire.QueueConfig(dedup_window_ms=60_000))
    sends = [place.sending(b"%d" % number, queue="once") for number in range(64)]
    place.trips(place.sending(b"known", queue="once"))
    assert place.trips(*sends) == 2
    assert place.trips(*sends) == 2, "and so they are when all are duplicates"


def test_everything_at_once_is_three_requests_at_most(place: Afar) -> None:
    place.writer.send("q", *[b"m"] * 20)
    settles = settling(place, 10)
    mixed = [
        request
        for number, settle in enumerate(settles)
        for request in (
            place.sending(b"n%d" % number),
            wire.ReceiveRequest(queue="q", max_messages=1),
            settle,
        )
    ]
    assert place.trips(*mixed) <= 3


def test_a_look_is_a_request_or_two(place: Afar) -> None:
    assert place.trips(wire.StatsRequest(queue="q")) == 1
    assert place.trips(wire.ListQueuesRequest()) == 1
    assert place.trips(wire.PeekRequest(queue="q", max=5)) == 2


def test_what_is_overdue_at_the_front_costs_requests_once(
    place: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.writer.create("stale", wire.QueueConfig(dead_letter_on_expire=True))
    monkeypatch.setattr(limits, "MAINTENANCE_ROWS", 1)
    late = [wire.Message(ttl_ms=5)] * 3
    place.writer.ask(wire.SendRequest(queue="stale", messages=late))
    place.writer.send("stale", b"1", b"2")
    place.writer.clock.advance(5)
    claim = wire.ReceiveRequest(queue="stale")
    assert [place.trips(claim) for _ in range(2)] == [3, 3]
    stats = place.writer.ask(wire.StatsRequest(queue="stale"))
    assert (stats.locked, stats.dead_lettered) == (2, 2)
    place.writer.group(commands.Expire())
    place.writer.send("stale", b"3", b"4")
    assert [place.trips(claim) for _ in range(2)] == [1, 1]


def test_a_subscription_is_emptied_by_few_requests_a_chunk(place: Afar) -> None:
    place.writer.ask(wire.SubscribeRequest(topic="t", name="sub"))
    place.writer.send("t", *[b"x"] * 3)
    (generation,) = [
        each.generation
        for each in place.writer.ask(wire.ListQueuesRequest()).queues
        if each.name == "sub"
    ]
    request = ext.DeleteSubscriptionRequest("t", "sub", generation, discard_messages=True)
    assert place.trips(commands.EndSubscription(request, limit=1)) == 3
    assert place.trips(commands.DiscardChunk("sub", generation, 1)) == 2
    assert place.trips(commands.DiscardChunk("sub", generation, 1)) == 2
    with pytest.raises(QueueNotFound):
        place.writer.ask(wire.StatsRequest(queue="sub"))


def test_no_baton_is_kept_between_two_groups(tmp_path: Path) -> None:
    with running_hrana(tmp_path) as server:
        from mqlite_actor.storage.hrana_opening import open_remote  # just here

        store = open_remote(server.url)
        try:
            streams = Afar(server, store)
            streams.writer.create("q")
            streams.writer.send("q", b"a")
            streams.writer.take("q")
            server.forget()
            streams.writer.send("q", b"b")
            (request,) = server.requests
            assert request.baton is None
            assert request.kinds[-1] == "close"
        finally:
            store.close()
