"""The drill that everybody should do once: back up under load, lose the machine, restore.

The steps are those of docs/how-to/backup.md. What comes back is compared with what the producers
were told: nothing acknowledged before the backup is missing, and after a quiet backup the restored
store holds exactly the acknowledged messages.
"""

from __future__ import annotations

from pathlib import Path

from tests.deploy.producing import assert_between, held, producing
from tests.services.broker_process import TOKEN, started
from tests.services.cli_process import Shell

ENOUGH = 30
"""Messages of each producer between two moments: the copy has something to run beside."""


def test_a_backup_under_load_restores_what_was_acknowledged(tmp_path: Path) -> None:
    live, elsewhere = tmp_path / "live", tmp_path / "elsewhere"
    live.mkdir()
    elsewhere.mkdir()
    with started(live) as broker:
        shell = Shell(live, MQLITE_ENDPOINT=broker.url, MQLITE_TOKEN=TOKEN)
        with producing(broker.url.replace("http://", f"mqlite://{TOKEN}@")) as producers:
            before = producers.go_on_until(ENOUGH)
            shell.ok("backup", str(live / "busy.db"))
            after = producers.go_on_until(ENOUGH)
            told = producers.stop()
        shell.ok("backup", str(live / "quiet.db"))
        for name in ("busy.db", "quiet.db"):
            (live / name).rename(elsewhere / name)
        broker.process.kill()
    for part in ("mq.db", "mq.db-wal", "mq.db-shm", "mq.db.lock"):
        (live / part).unlink()  # the machine is lost

    assert_between(before, held(elsewhere / "busy.db"), after)
    Shell(elsewhere).ok("check", "quiet.db")
    Shell(elsewhere).ok("restore", "quiet.db", str(live / "mq.db"))
    with started(live) as broker:
        shell = Shell(live, MQLITE_ENDPOINT=broker.url, MQLITE_TOKEN=TOKEN)
        assert f"active={sum(told)} " in shell.ok("metrics", "orders")
        broker.stop()
    assert held(live / "mq.db") == told
