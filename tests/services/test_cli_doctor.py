"""`doctor` and `support-bundle`: what is wrong has a line and a mend, and no secret gets out
(ruling R33)."""

from __future__ import annotations

import os
import ssl
import stat
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest
import trustme

from mqlite_actor.clock import SystemClock
from mqlite_actor.engine.diagnostics import Trouble, open_log
from tests.sdk.loopback import engine_replies, loopback, refusal, reply
from tests.services.cli_inline import Inline

SECRETS = ("sesame-token", "sesame-url", "sesame-list", "sesame-db", "body-text", "prop-text")


@pytest.fixture
def mqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Inline:
    return Inline(tmp_path, monkeypatch, capfd)


def lines(text: str) -> dict[str, tuple[str, str]]:
    """Name → verdict and detail of the last finding of that name."""
    rows = [line.split(maxsplit=2) for line in text.splitlines()]
    return {name.rstrip(":"): (verdict, detail) for verdict, name, detail in rows}


def test_a_store_that_is_well_is_all_ok_and_stays_as_it_is(mqlite: Inline) -> None:
    mqlite.ok("create-queue", "q")
    before = {path.name: path.read_bytes() for path in mqlite.folder.iterdir()}
    found = lines(mqlite.ok("doctor"))
    assert {verdict for verdict, _ in found.values()} == {"ok"}
    assert list(found) == [
        "python", "sqlite", "clock", "place", "disk", "store", "mode", "owner", "schema",
        "foreign-keys", "counts", "references", "numbers", "log", "size",
    ]  # fmt: skip
    assert mqlite.run("doctor", "--output", "json", check=0).json["ok"] is True
    assert {path.name: path.read_bytes() for path in mqlite.folder.iterdir()} == before


def test_a_store_that_is_not_there_yet_is_no_failure_and_is_not_made(mqlite: Inline) -> None:
    assert lines(mqlite.ok("doctor"))["store"][0] == "warn"
    assert list(mqlite.folder.iterdir()) == []
    dsns = {":memory:": "ok", "libsql://h?authToken=x": "ok", "ftp://x": "fail"}
    for dsn, verdict in dsns.items():
        mqlite.environ["MQLITE_DB"] = dsn
        assert lines(mqlite.run("doctor").text)["store"][0] == verdict


def test_what_is_wrong_with_a_store_is_one_line_with_its_mend(mqlite: Inline) -> None:
    mqlite.ok("create-queue", "q")
    store = mqlite.folder / "mq.db"
    store.chmod(0o644)
    connection = apsw.Connection(str(store))
    connection.execute("UPDATE counts SET active = 9").fetchall()
    connection.close()
    done = mqlite.run("doctor", check=1)
    assert lines(done.text)["mode"] == (
        "warn", f"others than its owner may open {store}; chmod 600 {store}",
    )  # fmt: skip
    assert lines(done.text)["counts"][0] == "fail"
    assert done.errors == ["error: 1 of 13 checks failed: counts"]
    mqlite.environ["MQLITE_DB"] = "nowhere/mq.db"
    assert lines(mqlite.run("doctor", check=1).text)["place"][0] == "fail"


def test_files_with_credentials_belong_to_their_owner(mqlite: Inline) -> None:
    wide, tight = mqlite.folder / "wide", mqlite.folder / "tight"
    wide.touch(0o644)
    tight.touch(0o600)
    for path, verdict in {wide: "warn", tight: "ok", mqlite.folder / "none": "fail"}.items():
        mqlite.environ["MQLITE_TOKENS_FILE"] = str(path)
        assert lines(mqlite.run("doctor").text)["credentials"][0] == verdict


