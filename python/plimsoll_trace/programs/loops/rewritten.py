"""The program's own files, with its loops over numbers led past turns that are alike.

In `for step in range(...)`, the range is wrapped; in the body of a `while`, `step += 1` is. In both, so are
comparisons of the number and what it is taken modulo. What any other `for` goes through, and the condition of a
`while`, are wrapped so that the loop can be ended early; the numbers that such a `for` counts are known, so that
it can be led past batches that are alike. All else stays as it is written, and so do the numbers of
the lines.
"""

from __future__ import annotations

import ast
import builtins
import functools
import operator
import os
import runpy
import sys
import sysconfig
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from itertools import count
from types import CodeType
from typing import Any

import torch

from ...standins.patches import Patches
from ..watch import Watch
from . import syntax
from .batch_loops import BatchLoop, Conditions, Number, Numbered
from .patience import Items, Patience, Running

_MAX_SOURCE_BYTES = 4 * 2**20
_TRACER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OWN = (_TRACER, os.path.join(os.path.dirname(_TRACER), "plimsoll"))
# Folders of Python and its packages. Programs may lie below the root of a system Python, so it is not one of them.
_LIBRARIES = tuple(
    folder.rstrip(os.sep) + os.sep
    for folder in (*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix, *_OWN)
    if folder not in ("/", "/usr", "/usr/local")
)


class Counter:
    """Numbers that a `while` of the program counts up by one, led past turns that are alike.

    `while True: ... step += 1; if step > 600_000: break` says nowhere how many turns there are. A turn goes from
    one count to the next. Which numbers matter is known from what the program holds the number against: the largest
    of these is taken as the last.
    """

    def __init__(self, first: int, watch: Watch, patience: Patience) -> None:
        """At the end of the first turn, of which nothing is known."""
        # What the program has now.
        self.number = first + 1
        self._watch = watch
        self.patience = patience
        self._conditions = Conditions()
        self._conditions.ran(first)
        self._begin = Begin(watch)
        self._done = 0
        self._turn: Turn | None = None

    def looked(self, value: int, goal: int, modulo: int) -> None:
        self._conditions.looked(self.number, value, goal, modulo)

    def counted(self) -> int:
        """The number of the next turn that is run, at the end of one."""
        turn = self._begin.turn(self._watch)
        self._done += 1
        self._conditions.ran(self.number)
        following = self._following(turn)
        if following > self.number + 1:
            self._watch.leaves_out()
        self.number, self._turn = following, turn
        self._begin = Begin(self._watch)
        return following

    def _following(self, turn: Turn) -> int:
        last, after = self._conditions.last(), self.number + 1
        places = self._conditions.next_after(self.number)
        if last > self.number:
            # A loop that ends there does not come to what would be later.
            places += self._conditions.between(last, turn.ops)
            places = [place for place in places if self.number < place <= last + 1]
        if not places:
            return after
        turns = max(last, *places) - self.number
        alike = goes_on_alike(self._done, self._turn, turn, turns)
        alike = alike or self.patience.turn_ends(turn.ops, turns)
        return min(places) if alike else after


# Which turns of a loop over numbers are run.
#
# `for step in range(10_000)` trains for hours; what a program does after it would never be seen. Once two
# turns in a row asked for the same, the next ones are left out, up to those that may differ: where the
# program compares the number, or takes it modulo another; a few in between; and the last. Loops that are
# cheap are run as a whole.

# Turns that are run before any is left out, by the ops of one. The optimizer's state is there after the first; what
# the allocator holds settles with the next ones, so that more are run where they are cheap.
_LEAST_TURNS = ((1_000, 6), (4_000, 4))
_LEAST_OF_LONG_TURNS = 3
# A loop that takes fewer ops than this is run as a whole.
_CHEAP_OPS = 12_000
# A loop that holds on to more than this in all is run as a whole.
_MAX_GROWTH_BYTES = 2 * 2**20
_loops = count()


