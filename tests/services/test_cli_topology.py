"""`apply`, `diff` and `export-topology`: a file and a broker are brought to agree, once, in any
order, and nothing with messages in it goes (tools.md 8, 8)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlite_cli.queue_settings import SETTINGS
from mqlite_cli.topology import DEFAULTS, Settings, Subscription, Topology, compare, read, write
from tests.sdk.loopback import Recorded, engine_replies, loopback, refusal
from tests.services.cli_inline import Inline

FILE = """\
[subscriptions.gold]
topic = "sales"
filter = 'properties.tier == "gold"'
lock = "90s"

[queues.orders]
lock = "1m"
max-delivery = 5
ttl = "1w"
dedup = "1h"
ordering = "group_fifo"
on-expire = "discard"
dlq-max-age = "unbounded"
dlq-max-count = 100
dlq-max-bytes = "unbounded"

[queues."odd name.\\u00e9"]
"""

CANONICAL = """\
[subscriptions.gold]
topic = "sales"
filter = "properties.tier == \\"gold\\""
lock = "90s"

[queues."odd name.é"]

[queues.orders]
lock = "1m"
max-delivery = 5
ttl = "7d"
dedup = "1h"
ordering = "group_fifo"
on-expire = "discard"
dlq-max-age = "unbounded"
dlq-max-count = 100
dlq-max-bytes = "unbounded"
"""


@pytest.fixture
def mqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Inline:
    (tmp_path / "t.toml").write_text(FILE)
    return Inline(tmp_path, monkeypatch, capfd)


def test_a_file_is_applied_once_and_exported_as_it_is(mqlite: Inline) -> None:
    lines = mqlite.ok("apply", "t.toml").splitlines()
    assert lines[0].startswith("+ subscription gold topic=sales filter=")
    assert lines[-1] == "ok: action=apply created=3 updated=0 deleted=0"
    assert mqlite.ok("apply", "t.toml", "--prune", "0") == (
        "ok: action=apply created=0 updated=0 deleted=0\n"
    )
    assert mqlite.ok("diff", "t.toml") == "(no differences)\n"
    exported = mqlite.ok("export-topology")
    assert exported == CANONICAL
    assert "lock_duration_ms:      90000\n" in mqlite.ok("describe", "gold")
    (mqlite.folder / "t.toml").write_text(exported)
    assert mqlite.ok("diff", "t.toml") == "(no differences)\n"


def test_what_differs_is_told_and_then_changed(mqlite: Inline) -> None:
    mqlite.ok("apply", "t.toml")
    mqlite.ok("update-queue", "orders", "--lock", "2m", "--ttl", "0")
    mqlite.ok("subscribe", "sales", "gold")
    mqlite.ok("create-queue", "extra")
    mqlite.ok("send", "orders", "stays", "--group", "g")
    expected = [
        '~ subscription gold filter=""->"properties.tier == \\"gold\\""',
        "~ queue orders lock=2m->1m ttl=0->7d",
        "- queue extra",
    ]
    done = mqlite.run("diff", "t.toml", check=1)
    assert (done.text.splitlines(), done.err) == (expected, "")
    dry = mqlite.ok("apply", "t.toml", "--dry-run").splitlines()
    assert dry == [*expected[:2], "dry-run: action=apply created=0 updated=2 deleted=0"]
    rows = mqlite.run("diff", "t.toml", "--output", "json", check=1).json
    assert rows[1] == {
        "change": "update", "kind": "queue", "name": "orders",
        "settings": {"lock": ["2m", "1m"], "ttl": ["0", "7d"]},
    }  # fmt: skip
    assert mqlite.ok("apply", "t.toml").splitlines()[:2] == expected[:2]
    assert mqlite.run("diff", "t.toml", check=1).text == "- queue extra\n"
    assert mqlite.ok("diff", "t.toml", "--ignore-extra") == "(no differences)\n"
    assert "total=1" in mqlite.ok("metrics", "orders")


def test_pruning_wants_the_number_and_keeps_what_holds_messages(mqlite: Inline) -> None:
    mqlite.ok("apply", "t.toml")
    (mqlite.folder / "none.toml").write_text("")
    for number in ("2", "-1"):
        done = mqlite.run("apply", "none.toml", "--prune", number, check=1)
        assert "--prune 3 deletes so many" in done.err
    mqlite.ok("send", "orders", "precious", "--group", "g")
    done = mqlite.run("apply", "none.toml", "--prune", "3", check=1)
    assert "2 of 3 changes were made" in done.err
    assert "at - queue orders" in done.err
    assert mqlite.ok("list").count("\n") == 1
    mqlite.ok("purge", "orders", "--expect", "1")
    assert mqlite.ok("apply", "none.toml", "--prune", "1").endswith(" deleted=1\n")
    assert mqlite.ok("list") == "(no queues)\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[queues.a", "Expected ']'"),
        ("[queue.a]", "t.toml: unknown key queue; did you mean queues?"),
        ("queues = 1", "t.toml: queues must be tables"),
        ("[queues]\na = 1", "t.toml: queues.a must be a table"),
        ("[queues.a]\nlocks = '1m'", "t.toml: [queues.a]: unknown key locks; did you mean lock?"),
        ("[queues.a]\ntopic = 't'", "t.toml: [queues.a]: unknown key topic"),
        ("[queues.a]\nlock = '1x'", "t.toml: [queues.a]: lock: an unknown unit"),
        ("[queues.a]\nlock = 30", "t.toml: [queues.a]: lock: a number without a unit"),
        ("[queues.a]\nlock = true", "t.toml: [queues.a]: lock must be a text or an integer"),
        ("[queues.a]\nttl = '1us'", "t.toml: [queues.a]: ttl: "),
        ("[queues.a]\nmax-delivery = -1", "t.toml: [queues.a]: max-delivery: "),
        ("[queues.a]\nordering = 'fifo'", "t.toml: [queues.a]: ordering: fifo is none of"),
        ("[subscriptions.a]", "t.toml: [subscriptions.a]: topic is missing"),
        ("[subscriptions.a]\ntopic = 1", "t.toml: [subscriptions.a]: topic must be a text"),
        ("[queues.a]\n[subscriptions.a]\ntopic='t'", "a queue has this name already"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_and_nothing_is_opened(
    mqlite: Inline, text: str, reason: str
) -> None:
    (mqlite.folder / "t.toml").write_text(text)
    for command in ("apply", "diff"):
        assert reason in mqlite.run(command, "t.toml", check=1).err
    assert [path.name for path in mqlite.folder.iterdir()] == ["t.toml"]


def test_a_name_does_not_change_its_kind(mqlite: Inline) -> None:
    mqlite.ok("subscribe", "other", "gold")
    assert (
        "is a subscription of other, and the file wants a subscription of sales"
        in mqlite.run("apply", "t.toml", check=1).err
    )
    mqlite.ok("create-queue", "q")
    (mqlite.folder / "t.toml").write_text("[subscriptions.q]\ntopic = 't'")
    assert (
        "q is a queue, and the file wants a subscription of t"
        in mqlite.run("apply", "t.toml", check=1).err
    )


def test_a_failure_says_how_far_it_came(mqlite: Inline) -> None:
    with engine_replies("file:served.db") as answer:

        def failing(request: Recorded) -> bytes | None:
            no = refusal(507, "storage_full", "the disk is full")
            return no if b'"create"' in request.body else answer(request)

        with loopback(failing) as server:
            mqlite.environ["MQLITE_ENDPOINT"] = server.url
            done = mqlite.run("apply", "t.toml", check=1)
    assert done.text.startswith("+ subscription gold ")
    assert done.err.startswith("error: storage_full: the disk is full; at + queue ")
    assert "1 of 3 changes were made; apply again for the rest" in done.err


@pytest.mark.parametrize("name", ["orders", "gold"])
def test_what_somebody_made_meanwhile_keeps_its_settings(mqlite: Inline, name: str) -> None:
    theirs = {
        "orders": ("CreateQueue", b'{"name": "orders", "config": {"dedup_window_ms": 7000}}'),
        "gold": ("Subscribe", b'{"topic": "sales", "name": "gold", "filter": {"expr": "false"}}'),
    }
    with engine_replies() as answer:

        def meanwhile(request: Recorded) -> bytes | None:
            seen = answer(request)
            if request.call.endswith("ListSubscriptions") and name in theirs:
                call, body = theirs.pop(name)  # once apply has looked
                answer(Recorded(f"/mqlite.v1.AdminService/{call}", [], body))
            return seen

        with loopback(meanwhile) as server:
            mqlite.environ["MQLITE_ENDPOINT"] = server.url
            done = mqlite.run("apply", "t.toml", check=1)
            assert f'generation_conflict: "{name}" was made by somebody else' in done.err
            assert f"at + {'queue' if name == 'orders' else 'subscription'} {name} " in done.err
            assert f"{done.text.count('+ ')} of 3 changes were made" in done.err
            (line,) = (
                each for each in mqlite.run("diff", "t.toml", check=1).text.splitlines()
                if each.startswith("~ ")
            )  # fmt: skip
            assert ("dedup=7s->1h" if name == "orders" else "filter=false->") in line
            mqlite.ok("apply", "t.toml")
            assert mqlite.ok("diff", "t.toml") == "(no differences)\n"


@pytest.mark.parametrize("name", ["orders", "gold"])
def test_what_somebody_made_so_meanwhile_is_made(mqlite: Inline, name: str) -> None:
    """Two that apply the same file at once, as replicas do when they start."""
    with engine_replies() as answer:
        theirs = [name]

        def meanwhile(request: Recorded) -> bytes | None:
            seen = answer(request)
            if request.call.endswith("ListSubscriptions") and theirs:
                theirs.clear()  # once apply has looked
                with loopback(answer) as other:
                    mqlite.ok("apply", "--endpoint", other.url, "t.toml")
            return seen

        with loopback(meanwhile) as server:
            mqlite.environ["MQLITE_ENDPOINT"] = server.url
            mqlite.ok("apply", "t.toml")
            assert mqlite.ok("diff", "t.toml") == "(no differences)\n"


@pytest.mark.parametrize("call", ["DescribeQueue", "Subscribe", "UpdateQueue"])
@pytest.mark.parametrize("setting", ['lock = "90s"', 'ordering = "group_fifo"', ""])
def test_two_that_apply_a_subscription_at_once_both_end_well(
    mqlite: Inline, call: str, setting: str
) -> None:
    """The whole of one between any two calls of the other, which makes it by more than one."""
    text = f'[subscriptions.gold]\ntopic = "sales"\nfilter = "true"\n{setting}\n'
    (mqlite.folder / "gold.toml").write_text(text)
    with engine_replies() as answer:
        theirs = [call]

        def meanwhile(request: Recorded) -> bytes | None:
            if theirs and request.call.endswith(f"/{theirs[0]}"):
                theirs.clear()
                with loopback(answer) as other:
                    mqlite.ok("apply", "--endpoint", other.url, "gold.toml")
            return answer(request)

        with loopback(meanwhile) as server:
            mqlite.environ["MQLITE_ENDPOINT"] = server.url
            mqlite.ok("apply", "gold.toml")
            assert mqlite.ok("diff", "gold.toml") == "(no differences)\n"
            assert not theirs or not setting  # without settings there is no UpdateQueue


@pytest.mark.parametrize("lock_ms", [0, 90_000, 70_000])
def test_a_subscription_that_is_half_made_by_another_apply_gets_its_settings(
    mqlite: Inline, lock_ms: int
) -> None:
    """Also if it is another one by then, as long as it is as the file has it."""
    (mqlite.folder / "gold.toml").write_text(
        '[subscriptions.gold]\ntopic = "sales"\nfilter = "true"\nlock = "90s"\n'
    )
    with engine_replies() as answer:
        admin, extended = "/mqlite.v1.AdminService", "/mqlite.ext.v1.AdminService"
        half = b'{"topic": "sales", "name": "gold", "filter": {"expr": "true"}}'
        steps = ["ListSubscriptions", *(["UpdateQueue"] if lock_ms else [])]

        def meanwhile(request: Recorded) -> bytes | None:
            if not steps or not request.call.endswith(f"/{steps[0]}"):
                return answer(request)
            if steps.pop(0) == "ListSubscriptions":
                seen = answer(request)
                answer(Recorded(f"{admin}/Subscribe", [], half))
                return seen
            gone = b'{"topic": "sales", "name": "gold"}'
            answer(Recorded(f"{extended}/DeleteSubscription", [], gone))
            answer(Recorded(f"{admin}/Subscribe", [], half))
            patch = b'{"name": "gold", "config": {"lock_duration_ms": %d}}' % lock_ms
            answer(Recorded(request.target, [], patch))
            return answer(request)

        with loopback(meanwhile) as server:
            mqlite.environ["MQLITE_ENDPOINT"] = server.url
            done = mqlite.run("apply", "gold.toml", check=int(lock_ms == 70_000))
            assert not steps
            if done.code:
                assert 'generation_conflict: "gold" was made by somebody else' in done.err
            else:
                assert mqlite.ok("diff", "gold.toml") == "(no differences)\n"


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=12)
BOUNDS = st.integers(-1, 2**53)
VALUES: st.SearchStrategy[Settings] = st.fixed_dictionaries({
    "lock_duration_ms": st.integers(1, 2**53),
    "max_delivery_count": st.integers(1, 2**31),
    "default_ttl_ms": st.integers(0, 2**53),
    "dedup_window_ms": st.integers(0, 2**53),
    "ordering_mode": st.sampled_from(["standard", "group_fifo", "strict_fifo"]),
    "dead_letter_on_expire": st.booleans(),
    "dlq_max_age_ms": BOUNDS,
    "dlq_max_count": BOUNDS,
    "dlq_max_bytes": BOUNDS,
})  # fmt: skip


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.dictionaries(NAMES, st.tuples(NAMES, NAMES)))
def test_whatever_is_written_is_read_back(
    queues: dict[str, Settings], heard: dict[str, tuple[str, str]]
) -> None:
    subscriptions = {name: Subscription(*heard[name]) for name in heard if name in queues}
    topology = Topology(queues, subscriptions)
    again = read(write(topology), source="f")
    assert again == topology
    assert compare(topology, again) == []


def test_every_setting_of_a_queue_has_its_place_in_a_file() -> None:
    assert {wire_name for wire_name, _ in SETTINGS.values()} == set(DEFAULTS)