@pytest.mark.parametrize(
    ("mode", "uid", "gid", "verdict"),
    [
        (0o440, 0, 10001, "ok"),  # as Kubernetes mounts a secret for a pod with fsGroup 10001
        (0o640, 0, 2000, "ok"),
        (0o440, 0, 3000, "warn"),  # we are not in that group
        (0o444, 0, 10001, "warn"),
        (0o444, 0, 3000, "warn"),
        (0o460, 0, 10001, "warn"),
        (0o450, 0, 10001, "warn"),
        (0o640, 10001, 10001, "warn"),  # our own, which need not be open to anybody
        (0o600, 10001, 10001, "ok"),
    ],
)
def test_a_secret_that_root_hands_out_by_our_group_is_well(
    mqlite: Inline, monkeypatch: pytest.MonkeyPatch, mode: int, uid: int, gid: int, verdict: str
) -> None:
    path = mqlite.folder / "secret"
    path.touch()
    look = Path.stat

    def seen(at: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        found = look(at, follow_symlinks=follow_symlinks)
        if at != path:
            return found
        return os.stat_result((stat.S_IFREG | mode, *found[1:4], uid, gid, *found[6:10]))

    monkeypatch.setattr(os, "geteuid", lambda: 10001)
    monkeypatch.setattr(os, "getegid", lambda: 10001)
    monkeypatch.setattr(os, "getgroups", lambda: [2000, 10001])
    monkeypatch.setattr(Path, "stat", seen)
    mqlite.environ["MQLITE_TOKENS_FILE"] = str(path)
    done = mqlite.run("doctor", check=0)
    assert lines(done.text)["credentials"][0] == verdict
    assert (f"chmod 600 {path}" in done.text) == (verdict == "warn")


def test_the_log_of_failures_is_read(mqlite: Inline) -> None:
    folder = mqlite.folder / "log"
    log = open_log(str(folder))
    log.report(Trouble(at_ms=1_800_000_000_000, task="broker", code="started"))
    mqlite.environ["MQLITE_DIAGNOSTICS_DIR"] = str(folder)
    assert lines(mqlite.ok("doctor"))["failures"][0] == "ok"
    log.report(Trouble(at_ms=1_800_000_000_001, task="expire", code="storage_full", detail="D"))
    verdict, detail = lines(mqlite.ok("doctor"))["failures"]
    assert verdict == "warn"
    assert "the last expire storage_full D" in detail


def test_a_broker_that_is_well(mqlite: Inline) -> None:
    with engine_replies("file:served.db") as answer, loopback(answer) as server:
        mqlite.environ["MQLITE_ENDPOINT"] = server.url
        found = lines(mqlite.ok("doctor"))
        assert "store" not in found
        assert found["broker"][0] == "ok"
        assert found["token"][0] == "warn"
        assert found["token"][1].startswith("authentication is off; ")
        assert (found["skew"][0], found["health"][0]) == ("ok", "ok")
        mqlite.environ["MQLITE_DB"] = "file:served.db"
        assert "in use" in lines(mqlite.ok("doctor"))["owner"][1]
        assert not [each for each in server.calls if each == "QueueService/Send"]


STATUS = {
    "version": "0.3.3", "backend": "x", "remote": False, "location": "", "schema_version": "5",
    "ping_ms": 0, "db_size_bytes": 0, "queues": 0, "subscriptions": 0, "uptime_ms": 0, "auth": True,
}  # fmt: skip


NO_QUEUE = refusal(404, "not_found", "no queue")


@pytest.mark.parametrize(
    ("answers", "name", "said"),
    [
        ({"Status": refusal(401, "unauthenticated", "no")}, "token", "fail"),
        ({"Status": refusal(503, "unavailable", "busy")}, "broker", "fail"),
        ({"Status": reply(200, STATUS)}, "version", "warn"),
        ({"Status": reply(200, STATUS)}, "token", "ok accepted, with the rights: manage"),
        ({"Send": NO_QUEUE}, "token", "ok accepted, with the rights: send"),
        ({}, "token", "ok accepted, to monitor and nothing else"),
        ({"Observe": refusal(500, "internal", "no")}, "health", "warn"),
    ],
)
def test_what_a_broker_says_is_told(
    mqlite: Inline, answers: dict[str, bytes], name: str, said: str
) -> None:
    no = refusal(403, "permission_denied", "no")
    with loopback(lambda r: answers.get(r.target.rpartition("/")[2], no)) as server:
        mqlite.environ["MQLITE_ENDPOINT"] = server.url
        verdict, detail = lines(mqlite.run("doctor").text)[name]
    assert f"{verdict} {detail}".startswith(said)


@pytest.mark.parametrize(("days", "verdict"), [(60, "ok"), (3, "warn")])
def test_the_end_of_a_certificate_is_told_in_time(mqlite: Inline, days: int, verdict: str) -> None:
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    end = datetime.now(UTC) + timedelta(days=days)
    authority.issue_cert("127.0.0.1", not_after=end).configure_cert(tls)
    authority.cert_pem.write_to_path(str(mqlite.folder / "ca.pem"))
    with loopback(lambda _: reply(200, STATUS), tls=tls) as server:
        url = server.url.replace("http:", "https:")
        done = mqlite.run("doctor", "--endpoint", url, "--ca-file", "ca.pem")
    found = lines(done.text)["certificate"]
    assert found[0] == verdict
    assert found[1].startswith(f"holds until {end:%Y-%m-%d}")


def test_a_broker_that_is_not_there(mqlite: Inline) -> None:
    done = mqlite.run("doctor", "--endpoint", "http://127.0.0.1:1", check=1)
    assert lines(done.text)["broker"][0] == "fail"


def test_a_bundle_holds_what_helps_and_no_secret(mqlite: Inline) -> None:
    folder = mqlite.folder
    mqlite.ok("create-queue", "orders")
    mqlite.ok("send", "orders", "body-text", "--prop", "a=prop-text", "--subject", "prop-text")
    log = open_log(str(folder / "log"))
    log.report(Trouble(at_ms=SystemClock().now_ms(), task="broker", code="started"))
    mqlite.environ |= {
        "MQLITE_TOKEN": "sesame-token", "MQLITE_TOKENS": "sesame-list", "MQLITE_DB": "mq.db",
        "MQLITE_DB_AUTH_TOKEN": "sesame-db", "MQLITE_DIAGNOSTICS_DIR": "log", "MQLITE_SYNC": "FULL",
        "MQLITE_ENDPOINT": "mqlite://sesame-url@127.0.0.1:1",
    }  # fmt: skip
    mqlite.ok("support-bundle", "help.tar.gz")
    path = folder / "help.tar.gz"
    assert path.stat().st_mode & 0o777 == 0o600
    content: dict[str, str] = {}
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            content[member.name.removeprefix("help/")] = file.read().decode()
    assert set(content) == {
        "README.txt", "doctor.json", "settings.txt", "versions.txt", "schema.sql", "queues.json",
        "errors.txt", "diagnostics/diagnostics.jsonl",
    }  # fmt: skip
    everything = "\n".join(content.values())
    assert [secret for secret in SECRETS if secret in everything] == []
    assert "MQLITE_TOKEN=***\n" in content["settings.txt"]
    assert "MQLITE_SYNC=FULL\n" in content["settings.txt"]
    assert "CREATE TABLE messages" in content["schema.sql"]
    assert '"orders"' in content["queues.json"]
    assert "observe.json: cannot connect" in content["errors.txt"]
    assert "replaces" in mqlite.run("support-bundle", "help.tar.gz", check=1).err
    assert mqlite.run("support-bundle", "no/help.tar.gz", check=1).errors


def test_a_bundle_is_made_of_a_store_that_is_a_ruin(mqlite: Inline) -> None:
    (mqlite.folder / "mq.db").write_bytes(b"ruin" * 2000)
    mqlite.ok("support-bundle", "help.tgz")
    with tarfile.open(mqlite.folder / "help.tgz") as archive:
        assert {"help.tgz/doctor.json", "help.tgz/errors.txt"} <= set(archive.getnames())


@pytest.mark.parametrize("path", ["x" * 5_000, "no-such-folder/bundle.tar.gz", "mq.db/bundle"])
def test_a_bundle_that_cannot_be_made_there_says_why(mqlite: Inline, path: str) -> None:
    mqlite.ok("create-queue", "q")
    finished = mqlite.run("support-bundle", path)
    assert finished.code == 1
    assert finished.err.startswith("error: cannot make ")


def test_a_store_whose_name_is_too_long_is_a_finding(mqlite: Inline) -> None:
    mqlite.environ["MQLITE_DB"] = "file:" + "x" * 5_000
    assert "File name too long" in mqlite.run("doctor", check=1).text
    mqlite.ok("support-bundle", "help.tgz")