class Turns:
    """A range in a `for` of the program."""

    def __init__(self, numbers: range, watch: Watch, patience: Patience | None) -> None:
        self._numbers = numbers
        self._watch = watch
        self.patience = patience
        self._conditions = Conditions()
        self._number = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._numbers, name)

    def __iter__(self) -> Iterator[int]:
        numbers, done, last = self._numbers, 0, None
        at, loop = 0, f"t{next(_loops)}"
        while at < len(numbers):
            self._number = numbers[at]
            if last is not None and last.trains:
                self._watch.observer.ledger.mark(f"turn:{loop}")
            begin = Begin(self._watch)
            yield self._number
            done += 1
            self._conditions.ran(self._number)
            turn = begin.turn(self._watch)
            if goes_on_alike(done, last, turn, len(numbers)):
                left_out = self._next_of_interest(at, turn) - at - 1
                if left_out > 0:
                    # A real run has so many turns here that ask for what this one did.
                    self._watch.observer.ledger.mark(f"left-out:{loop}:{left_out}:1")
                at += left_out + 1
                self._watch.leaves_out()
            elif self._patience_ends(turn, len(numbers) - at - 1):
                if self.patience and self.patience.copied:
                    return
                at = self._next_of_interest(at, turn)
            else:
                at += 1
            last = turn

    def looked(self, value: int, goal: int, modulo: int) -> None:
        self._conditions.looked(self._number, value, goal, modulo)

    def _patience_ends(self, turn: Turn, left: int) -> bool:
        alike = not self._conditions
        return self.patience is not None and self.patience.turn_ends(turn.ops, left, alike)

    def _next_of_interest(self, at: int, turn: Turn) -> int:
        numbers = self._numbers
        last = len(numbers) - 1
        places = [last] if at < last else [last + 1]
        places += self._conditions.between(last, turn.ops)
        if numbers.step == 1:
            places += [n - numbers.start for n in self._conditions.next_after(self._number)]
        return min(place for place in places if place > at)


class Turn:
    def __init__(self, trains: bool, ops: int, grown: int, asked: int) -> None:
        self.trains = trains
        self.ops = ops
        self.grown = grown
        self.asked = asked


class Begin:
    def __init__(self, watch: Watch) -> None:
        ledger = watch.observer.ledger
        self._event = len(ledger.events)
        self._live = ledger.live_bytes
        self._ops = watch.observer.ops
        self._trained = watch.optimizer_steps + watch.backwards

    def turn(self, watch: Watch) -> Turn:
        ledger = watch.observer.ledger
        # Backward passes alone: parts of a batch whose gradients are added up.
        trains = watch.optimizer_steps + watch.backwards > self._trained
        asked = _asked(ledger.events, self._event) if trains else 0
        return Turn(trains, watch.observer.ops - self._ops, ledger.live_bytes - self._live, asked)


def _asked(events: list, begin: int) -> int:
    """One number for all that a turn asked for and gave back, in order."""
    own: dict[int, int] = {}
    found: list[Any] = []
    for event in events[begin:]:
        kind = event[0]
        if kind == "a":
            own[event[1]] = len(own)
            found.append(event[2])
        elif kind == "f":
            found.append((own.get(event[1], -1),))
        elif kind == "o":
            found.append((event[1], event[2]))
    return hash(tuple(found))


def _least_turns(ops: int) -> int:
    return next((turns for most, turns in _LEAST_TURNS if ops < most), _LEAST_OF_LONG_TURNS)


def goes_on_alike(done: int, last: Turn | None, turn: Turn, turns: int) -> bool:
    """Whether, after so many turns, the next ones of so many in all would ask for the same."""
    return (
        done >= _least_turns(turn.ops)
        and last is not None
        and turn.trains
        and last.trains
        and turn.asked == last.asked
        and turn.grown >= 0
        and turn.grown * turns <= _MAX_GROWTH_BYTES
        and turn.ops * turns > _CHEAP_OPS
    )


def install(patches: Patches, watch: Watch) -> None:
    running = _Running(watch)
    patches.add(builtins, syntax.TURNS, running.turns)
    patches.add(builtins, syntax.ITEMS, running.items)
    patches.add(builtins, syntax.NUMBERED, running.numbered)
    patches.add(builtins, syntax.LED, running.led)
    patches.add(builtins, syntax.BEGINS, running.begins)
    patches.add(builtins, syntax.GOES_ON, running.goes_on)
    patches.add(builtins, syntax.COUNTED, running.counted)
    patches.add(builtins, syntax.MODULO, running.modulo)
    patches.add(builtins, syntax.VALUE, running.value)
    patches.add(builtins, syntax.GOAL, running.goal)
    of_file: Any = runpy._get_code_from_file  # type: ignore[attr-defined]

    def _get_code_from_file(*args: Any) -> Any:
        # The file's name alone, or after the module's; the code alone, or with that name.
        given = of_file(*args)
        code = given[0] if isinstance(given, tuple) else given
        code = _rewritten(args[-1], code)
        return (code, *given[1:]) if isinstance(given, tuple) else code

    patches.set(runpy, "_get_code_from_file", _get_code_from_file)
    get_code = SourceFileLoader.get_code

    def of_module(self: Any, name: str) -> Any:
        code = get_code(self, name)
        return code if code is None else _rewritten(self.get_filename(name), code)

    patches.set(SourceFileLoader, "get_code", of_module)


def _rewritten(path: str, code: CodeType) -> CodeType:
    """The code of a file of the program; the code as it is for all others."""
    if not path.endswith(".py") or not is_the_programs(os.path.abspath(path)):
        return code
    try:
        with open(path, "rb") as file:
            source = file.read(_MAX_SOURCE_BYTES + 1)
        if len(source) > _MAX_SOURCE_BYTES or not (b"for" in source or b"while" in source):
            return code
        loops = syntax.Loops(path)
        tree = ast.fix_missing_locations(loops.visit(ast.parse(source, path)))
        return compile(tree, path, "exec", dont_inherit=True) if loops.found else code
    except (OSError, ValueError, SyntaxError, RecursionError):
        return code


