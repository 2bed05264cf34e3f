"""/metrics: off unless asked for, to whom, in which families, and the very numbers of Observe."""

from __future__ import annotations

import json
import math
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import apsw
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract.errors import InvalidArgument, StorageFull
from mqlite_actor.contract.observe import ObserveResponse
from mqlite_actor.engine import commands
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_broker import metrics
from mqlite_broker.settings import read_settings
from tests.engine.gate import teach
from tests.engine.snapshots import Document, check
from tests.house.tree import ROOT
from tests.services import broker_process
from tests.services.broker_scene import BEARER, Fields, Scene, failure, path, raw, served
from tests.services.credentials import MONITOR, bearer, mint
from tests.services.exposition import FAMILIES, Samples, samples_of

OBSERVE = "AdminService/Observe"
ON = {"MQLITE_METRICS": "on", "MQLITE_MONITOR_TOKENS": MONITOR}
TYPE = "text/plain; version=0.0.4; charset=utf-8"


@pytest.fixture
async def scene(engine: Engine) -> AsyncIterator[Scene]:
    async with served(engine, **ON) as scene:
        yield scene


async def scrape(scene: Scene, fields: Fields = (BEARER,)) -> str:
    """The exposition as text."""
    answer = await scene.ask("/metrics", method="GET", fields=fields)
    assert (answer.status, answer.headers["content-type"]) == (200, TYPE)
    assert answer.headers["cache-control"] == "no-store"
    return answer.body.decode()


