"""One program that is short of memory: measured first, then kept within its limit by the cheapest mix."""

from __future__ import annotations

import logging
import threading
import weakref
from dataclasses import replace
from typing import Any, Callable

import torch
from torch.optim import optimizer as optimizers

from .blocks import Seen
from .card import Card, bus_speed
from .decide import Measured, Plan, decide
from .hooks import DefaultHooks
from .host_pool import HostPool
from .loss import LossInParts
from .measuring import MAX_FORWARDS, Measuring
from .optimizer_states import OptimizerStates
from .recompute import Recompute
from .saved import SavedStore

log = logging.getLogger("plimsoll")

# Below this share of the limit nothing is touched.
IDLE_BELOW = 0.6
# Of the limit, kept free until it is known how much a step needs for a moment.
FIRST_HEADROOM = 0.4
# The allocator loses this share of the limit between its blocks.
LOST = 0.05
# What is kept free grows by this share of the limit where the allocator had to give back its cache.
MORE_HEADROOM = 0.03
MAX_HEADROOM = 0.45
LEAST_HEADROOM = 0.1
# A loss is computed in parts where this many copies of the logits, in four bytes each, would pass this share.
LOSS_FROM = 0.8
LOSS_COPIES = 4
# While turns are measured, blocks up to this share of the limit are computed again.
LARGEST_TRIED = 1 / 8
# A graph that is larger than planned by this factor is measured again, this often at the most.
GROWN = 1.15
MAX_MEASURED = 8
# More than this share of the limit was spilled late: the plan makes room for it.
LATE = 0.01
MAX_CORRECTED = 2
# A step that was this much shorter than planned, what was computed again left out: times were measured with waiting.
SHORTER = 0.95
MAX_SHORTENED = 8
# Of a step, at the most: what all blocks take in the forward.
FORWARD_OF_BLOCKS = 0.35
# Steps between two looks at a program that needs nothing.
IDLE_STEPS = 4