def is_the_programs(path: str) -> bool:
    parts = path.split(os.sep)
    named = "site-packages" in parts or "dist-packages" in parts
    return not (named or path.startswith(_LIBRARIES) or _is_installed(path))


def _is_installed(path: str) -> bool:
    """Whether it lies where packages were installed, in a folder of any name, as pip can be told."""
    folders = (os.path.abspath(folder) + os.sep for folder in sys.path if folder)
    return any(path.startswith(folder) and _holds_packages(folder) for folder in folders)


@functools.cache
def _holds_packages(folder: str) -> bool:
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder))
    except OSError:
        return False


class _Running:
    """What the wrapped places of a program call."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        # By the place of a loop: the one that runs, and the value that it looked at last.
        self._loops: dict[str, Turns | Counter | Number] = {}
        self._others: dict[str, Running] = {}
        self._batch_loops: dict[str, BatchLoop] = {}
        # By the place of a number that a loop counts: the loop, and its name.
        self._led: dict[str, tuple[BatchLoop, str]] = {}
        self._looked: dict[str, tuple[Any, int]] = {}

    def turns(self, loop: str, numbers: Any, yields: bool) -> Any:
        if type(numbers) is not range or torch.compiler.is_compiling():
            return numbers
        patience = None if yields else self._patience(loop)
        self._loops[loop] = Turns(numbers, self._watch, patience)
        return self._loops[loop]

    def _patience(self, loop: str) -> Patience:
        before = self._loops.get(loop)
        patience = before.patience if isinstance(before, (Turns, Counter)) else None
        return Patience(loop, self._watch, patience)

    def items(self, loop: str, given: Any) -> Any:
        if torch.compiler.is_compiling():
            return given
        return Items(given, self._begun(loop), self._batch_loop(loop))

    def _batch_loop(self, loop: str) -> BatchLoop:
        if loop not in self._batch_loops:
            self._batch_loops[loop] = BatchLoop(self._watch)
        return self._batch_loops[loop]

    def numbered(self, place: str, function: Any, given: Any, start: Any = 0) -> Any:
        """In the place of `enumerate`."""
        if function is not enumerate or type(start) is not int or torch.compiler.is_compiling():
            return function(given, start)
        loop, _, name = place.rpartition(":")
        batches = self._batch_loop(loop)
        self._loops[place] = batches.number(name)
        return Numbered(given, start, name, batches)

    def led(self, place: str, value: Any) -> Any:
        """At the beginning of a turn: a number that it counts, past the turns that were left out."""
        if type(value) is not int or torch.compiler.is_compiling():
            return value
        known = self._led.get(place)
        if known is None:
            loop, _, name = place.rpartition(":")
            known = self._led[place] = (self._batch_loop(loop), name)
            self._loops[place] = known[0].number(name)
        return known[0].begins_turn(known[1], value)

    def begins(self, loop: str) -> None:
        """Before a `while`."""
        if not torch.compiler.is_compiling():
            self._begun(loop)

    def _begun(self, loop: str) -> Running:
        self._others[loop] = Running(loop, self._watch, self._others.get(loop))
        return self._others[loop]

    def goes_on(self, loop: str) -> bool:
        """Where the condition of a `while` holds."""
        return torch.compiler.is_compiling() or self._others[loop].goes_on()

    def counted(self, loop: str, value: Any) -> Any:
        """One more, or as many more as there are turns that are alike."""
        if type(value) is not int or torch.compiler.is_compiling():
            return operator.iadd(value, 1)
        counter = self._loops.get(loop)
        if not isinstance(counter, Counter) or counter.number != value:
            # It begins, or begins again.
            self._loops[loop] = Counter(value, self._watch, self._patience(loop))
            return value + 1
        return counter.counted()

    def modulo(self, loop: str, value: Any, modulo: Any) -> Any:
        result = value % modulo
        if type(value) is int and type(modulo) is int and modulo > 0:
            self._looked[loop] = (value, modulo)
            self._see(loop, value, 0, modulo)
        return result

    def value(self, loop: str, value: Any) -> Any:
        self._looked[loop] = (value, 0)
        return value

    def goal(self, loop: str, goal: Any) -> Any:
        value, modulo = self._looked.get(loop, (None, 0))
        self._see(loop, value, goal, modulo)
        return goal

    def _see(self, loop: str, value: Any, goal: Any, modulo: int) -> None:
        turns = self._loops.get(loop)
        if isinstance(goal, float) and goal.is_integer():
            goal = int(goal)
        if turns is not None and type(value) is int and type(goal) is int:
            turns.looked(value, goal, modulo)