def read(text: str) -> Samples:
    """Every sample by its name and labels, as prometheus_client reads it."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, f"{key} stands twice"
            assert math.isfinite(sample.value), key
            found[key] = sample.value
    return found


def heads(text: str) -> list[tuple[str, str]]:
    """Name and type of each family in order; every one has its HELP directly above."""
    found = re.findall(r"^# HELP (\S+) (.+)\n# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    assert len(re.findall("^# ", text, re.MULTILINE)) == 2 * len(found)
    assert all(helped == typed for helped, _, typed, _ in found)
    return [(name, kind) for name, _, _, kind in found]


async def card(scene: Scene) -> Document:
    document: Document = json.loads((await scene.ask("/", method="GET", fields=())).body)
    return document


async def observe(scene: Scene) -> Document:
    document: Document = await scene.ok(OBSERVE)
    check(document)
    return document


# -- the switch ------------------------------------------------------------------------------------

NONE: Mapping[str, str | bool] = {}
FLAG: Mapping[str, str | bool] = {"metrics": True}


@pytest.mark.promise("W40", "T75", "W2")
async def test_without_the_switch_there_is_no_such_path(engine: Engine) -> None:
    async with served(engine, MQLITE_MONITOR_TOKENS=MONITOR) as scene:
        for fields in ((BEARER,), bearer(MONITOR), (await mint(scene, "manage")).fields):
            answer = await scene.ask("/metrics", method="GET", fields=fields)
            assert failure(answer) == (404, "not_found")
        assert failure(await scene.ask("/metrics", method="GET", fields=()))[0] == 401
        assert "metrics" not in await card(scene)
        await observe(scene)


@pytest.mark.promise("W40", "T75", "W2")
async def test_with_the_switch_the_card_names_the_path(scene: Scene) -> None:
    found = await card(scene)
    assert list(found) == [
        "name", "description", "version", "status", "auth", "docs", "endpoints", "health",
        "metrics", "ui",
    ]  # fmt: skip
    assert found["metrics"] == "/metrics"
    assert "/metrics" not in found["endpoints"]
    await scrape(scene)


@pytest.mark.parametrize("word", ["on", "true", "1", "ON", " True\n"])
def test_the_variable_switches_it_on(word: str) -> None:
    assert read_settings(NONE, {"MQLITE_METRICS": word}).has_metrics


@pytest.mark.parametrize("word", ["", " ", "off", "false", "0", "OFF", " False "])
def test_the_variable_switches_it_off_and_the_flag_wins(word: str) -> None:
    assert not read_settings(NONE, {"MQLITE_METRICS": word}).has_metrics
    assert read_settings(FLAG, {"MQLITE_METRICS": word}).has_metrics


@pytest.mark.parametrize("word", ["yes", "2", "onn", "/metrics"])
def test_another_word_is_refused(word: str) -> None:
    with pytest.raises(InvalidArgument, match="MQLITE_METRICS"):
        read_settings(NONE, {"MQLITE_METRICS": word})


@pytest.mark.promise("T75")
@pytest.mark.parametrize("words", [(), ("--metrics",)], ids=["variable", "flag"])
async def test_metrics_without_authentication_is_a_start_error(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    switch = {} if words else {"MQLITE_METRICS": "on"}
    with broker_process.started(tmp_path, *words, MQLITE_TOKENS="off", **switch) as broker:
        assert broker.ended() == 1
        (line,) = [each for each in broker.err.to_the_end() if each.startswith("error: ")]
    assert "metrics" in line
    assert "MQLITE_TOKENS" in line
    assert broker_process.content(tmp_path) == {}


@pytest.mark.promise("W40", "T75")
async def test_the_flag_of_the_program_serves_it(tmp_path: Path) -> None:
    with broker_process.started(tmp_path, "--metrics") as broker:
        async with await broker.connect() as client:
            answer = await client.ask(
                raw("/metrics", method="GET", fields=(broker_process.BEARER,))
            )
        assert (answer.status, answer.headers["content-type"]) == (200, TYPE)
        assert ("mqlite_storage_read_available", ()) in read(answer.body.decode())
        broker.stop()


# -- who may see it --------------------------------------------------------------------------------


@pytest.mark.promise("T75", "W43", "W44")
async def test_administrators_managers_and_monitors_may_scrape_and_nobody_else(
    scene: Scene,
) -> None:
    for fields in ((BEARER,), bearer(MONITOR), (await mint(scene, "manage")).fields):
        await scrape(scene, fields)
    for permissions in (["send"], ["listen"], ["send", "listen"]):
        fields = (await mint(scene, *permissions)).fields
        answer = await scene.ask("/metrics", method="GET", fields=fields)
        assert failure(answer) == (403, "permission_denied")
    for fields in ((), bearer("wrong"), ("Authorization: Basic x",)):
        answer = await scene.ask("/metrics", method="GET", fields=fields)
        assert failure(answer) == (401, "unauthenticated")


async def test_any_method_scrapes_and_a_query_changes_nothing(scene: Scene) -> None:
    for method in ("GET", "POST", "PUT"):
        assert (await scene.ask("/metrics", method=method)).status == 200
    head = await scene.ask("/metrics", method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert (await scene.ask("/metrics?name[]=x", method="GET")).status == 200
    for target in ("/metrics/", "/Metrics", "/metricsx"):
        assert failure(await scene.ask(target, method="GET")) == (404, "not_found")


# -- families --------------------------------------------------------------------------------------

ODD_NAMES = (
    'a "quoted" one', "back\\slash", "two\nlines", "\\n", 'end"', "end\\", "tab\there", "çafé ☃ 😀",
    "{a=b}", "a,b", "#", "le", " ", "\x85\u2028", "\r", "# HELP mqlite_info x\n# TYPE y z",
)  # fmt: skip


async def furnish(scene: Scene) -> None:
    """Queues of every name, messages in every state, calls that fail, a pass that fails."""
    for name in (*ODD_NAMES, "q"):
        await scene.ok("AdminService/CreateQueue", {"name": name})
        await scene.ok("QueueService/Send", {"queue": name, "messages": [{}, {}]})
    await scene.ok("AdminService/Subscribe", {"topic": "t", "name": "s"})
    await scene.ok(
        "QueueService/Schedule",
        {"queue": "q", "messages": [{}], "scheduled_enqueue_time_ms": 2_000_000_000_000},
    )
    (first, second) = (await scene.ok("QueueService/Receive", {"queue": "q", "max_messages": 2}))[
        "messages"
    ]
    await scene.ok("QueueService/Reject", {"queue": "q", **lease(first)})
    await scene.ok("QueueService/Defer", {"queue": "q", **lease(second)})
    for body in ({"queue": "none"}, {"zzz": 1}):
        await scene.call("Stats", body)
    await scene.call("Stats", {"queue": "q"}, fields=())

    def fail(_tx: object, _request: object, _now_ms: int) -> object:
        raise apsw.FullError

    await scene.engine.run_maintenance_once()
    teach(scene.engine, commands.Expire, fail)
    with pytest.raises(StorageFull):
        await scene.engine.run_maintenance_once()


def lease(message: Document) -> Document:
    return {key: message[key] for key in ("seq_number", "lock_token")}


@pytest.mark.promise("T76", "W40")
async def test_every_family_stands_in_the_order_of_the_contract(scene: Scene) -> None:
    assert heads(await scrape(scene)) == FAMILIES, "before anything happened"
    await furnish(scene)
    text = await scrape(scene)
    assert heads(text) == FAMILIES
    assert text.endswith("\n")
    assert "\n\n" not in text


async def test_what_is_not_known_has_its_head_and_no_sample(clock: ManualClock) -> None:
    async with (
        open_engine(":memory:", EngineOptions(clock=clock, background=False)) as engine,
        served(engine, **ON) as scene,
    ):
        await scene.ok("AdminService/CreateQueue", {"name": "q"})
        await scene.ok("QueueService/Send", {"queue": "q", "messages": [{}]})
        text = await scrape(scene)
        found = read(text)
        assert heads(text) == FAMILIES
        assert found["mqlite_storage_size_available", ()] == 0
        absent = {f"mqlite_{name}" for name in ("storage_size_bytes", "storage_wal_bytes")}
        assert not [key for key in found if key[0] in {*absent, "mqlite_disk_free_bytes"}]
        assert found["mqlite_storage_free_bytes", ()] == 0
        assert found["mqlite_mailbox_depth", ()] == 0

        def fail(_tx: object, _request: object, _now_ms: int) -> object:
            raise apsw.CorruptError

        teach(engine, commands.Collect, fail)
        text = await scrape(scene)
    found = read(text)
    assert heads(text) == FAMILIES
    assert found["mqlite_collection_success", ()] == 0
    assert found["mqlite_storage_read_available", ()] == 0
    unknown = (
        "mqlite_storage_ping_seconds", "mqlite_storage_free_bytes", "mqlite_entities",
        "mqlite_queue_",
    )  # fmt: skip
    assert not [key for key in found if key[0].startswith(unknown)]
    enqueued = ("mqlite_message_events_total", (("event", "enqueued"), ("queue", "q")))
    assert found[enqueued] == 1, "what the process counted is shown all the same"


@pytest.mark.promise("T76")
async def test_an_odd_name_is_escaped_by_the_rules_and_comes_back(scene: Scene) -> None:
    await furnish(scene)
    text = await scrape(scene)
    found = read(text)
    for name in ODD_NAMES:
        escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
        assert f'mqlite_queue_total{{queue="{escaped}"}} 2.0\n' in text, name
        assert found["mqlite_queue_total", (("queue", name),)] == 2
    retained = [labels for name, labels in found if name == "mqlite_queue_retained_messages"]
    assert {dict(labels)["queue"] for labels in retained} == {*ODD_NAMES, "q", "s"}


# -- the numbers -----------------------------------------------------------------------------------


def assert_same(found: Samples, expected: Samples) -> None:
    assert found.keys() == expected.keys()
    wrong = {
        key: (found[key], expected[key])
        for key in expected
        if not math.isclose(found[key], expected[key], rel_tol=1e-9)
    }
    assert not wrong


@pytest.mark.promise("W124", "T76")
async def test_an_exposition_says_exactly_what_its_snapshot_says(scene: Scene) -> None:
    """The body of one Observe, shown as /metrics shows it: no number more, none less."""

    async def compare() -> None:
        body = (await scene.call(OBSERVE)).body
        text = metrics.text(msgspec.json.decode(body, type=ObserveResponse)).decode()
        assert_same(read(text), samples_of(json.loads(body)))

    def fail(_tx: object, _request: object, _now_ms: int) -> object:
        raise apsw.FullError

    await compare()
    await furnish(scene)
    await compare()
    teach(scene.engine, commands.Collect, fail)
    await compare()


SCRAPED_ITSELF = re.compile(
    r"mqlite_(storage_operation|collection_duration|storage_ping|disk_free)|process_"
)
"""Time, what a scrape adds (its own reading of the store), and what the machine does meanwhile."""


@pytest.mark.promise("W124")
async def test_a_scrape_and_an_observe_right_after_it_agree_value_by_value(
    scene: Scene, clock: ManualClock
) -> None:
    await furnish(scene)
    clock.advance(12_345)
    found = read(await scrape(scene))
    expected = samples_of(await observe(scene))
    success = ("mqlite_authentication_total", (("outcome", "success"),))
    expected[success] -= 1  # of the Observe itself
    for key in [*found, *expected]:
        is_own = ("rpc", OBSERVE) in key[1]
        if SCRAPED_ITSELF.match(key[0]) or is_own:
            found.pop(key, None)
            expected.pop(key, None)
    assert_same(found, expected)


async def test_a_scrape_changes_no_series_but_those_of_its_own_reading(scene: Scene) -> None:
    await furnish(scene)
    first, second = read(await scrape(scene)), read(await scrape(scene))
    assert first.keys() == second.keys()
    moved = {key[0] for key in first if first[key] != second[key]}
    moved = {name for name in moved if not SCRAPED_ITSELF.match(name)}
    assert moved <= {"mqlite_authentication_total", "mqlite_storage_size_bytes"}


@pytest.mark.promise("W126", "T77")
async def test_completions_stay_counted_when_the_queue_is_empty_and_never_twice(
    scene: Scene,
) -> None:
    await scene.ok("AdminService/CreateQueue", {"name": "q"})
    await scene.ok("QueueService/Send", {"queue": "q", "messages": [{}, {}, {}]})
    batch = (await scene.ok("QueueService/Receive", {"queue": "q", "max_messages": 3}))["messages"]
    for _ in range(2):  # the second time every receipt is replayed
        for message in batch:
            await scene.ok("QueueService/Complete", {"queue": "q", **lease(message)})
        items = [lease(message) for message in batch]
        await scene.ok("QueueService/CompleteBatch", {"queue": "q", "messages": items})
    found = read(await scrape(scene))
    assert found["mqlite_messages_completed_total", (("queue", "q"),)] == 3
    assert found["mqlite_queue_total", (("queue", "q"),)] == 0


TIMED = "mqlite_rpc_duration_seconds_count"


@pytest.mark.promise("W127")
async def test_calls_are_timed_by_name_and_open_pages_are_not(scene: Scene) -> None:
    for _ in range(5):
        await scene.ok("AdminService/ListQueues")
    for target in ("/", "/healthz", "/metrics", "/ui"):
        await scene.ask(target, method="GET")
    found = read(await scrape(scene))
    rpc = ("rpc", "AdminService/ListQueues")
    assert found[TIMED, (rpc,)] == 5
    assert found["mqlite_rpc_duration_seconds_bucket", (("le", "+Inf"), rpc)] == 5
    timed = {dict(labels)["rpc"] for name, labels in found if name == TIMED}
    assert timed == {"AdminService/ListQueues"}


@pytest.mark.promise("W128", "T76")
async def test_invented_paths_queues_and_keys_add_no_series(scene: Scene) -> None:
    await scene.ok("AdminService/CreateQueue", {"name": "q"})
    await scene.call("Stats", {"queue": "none"})
    before = read(await scrape(scene))
    async with await scene.connect() as client:
        for number in range(50):
            body = b'{"queue":"none %d"}' % number
            for target in (f"Nope{number}", "Stats", "Send"):
                for fields in ((BEARER,), ()):
                    await client.ask(raw(path(target), body, fields=fields))
    after = read(await scrape(scene))
    new = {
        key for key in after.keys() - before.keys() if ("rpc", "QueueService/Send") not in key[1]
    }
    assert new == set()


def test_the_page_about_monitoring_names_families_that_exist() -> None:
    text = (ROOT / "docs/how-to/monitoring.md").read_text("utf-8")
    named = set(re.findall(r"(?<!name: )\bmqlite_\w+", text))  # but for a network's
    assert len(named) > 10
    assert named <= dict(FAMILIES).keys()
