"""Recordings: what was seen is seen again, and a broken file is no surprise."""

from __future__ import annotations

from io import FileIO
from pathlib import Path

import pytest

from mqlite_actor import InvalidArgument
from mqlite_monitor import record
from mqlite_monitor.record import Recorder, Replay
from mqlite_monitor.sampling import Sampler
from tests.services.monitor_scene import answer, depth

TICKS = [
    answer(tick, [depth("q", active=tick)], {"q": {"enqueued": tick * 3, "purged": 0}})
    for tick in range(1, 101)
]


def recording(path: Path) -> Path:
    recorder = Recorder(str(path), source="here")
    for tick in TICKS[:50]:
        recorder.answer(tick)
    recorder.failure("gone \x1b[2J")
    for tick in TICKS[50:]:
        recorder.answer(tick)
    recorder.close()
    assert recorder.fault == ""
    return path


def test_a_replay_makes_the_same_snapshots_forwards_and_backwards(tmp_path: Path) -> None:
    replay = Replay(str(recording(tmp_path / "rec")))
    assert (len(replay), replay.source, replay.at) == (101, "here", 0)
    sampler = Sampler()
    expected = [sampler.take(tick) for tick in TICKS]
    for at in (0, 1, 2, 30, 29, 100, 10_000, 49):
        replay.go_to(at)
        wanted = expected[min(at, 100) - (1 if at > 50 else 0)]
        assert replay.snapshot is not None
        assert replay.snapshot.queues is not None
        assert wanted.queues is not None
        got, want = replay.snapshot.queues[0], wanted.queues[0]
        assert (got.depth, got.in_rate, got.growth) == (want.depth, want.in_rate, want.growth)
    replay.go_to(50)
    assert replay.failure == "gone \x1b[2J"
    replay.go_to(51)
    assert replay.failure == ""
    replay.close()


def test_a_recording_is_its_owner_s_and_never_overwrites(tmp_path: Path) -> None:
    path = recording(tmp_path / "rec")
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(InvalidArgument, match="name a new file"):
        Recorder(str(path), source="x")
    with pytest.raises(InvalidArgument, match="name a new file"):
        Recorder(str(tmp_path / "no" / "rec"), source="x")


def test_a_line_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    path = recording(tmp_path / "rec")
    path.write_bytes(path.read_bytes()[:-10])
    replay = Replay(str(path))
    assert len(replay) == 100
    replay.close()


def test_a_line_that_is_none_is_told_and_passed(tmp_path: Path) -> None:
    path = recording(tmp_path / "rec")
    lines = path.read_bytes().splitlines()
    lines[2] = b'{"observed": 7}'
    path.write_bytes(b"\n".join(lines) + b"\n")
    replay = Replay(str(path))
    replay.go_to(1)
    assert "record 2 cannot be read" in replay.failure
    replay.go_to(2)
    assert replay.failure == ""
    replay.close()


@pytest.mark.parametrize("content", [b"", b"hello\n", b'{"mqlite_top":9,"source":""}\n{}\n',
                                     b'{"mqlite_top":1,"source":""}\n', b"\xff\n"])  # fmt: skip
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rec"
    path.write_bytes(content)
    with pytest.raises(InvalidArgument, match="--replay"):
        Replay(str(path))


def test_a_full_disk_ends_the_recording_alone() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    recorder = Recorder.__new__(Recorder)
    recorder._file, recorder._size = FileIO("/dev/full", "wb"), 0
    recorder.fault, recorder.ticks = "", 0
    recorder.answer(TICKS[0])
    assert recorder.fault == "the recording was ended: No space left on device"
    recorder.answer(TICKS[1])
    recorder.close()


def test_a_recording_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "RECORDING_BYTES_MAX", 50_000)
    recorder = Recorder(str(tmp_path / "rec"), source="x")
    for tick in TICKS:
        recorder.answer(tick)
    recorder.close()
    assert "was ended" in recorder.fault
    assert (tmp_path / "rec").stat().st_size < 50_000