class Spilling:
    """Keeps one card within its limit; begins in the thread that trains.

    `ask` gives a supervisor's plan, or None where there is none in time; `send` gets the figures; `cap` limits the
    allocator.
    """

    def __init__(
        self,
        card: Card,
        limit: int,
        host_bytes: int,
        mode: str = "auto",
        headroom: int = 0,
        ask: Callable[[Measured, int], Plan | None] = lambda *_: None,
        send: Callable[[dict[str, Any]], None] = lambda _: None,
        cap: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.card, self.mode = card, mode
        self.plan: Plan | None = None
        self.measured: Measured | None = None
        self.aside: str | None = None
        self._ask, self._send, self._cap = ask, send, cap
        self._stated_headroom = headroom
        self.pool = HostPool(host_bytes, card.pins)
        self.store = SavedStore(card, self.pool, limit, 0)
        self.hooks = DefaultHooks(self.store.pack, self.store.unpack)
        self.recompute = Recompute(self.store)
        self.states = OptimizerStates(card, self.pool)
        self.loss = LossInParts(self._is_loss_large)
        self.measuring: Measuring
        self.store.asked = self._asked
        self.recompute.ended = lambda: self.measuring.computed_again()
        self.store.forward_begins = lambda: self.measuring.forward_begins()
        self.store.backward_begins = self._backward_begins
        self._thread = threading.get_ident()
        self._wanted: tuple[int, Callable[[int, int], None]] | None = None
        self._bus: tuple[float, float] | None = None
        self._times_measured = 0
        # Not so where gradients accumulate over many forwards.
        self._step_is_turn = True
        self._has_grown = False
        self._corrected = 0
        self._shortened = 0
        self._late = 0
        self._idle_steps = 0
        self._retries = card.retries()
        self._optimizer: weakref.ref[Any] | None = None
        self._state_bytes: dict[int, int] = {}
        self._stalls = 0.0
        self._step_marks: list[tuple[Any, float]] = []
        self._handles = [
            optimizers.register_optimizer_step_pre_hook(self._before_step),
            optimizers.register_optimizer_step_post_hook(self._after_step),
        ]
        self._measure()
        self.hooks.on()

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
        self.measuring.stop()
        self.recompute.close()
        self.states.close()
        self.loss.close()
        self.hooks.close()
        self.store.is_idle = True
        self.card.give_back()

    def figures(self) -> dict[str, Any]:
        """All that was moved and computed again so far."""
        moved = self.store.bytes_out + self.states.bytes_out
        return {
            "bytesOut": moved,
            "bytesBack": self.store.bytes_back + self.states.bytes_back,
            "recomputedSeconds": round(self.recompute.seconds, 6),
            "stallSeconds": round(self._stalls, 6),
            "pinnedBytes": self.pool.reserved,
            "limitBytes": self.store.limit,
            "active": self.hooks.is_on and (moved > 0 or self.recompute.is_on),
            "aside": self.aside,
        }

    def move_limit(self, limit: int, answer: Callable[[int, int], None]) -> None:
        """From any thread. Holds from the next tensors that are saved, and surely from the end of the step; `answer`
        then hears the limit that holds and what the program holds.
        """
        self._wanted = limit, answer
        if self.measuring.turns == 0 and self._optimizer is None:
            # It has not trained yet, and may never do.
            self._obey()

    def _measure(self) -> None:
        self._times_measured += 1
        self._has_grown = False
        self._corrected = self._late = 0
        self.plan = None
        self.store.quota = 0
        self.store.headroom = self._first_headroom()
        self.recompute.choose([])
        self.measuring = Measuring(self.card, self.store, self.recompute, self._turned)

    def _first_headroom(self) -> int:
        limit = self.store.limit
        return min(
            int(limit * MAX_HEADROOM),
            max(int(limit * FIRST_HEADROOM), self._stated_headroom + int(limit * LOST)),
        )

    def _is_pressed(self) -> bool:
        return self.card.held() > IDLE_BELOW * self.store.limit

    def _is_loss_large(self, logits: torch.Tensor) -> bool:
        if not self.card.has(logits):
            return False
        copies = LOSS_COPIES * 4 * logits.numel()
        return self.card.held() + copies > LOSS_FROM * self.store.limit

    # What happens while the program runs.

    def _asked(self) -> None:
        wanted = self._wanted
        if wanted is not None:
            if wanted[0] > self.store.limit:
                self._cap(wanted[0])
            self.store.limit = wanted[0]
        if not self.measuring.is_over:
            self.measuring.asked(self._is_pressed())

    def _backward_begins(self) -> None:
        if not self.measuring.is_over:
            self.measuring.backward_begins(self._all_states())
        elif self.plan is not None and self.measured is not None:
            again = set(self.plan.recompute)
            kept = sum(b.bytes for b in self.measured.blocks if b.name not in again)
            planned = kept + self.measured.other_bytes
            self._has_grown |= self.store.saved_bytes > GROWN * planned + self.store.limit * LOST

    def _all_states(self) -> int:
        return sum(self._state_bytes.values()) if self.card.holds_all else 0

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        self._state_bytes[id(optimizer)] = self.states.held_bytes(optimizer)
        self._asked()
        held = self.store.card.held()
        self.states.step_in_order(optimizer, self.store.limit * (1 - LOST) - held)

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        self._state_bytes[id(optimizer)] = self.states.held_bytes(optimizer)
        first = None if self._optimizer is None else self._optimizer()
        if first is None:
            self._optimizer = weakref.ref(optimizer)
        elif first is not optimizer:
            return
        try:
            self.measuring.step_ended()
            self._step_ended()
        except Exception as error:
            log.debug("plimsoll: spilling goes on without a plan", exc_info=True)
            self._go_on_without_plan(f"its steps could not be measured: {error}")

    def _go_on_without_plan(self, why: str) -> None:
        self.aside = why
        self.measuring.stop()
        self.recompute.choose([])

    def _step_ended(self) -> None:
        if self._wanted is not None:
            self._obey()
        if self.measuring.is_over:
            self._look_again()
        if self.hooks.is_on:
            self._count_stalls()
            self._send(self.figures())

    def _look_again(self) -> None:
        """After a step that was not measured."""
        if not self.hooks.is_on:
            self._idle_steps += 1
            if (
                self._idle_steps % IDLE_STEPS == 0
                and self.card.peak() > IDLE_BELOW * self.store.limit
            ):
                self._measure()
                self.hooks.on()
            return
        retries = self.card.retries()
        if retries > self._retries:
            more = self.store.headroom + int(MORE_HEADROOM * self.store.limit)
            self.store.headroom = min(more, int(MAX_HEADROOM * self.store.limit))
        self._retries = retries
        late, self.store.max_late = self.store.max_late, 0
        if late > LATE * self.store.limit and self._corrected < MAX_CORRECTED and self.measured:
            self._corrected += 1
            self._late += late
            self._apply(decide(self._corrected_measure(self.measured), self.store.limit))
        if self._has_grown and self._times_measured < MAX_MEASURED:
            self._measure()

    def _count_stalls(self) -> None:
        self._step_marks.append((self.card.timed_mark(), self.recompute.seconds))
        if len(self._step_marks) < 3:
            return
        (first, before), (second, after) = self._step_marks[:2]
        if self.measured is not None and self.card.is_done(second):
            seconds = self.card.seconds_between(first, second) - (after - before)
            self._stalls += max(0.0, seconds - self.measured.step_seconds)
            if self.measuring.is_over and self._step_is_turn and self._shortened < MAX_SHORTENED:
                self._shorten(seconds)
        self._step_marks.pop(0)

    def _shorten(self, seconds: float) -> None:
        """The step of the program alone takes no longer than this."""
        if self.measured is None or not 0 < seconds < SHORTER * self.measured.step_seconds:
            return
        self._shortened += 1
        self.measured = _plausible(replace(self.measured, step_seconds=seconds))
        self._apply(decide(self._corrected_measure(self.measured), self.store.limit))

    # What is decided.

    def _turned(self) -> None:
        """A measured turn has ended."""
        self._retries = self.card.retries()
        peak = max(self.card.peak(), self.measuring.highest)
        is_short = peak > IDLE_BELOW * self.store.limit or self.store.bytes_out > 0
        if not is_short and self.mode != "always":
            if self.measuring.is_over:
                self.hooks.off()
            return
        states = self._all_states()
        if not self.measuring.is_over:
            # As many as can be are computed again, so that no time is waited for a copy.
            most = self.store.limit * LARGEST_TRIED
            blocks = [block for _, block in self.measuring.blocks() if block.bytes <= most]
            names = tuple(block.name for block in blocks)
            self._apply(Plan(True, 0.0, 0, names))
            return
        if self._bus is None:
            self._bus = bus_speed(self.card)
        self._step_is_turn = self.measuring.forwards <= MAX_FORWARDS
        self._shortened = 0
        self.measured = _plausible(self.measuring.result(states, self._bus, self.pool.most))
        self._decide()

    def _decide(self) -> None:
        if self.measured is None:
            return
        limit = self.store.limit
        self._make_headroom(self.measured.temporary_bytes)
        self.store.max_late = 0
        measured = self._corrected_measure(self.measured)
        self._apply(self._ask(measured, limit) or decide(measured, limit))

    def _make_headroom(self, temporary: int) -> None:
        limit = self.store.limit
        least = max(self._stated_headroom, int(limit * LEAST_HEADROOM))
        headroom = max(temporary + int(limit * LOST), least)
        self.store.headroom = min(int(limit * MAX_HEADROOM), headroom)

    def _corrected_measure(self, measured: Measured) -> Measured:
        """With room for what was spilled late all the same."""
        return replace(measured, temporary_bytes=measured.temporary_bytes + self._late)

    def _apply(self, plan: Plan) -> None:
        self.plan = plan
        blocks = self.measuring.blocks()
        names = set(plan.recompute)
        self.aside = None
        if not plan.fits:
            # It may fit all the same: what is needed for a moment was seen where the limit pressed least.
            self.aside = f"the least limit that surely works is {plan.least_bytes} bytes"
            names = {block.name for _, block in blocks}
        self.states.is_on = plan.optimizer_to_host
        self.store.quota = plan.spill_bytes
        chosen = [(seen, block) for seen, block in blocks if block.name in names]
        self.recompute.choose(
            [
                (module, block.bytes // max(1, _calls(seen)), seen.seconds_of_call)
                for seen, block in chosen
                for module in [seen.module()]
                if module is not None
            ]
        )

    def _obey(self) -> None:
        """A limit that was moved holds now, or the least that can hold."""
        wanted, self._wanted = self._wanted, None
        if wanted is None:
            return
        limit, answer = wanted
        if self.measured is not None:
            plan = decide(self.measured, limit)
            limit = limit if plan.fits else max(limit, plan.least_bytes)
        limit = max(limit, int(self.card.held() * (1 + LOST)))
        self.store.limit = limit
        self._cap(limit)
        if not self.hooks.is_on:
            self._measure()
            self.hooks.on()
        self._decide()
        answer(limit, self.card.held())


def _plausible(measured: Measured) -> Measured:
    """Times of blocks hold waiting, too, where copies ran beside them."""
    taken = sum(block.seconds for block in measured.blocks)
    most = FORWARD_OF_BLOCKS * measured.step_seconds
    if taken <= most:
        return measured
    blocks = tuple(replace(b, seconds=b.seconds * most / taken) for b in measured.blocks)
    return replace(measured, blocks=blocks)


def _calls(seen: Seen) -> int:
    return max(1, seen.calls)
