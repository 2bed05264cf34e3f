"""What the monitor draws: by golden text, at sizes down to nothing, whatever the data holds."""

from __future__ import annotations

import io
from collections.abc import Iterator

import msgspec
import pytest
from rich.console import Console

from mqlite_monitor.cells import count, shown, size, span, sparkline
from mqlite_monitor.frame import Scene
from mqlite_monitor.sampling import Sampler
from mqlite_monitor.steering import Steering, View
from mqlite_monitor.view import frame, plain
from tests.services.monitor_scene import DATA, GOLDEN, LOOK, QUEUES, answer, depth, text

HOSTILE = ("[/", "[b", "[link=x]", "\\[", "\x1b]52;c;aGk=\x07", "\x1b[2J", "\x9b2J", "a\u202eb",
           "\u2066x", "宽" * 40, "\n\r\t", "x" * 200)  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_a_frame_is_as_it_was_written_down(name: str) -> None:
    golden = (DATA / f"{name}.txt").read_text(encoding="utf-8")
    assert text(*GOLDEN[name]) == golden, "see tests/services/monitor_scene.py"


def scenes() -> Iterator[Scene]:
    sampler = Sampler()
    depths = [depth(name, active=1, dead=10**12) for name in HOSTILE]
    snapshot = sampler.take(answer(1, depths))
    for view in View:
        yield Scene(
            snapshot=snapshot, state=Steering(view=view, selected=HOSTILE[0]), source="\x1b"
        )
    yield from (LOOK, QUEUES, Scene(snapshot=None, state=Steering(), source="x"))
    typing = Steering(is_typing=True, search="\x1b[2J宽")
    yield msgspec.structs.replace(QUEUES, state=typing, note="[/]", stale="\x1b[2J why [/b]")


@pytest.mark.parametrize("width", [1, 2, 7, 20, 40, 79, 200])
@pytest.mark.parametrize("height", [1, 2, 3, 10, 60])
def test_a_frame_fills_the_screen_and_never_more(width: int, height: int) -> None:
    for scene in scenes():
        lines = frame(scene, width=width, height=height)
        assert len(lines) == height
        assert all(line.cell_len <= width for line in lines)


def test_nothing_that_a_terminal_obeys_comes_through_the_data() -> None:
    for scene in scenes():
        for line in [*frame(scene, width=160, height=50), *plain(scene, width=160)]:
            assert line.plain.isprintable(), line.plain
            out = io.StringIO()
            Console(file=out, markup=False, width=200).print(line)
            assert out.getvalue().rstrip() == line.plain.rstrip()


def test_queues_that_cannot_be_read_are_no_zeros() -> None:
    scene = Scene(snapshot=Sampler().take(answer(1, None)), state=Steering(), source="x")
    shown_text = text(scene, 100, 20)
    assert "queues cannot be read: busy" in shown_text
    assert "queues –" in shown_text
    assert "active" not in shown_text


def test_the_selected_queue_is_on_the_screen_however_many_there_are() -> None:
    depths = [depth(f"q{at:03}") for at in range(500)]
    snapshot = Sampler().take(answer(1, depths))
    state = Steering(selected="q321", sort="name")
    assert "q321" in text(Scene(snapshot=snapshot, state=state, source="x"), 80, 24)


def test_numbers_fit_their_cells_and_say_their_unit() -> None:
    assert [count(each) for each in (None, 0, 9999, 10_000, 123_456, 45_600_000)] == [
        "–", "0", "9999", "10.0k", "123k", "45.6M",
    ]  # fmt: skip
    assert [size(each) for each in (None, 999, 1_250_000)] == ["–", "999 B", "1.2 MB"]
    assert [span(each) for each in (None, 5, 61_000, 90_061_000)] == ["–", "5ms", "1m1s", "1d1h"]
    assert sparkline([0, 1, 4, 8], 6) == "  ▁▂▅█"
    assert shown("a\u202e\x1b") == "a\\u202e\\x1b"
