"""The first turns of a program: what its blocks hold and take, what a step needs beside them, how long a turn lasts.

A turn is a forward with its backward, up to the optimizer's step, or to the next forward where steps accumulate.
"""

from __future__ import annotations

from typing import Any, Callable

from .blocks import Seen, Watch, candidates
from .card import Card
from .decide import Block, Measured
from .recompute import Recompute
from .saved import SavedStore

# The first turn tells bytes. In the second, kernels are chosen and memory of the host is pinned. The third tells times,
# and what is needed for a moment.
TURNS = 3
# Forwards in one step of the optimizer after which each of them is a turn: gradients accumulate.
MAX_FORWARDS = 3


class Measuring:
    """Ends each turn by `turned`; after the last one it watches nothing any more."""

    def __init__(
        self, card: Card, store: SavedStore, recompute: Recompute, turned: Callable[[], None]
    ) -> None:
        self._card, self._store, self._recompute, self._turned = card, store, recompute, turned
        self.turns = 0
        self.seconds = 0.0
        # Of the forward that saved the most.
        self.graph_bytes = 0
        self._graph: list[tuple[Seen, int, int]] = []
        self._fixed = self._states = 0
        self.temporary_bytes = 0
        # The peak of all turns.
        self.highest = 0
        self._held: int | None = None
        # In one step, at the most.
        self.forwards = 0
        self._forwards = 0
        self._start: Any = None
        recompute.marks = []
        self._watch = Watch(card, store.knows, lambda: recompute.is_running)
        self._watch.start()
        store.watcher = self._watch.saved

    @property
    def is_over(self) -> bool:
        return self.turns >= TURNS

    def stop(self) -> None:
        self.turns = max(self.turns, TURNS)
        self._watch.stop()
        self._store.watcher = None
        self._recompute.marks = None

    def asked(self, is_pressed: bool) -> None:
        """Now and then, while tensors are saved and asked for: how much more was held for a moment since."""
        if self.is_over or not (is_pressed or self.turns > 0):
            return
        peak = self._card.peak()
        self.highest = max(self.highest, peak)
        if self._held is not None:
            self.temporary_bytes = max(self.temporary_bytes, peak - self._held)
        self._card.forget_peak()
        self._held = self._card.held()

    def computed_again(self) -> None:
        """What a block holds while it is computed again is known; it is nothing that only a moment needs."""
        if not self.is_over:
            self._card.forget_peak()
            self._held = self._card.held()

    def forward_begins(self) -> None:
        if self.is_over:
            return
        self._forwards += 1
        self.forwards = max(self.forwards, self._forwards)
        if self._forwards > MAX_FORWARDS:
            self._end_turn()
        if self._start is None:
            self._start = self._card.timed_mark()
        if self.turns == 0:
            self._watch.forward_begins()

    def backward_begins(self, state_bytes: int) -> None:
        if self.turns > 0:
            return
        self._watch.backward_begins()
        self._store.fixed |= self._watch.fixed
        graph = self._store.saved_bytes
        if graph > self.graph_bytes:
            self.graph_bytes = graph
            self._fixed = self._card.held() - self._store.here_bytes
            self._states = state_bytes
            found = candidates(self._watch.tops)
            self._graph = [(seen, seen.bytes, seen.calls) for seen in found]

    def step_ended(self) -> None:
        self._held = None
        self._forwards = 0
        self._watch.step_ended()
        if not self.is_over and self._start is not None:
            self._end_turn()

    def _end_turn(self) -> None:
        end = self._card.timed_mark()
        self._card.settle()
        marks = self._recompute.marks or []
        again = sum(self._card.seconds_between(first, second) for first, second in marks)
        self.seconds = max(1e-6, self._card.seconds_between(self._start, end) - again)
        self._start = end
        self._recompute.marks = []
        self._watch.read_times()
        self.turns += 1
        if self.turns == 1:
            self._store.watcher = None
            self._watch.only_times([seen for seen, _, _ in self._graph])
        if self.turns == TURNS - 1:
            self.temporary_bytes = 0
        if self.is_over:
            self.stop()
        self._turned()

    def blocks(self) -> list[tuple[Seen, Block]]:
        return [
            (seen, Block(seen.name, size, seen.seconds_of_call * calls))
            for seen, size, calls in self._graph
        ]

    def result(self, state_bytes: int, bus: tuple[float, float], host_bytes: int) -> Measured:
        """`state_bytes`: of optimizers, now; the first step makes them."""
        blocks = tuple(block for _, block in self.blocks())
        return Measured(
            blocks=blocks,
            other_bytes=max(0, self.graph_bytes - sum(block.bytes for block in blocks)),
            fixed_bytes=max(0, self._fixed + state_bytes - self._states),
            optimizer_bytes=state_bytes,
            temporary_bytes=self.temporary_bytes,
            loss_bytes=0,
            out_bytes_per_second=bus[0],
            back_bytes_per_second=bus[1],
            step_seconds=self.seconds,
            host_bytes=host_bytes,
        )
