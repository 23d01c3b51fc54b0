"""The record of a run: allocations, frees and marks, in order, written as JSON lines.

Events are kept in memory until the end because what an allocation was for (a weight, a
gradient, optimizer state) is only known after the step that used it. They are tuples of numbers and
words: there are hundreds of thousands, and Python's garbage collector goes through lists again and again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any, TextIO

WEIGHT, GRADIENT, OPTIMIZER, ACTIVATION = "w", "g", "o", "x"
WORKSPACE, TEMPORARY, BATCH = "k", "t", "b"
# Of one rank of many: parameters gathered from all, gradients on their way to them, buckets of DDP.
GATHERED, REDUCE, BUCKET = "p", "r", "u"

# The allocator hands out multiples of this.
_SMALLEST = 512


def _line(event: tuple) -> str | None:
    """The JSON of the two kinds of which there are hundreds of thousands: numbers and one letter."""
    if event[0] == "f":
        return f'["f",{event[1]}]'
    if event[0] == "a" and len(event) == 6:
        _, ident, size, op, module, category = event
        return f'["a",{ident},{size},{op},{module},"{category}"]'
    return None


def _rounded(size: int) -> int:
    return (size + _SMALLEST - 1) // _SMALLEST * _SMALLEST


class Ledger:
    def __init__(self) -> None:
        self.events: list[tuple] = []
        # For each allocation, by its number: the place of its request among the events. Numbers begin at 1.
        self._asked_at: list[int] = [-1]
        self._strings: dict[str, int] = {"": 0}
        self._closed = False
        # Blocks that are live, and the most there were: what a program is told that asks.
        self.live_bytes = 0
        self.peak_bytes = 0
        # What a card has, and what is done where more is asked for; it may raise an error.
        self.limit = sys.maxsize
        self.over_limit: Callable[[int], None] | None = None
        # How many times the program has emptied the cache.
        self.emptied = 0
        # All that was asked for so far, also what was given back.
        self.asked_bytes = 0
        # What may be less of them in a real run, and what may be less of the peak.
        self._loose: dict[int, int] = {}
        self._loose_bytes = 0
        self.loose_at_peak = 0
        # What they may be larger by, and the most that would then be live.
        self._larger: dict[int, int] = {}
        self._larger_bytes = 0
        self._most_bytes = 0
        # Which stream asks, where there are several; each has memory of its own in the allocator.
        self.stream_now: Callable[[], int] | None = None
        # Blocks that other streams work on, how many of them were freed, and how many of those are done.
        self._used: set[int] = set()
        self._given = 0
        self._waited = 0

    def intern(self, text: str) -> int:
        index = self._strings.get(text)
        if index is None:
            index = self._strings[text] = len(self._strings)
        return index

    def allocate(self, size: int, op: str, module: str, category: str) -> int:
        """Records one request; a request for nothing never reaches the allocator and is id 0."""
        if size <= 0:
            return 0
        return self.allocate_again(size, self.intern(op), self.intern(module), category)

    def allocate_again(self, size: int, op: int, module: int, category: str) -> int:
        """A request whose names are known by their numbers."""
        live = self.live_bytes + (size + _SMALLEST - 1) // _SMALLEST * _SMALLEST
        if live > self.limit and self.over_limit is not None:
            self.over_limit(size)
        stream = 0 if self.stream_now is None else self.stream_now()
        ident = len(self._asked_at)
        event = ("a", ident, size, op, module, category)
        self._asked_at.append(len(self.events))
        self.events.append((*event, stream) if stream else event)
        self.asked_bytes += size
        self.live_bytes = live
        if live > self.peak_bytes or live + self._larger_bytes > self._most_bytes:
            self._rise(live)
        return ident

    def is_plain(self, held: Iterable[int]) -> bool:
        """Whether nothing more is to be said of the next requests, and of the ends of these allocations.

        There is on other streams than the first, and where others use an allocation or a real run may ask for less.
        """
        if self._closed or (self.stream_now is not None and self.stream_now()):
            return False
        return self._loose.keys().isdisjoint(held) and self._used.isdisjoint(held)

    def repeat(self, steps: list[tuple], held: dict[Any, int]) -> dict[Any, int]:
        """The steps of an earlier pass (`steps_of`) once more, where all is plain; what each slot lies in then.

        One loop for all of them: texts of some thousand words take millions of steps.
        """
        events, asked_at = self.events, self._asked_at
        first = len(asked_at)
        before = live = highest = self.live_bytes
        blocks: list[int] = []
        made: dict[Any, int] = {}
        for step in steps:
            kind = step[0]
            if kind == "a":
                _, size, op, module, category, slot = step
                block = (size + _SMALLEST - 1) // _SMALLEST * _SMALLEST
                live += block
                if live > highest:
                    if live > self.limit and self.over_limit is not None:
                        self.live_bytes = live - block
                        self._rise(highest)
                        self.over_limit(size)
                    highest = live
                ident = first + len(blocks)
                if slot is not None:
                    made[slot] = ident
                blocks.append(block)
                asked_at.append(len(events))
                events.append(("a", ident, size, op, module, category))
                self.asked_bytes += size
            elif kind == "f":
                whose = step[1]
                if type(whose) is int:
                    live -= blocks[whose]
                    events.append(("f", first + whose))
                elif ident := held[whose[1]]:
                    live -= self._size_of(ident)
                    events.append(("f", ident))
            else:
                self._rise(live + _rounded(step[1]))
                events.append(step)
        self.live_bytes = live
        if highest > before:
            self._rise(highest)
        return made

    def unsure_scratch(self, size: int, other: int, chance: float, choice: int) -> None:
        """Scratch memory of a kernel, given back at once; with this chance another runs, which asks for `other`.

        Both may be 0. Requests with the same choice are decided alike.
        """
        self.events.append(("o", size, other, chance, choice))
        self._rise(self.live_bytes + _rounded(size))

    def _rise(self, size: int) -> None:
        if size > self.peak_bytes:
            self.peak_bytes, self.loose_at_peak = size, self._loose_bytes
        self._most_bytes = max(self._most_bytes, size + self._larger_bytes)

    @property
    def count(self) -> int:
        """How many allocations there were."""
        return len(self._asked_at) - 1

    def asked(self, ident: int) -> tuple | None:
        """The event that asked for an allocation."""
        known = 0 < ident < len(self._asked_at)
        return self.events[self._asked_at[ident]] if known else None

    def _size_of(self, ident: int) -> int:
        return _rounded(self.events[self._asked_at[ident]][2])

    @property
    def larger_at_most(self) -> int:
        """What the peak rises by where all is taken of which a part was."""
        return max(0, self._most_bytes - self.peak_bytes)

    def may_be_less(self, ident: int, times: float = 1, less: float = 1) -> None:
        """A real run may ask for this part less here, where it is 1 for nothing, or for so many times as much."""
        if not ident or ident in self._loose:
            return
        size = self._size_of(ident)
        self._loose[ident] = int(size * less)
        self._loose_bytes += self._loose[ident]
        if times > 1:
            self._larger[ident] = int(size * (times - 1))
            self._larger_bytes += self._larger[ident]
            self._rise(self.live_bytes)
        if self.live_bytes == self.peak_bytes:
            self.loose_at_peak = self._loose_bytes

    def peak_may_be_less(self, since: int) -> None:
        """All that the peak rose by since it was so high."""
        self.loose_at_peak = max(self.loose_at_peak, self.peak_bytes - since)

    def free(self, ident: int) -> None:
        if ident and not self._closed:
            self.events.append(("f", ident))
            if self._used and ident in self._used:
                self._used.remove(ident)
                self._given += 1
            size = self._size_of(ident)
            self.live_bytes -= size
            if self._loose and ident in self._loose:
                self._loose_bytes -= self._loose.pop(ident)
                self._larger_bytes -= self._larger.pop(ident, 0)

    def use(self, ident: int, stream: int) -> None:
        """Another stream works on it (`record_stream`): once freed, it is kept until that work is done."""
        event = self.asked(ident)
        own = 0 if event is None or len(event) == 6 else event[6]
        if event is not None and own != stream and not self._closed:
            self._used.add(ident)
            self.events.append(("r", ident))

    def place(self) -> int:
        """How many frees wait, or waited, for other streams: what an event of a stream marks."""
        return self._given

    def wait(self, place: int) -> None:
        """The host waits until the streams have done all that was asked of them before a place."""
        if place > self._waited and not self._closed:
            self._waited = place
            self.events.append(("w", place))

    def names(self, part: str) -> bool:
        """Whether an op or a module with this in its name asked for anything."""
        return any(part in text for text in self._strings)

    def mark(self, phase: str) -> None:
        self.events.append(("m", phase))

    def launch(self, kind: str) -> None:
        """The first kernel of a kind runs (`launches`)."""
        if not self._closed:
            self.events.append(("k", kind))

    def empty_cache(self) -> None:
        self.events.append(("c",))

    def program_empties_cache(self) -> None:
        """By a call of its own, not by convolutions that are tried: these empty it at each new shape."""
        self.emptied += 1
        self.empty_cache()

    def close(self) -> None:
        """Ends the record: what is given up while the process winds down is no part of the run."""
        self._closed = True

    def label(self, ident: int, category: str, module: str = "") -> None:
        """Says afterwards what an allocation was for, and whose it is where that is known."""
        event = self.asked(ident)
        if event is not None:
            whose = self.intern(module) if module else event[4]
            self.events[self._asked_at[ident]] = (*event[:4], whose, category, *event[6:])

    def write(self, out: TextIO, header: dict, footer: dict) -> None:
        dump = json.JSONEncoder(separators=(",", ":")).encode
        out.write(dump(header) + "\n")
        out.writelines(dump(["s", index, text]) + "\n" for text, index in self._strings.items())
        chunk: list[str] = []
        for event in self.events:
            chunk.append(_line(event) or dump(event))
            if len(chunk) == 4096:
                out.write("\n".join(chunk) + "\n")
                chunk.clear()
        if chunk:
            out.write("\n".join(chunk) + "\n")
        out.write(dump(footer) + "\n")
