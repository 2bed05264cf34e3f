"""What a killed worker had promised, held against what its file says.

`read` takes the notes of one process as they come, and holds the rules that need no file: order
within groups, growing delivery counts, nothing after its end. `judge` looks at a file that was
opened after the death. Rules are about acknowledgements: what was acknowledged is so; what was
under way may be so or not, but wholly.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mqlite_actor.contract import wire
from tests.crash.worker import DELIVERIES_MAX, Item, Kind, Note


@dataclass
class Ending:
    """A settlement that was under way, or done, when the process died."""

    queue: str
    item: Item
    token: str


@dataclass
class History:
    """Everything that all processes so far have written."""

    intended: dict[str, str] = field(default_factory=dict)
    sent: dict[str, Item] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    counts: dict[int, int] = field(default_factory=dict)
    heads: dict[tuple[str, str], int] = field(default_factory=dict)
    queue_of: dict[int, str] = field(default_factory=dict)
    delivered: set[str] = field(default_factory=set)
    highest: int = 0
    deaths: int = 0

    # Of the process that is running, or that died last.
    sending: dict[int, Note] = field(default_factory=dict)
    draining: dict[int, Note] = field(default_factory=dict)
    completing: dict[int, Ending] = field(default_factory=dict)
    completed: list[Ending] = field(default_factory=list)
    floor: int = 0

    def begin(self) -> list[str]:
        """A new process starts; the bodies of `once` that nobody acknowledged, to be sent again."""
        self.sending.clear()
        self.draining.clear()
        self.completing.clear()
        self.completed.clear()
        self.floor = self.highest
        return [
            body
            for body, queue in self.intended.items()
            if queue == "once" and body not in self.sent
        ]

    def read(self, note: Note) -> None:
        """Take one note."""
        match note.kind:
            case Kind.SENDING:
                self.sending[note.number] = note
                self.intended |= {item.body: note.queue for item in note.items}
            case Kind.SENT:
                del self.sending[note.number]
                for item in note.items:
                    self._sent(note.queue, item)
            case Kind.DELIVERED:
                self._delivered(note.queue, note.items[0])
            case Kind.COMPLETING:
                self.completing[note.number] = Ending(note.queue, note.items[0], note.token)
            case Kind.COMPLETED:
                ending = self.completing.pop(note.number)
                self.completed.append(ending)
                self._ended(ending.item)
            case Kind.DRAINING:
                self.draining[note.number] = note
            case Kind.DRAINED:
                del self.draining[note.number]
                for item in note.items:
                    self._delivered(note.queue, item)
                    self._ended(item)
            case Kind.READY | Kind.GIVEN_UP:
                return

    def _sent(self, queue: str, item: Item) -> None:
        known = self.sent.get(item.body)
        assert known is None, f"{item.body[:40]} was acknowledged twice"
        is_repeated = queue == "once" and item.seq <= self.floor
        assert is_repeated or item.seq > self.floor, f"number {item.seq} was given out before"
        assert self.queue_of.setdefault(item.seq, queue) == queue, f"number {item.seq} given twice"
        self.sent[item.body] = item
        self.highest = max(self.highest, item.seq)

    def _delivered(self, queue: str, item: Item) -> None:
        assert self.intended.get(item.body) == queue, f"nobody sent {item.body[:40]} to {queue}"
        assert item.seq not in self.gone, f"{item.seq} came back after its end"
        assert item.count > self.counts.get(item.seq, 0), f"{item.seq}: a delivery was not counted"
        assert item.count <= DELIVERIES_MAX or queue in ("drain", "once")
        self.counts[item.seq] = item.count
        self.delivered.add(item.body)
        self.highest = max(self.highest, item.seq)
        if queue == "strict" or item.group:
            lane = (queue, item.group)
            assert item.seq >= self.heads.get(lane, 0), f"{item.seq} overtook in {lane}"
            self.heads[lane] = item.seq

    def _ended(self, item: Item) -> None:
        assert item.seq not in self.gone, f"{item.seq} ended twice"
        self.gone.add(item.seq)

    # -- after a death -----------------------------------------------------------------------------

    def judge(self, found: dict[str, list[wire.Message]]) -> None:
        """Hold the promises against all messages of a file, by queue."""
        self.deaths += 1
        here: dict[str, int] = {}
        for queue, messages in found.items():
            for message in messages:
                body = message.body.decode()
                assert body not in here, f"{body[:40]} is there twice"
                assert self.intended.get(body) == queue, f"nobody sent {body[:40]} to {queue}"
                assert message.seq_number not in self.gone, f"{message.seq_number} came back"
                assert message.state in ("active", "dead_lettered")
                here[body] = message.seq_number
        self._judge_sends(here)
        self._judge_batches(here)
        self._take_over(here)

    def _judge_sends(self, here: dict[str, int]) -> None:
        """What was acknowledged is there, or had its end, or was in the hands of a drain."""
        ending = {ending.item.seq for ending in self.completing.values()}
        missing = [
            item
            for body, item in self.sent.items()
            if body not in here and item.seq not in self.gone | ending
        ]
        in_hands = sum(len(note.items) for note in self.draining.values())
        lost = [item for item in missing if self.queue_of[item.seq] != "drain"]
        assert not lost, f"acknowledged and lost: {[item.seq for item in lost]}"
        assert len(missing) <= in_hands, f"more lost than drains had in hand: {missing}"
        for body, seq in here.items():
            known = self.sent.get(body)
            assert known is None or known.seq == seq, f"{body[:40]} changed its number"
        self.gone |= {item.seq for item in missing}

    def _judge_batches(self, here: dict[str, int]) -> None:
        """A call that was not answered is there as a whole, or not at all."""
        for note in self.sending.values():
            if note.queue != "drain":
                seen = {item.body in here or item.body in self.delivered for item in note.items}
                assert len(seen) == 1, f"half of a call: {note}"

    def _take_over(self, here: dict[str, int]) -> None:
        """What the file says is known from now on."""
        for ending in self.completing.values():
            if ending.item.body not in here:
                self.gone.add(ending.item.seq)
        self.highest = max(self.highest, *here.values(), 0)
