"""Which sizes a compiled function will be called with, once it trains with one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

# Each takes a while, and with many loaders few guesses are right.
_MAX_SIZES = 4


class Loads(NamedTuple):
    """What is known of a loader."""

    batch: int
    samples: int
    # Whether a last batch that is short is left out.
    drops: bool


class Size(NamedTuple):
    # None: as in the call at hand.
    batch: int | None
    trains: bool


def likely(
    rows: Sequence[int], read: Loads | None, others: Sequence[Loads], evaluates: bool
) -> list[Size]:
    """In the order in which they will come. rows: of the tensors that the function is given; read: the loader that
    they come from; others: those that an evaluation may read; evaluates: whether the program has any."""
    found: list[Size] = []
    scales = read is not None and read.batch in rows
    if read is not None and scales and (short := _short(read)):
        found.append(Size(short, trains=True))
    if not evaluates:
        return found
    if not scales or not others:
        return [*found, Size(None, trains=False)]
    for loader in others:
        whole = min(loader.batch, loader.samples)
        usual = None if read is not None and whole == read.batch else whole
        found.append(Size(usual, trains=False))
        if loader.samples > loader.batch and (short := _short(loader)):
            found.append(Size(short, trains=False))
    return list(dict.fromkeys(found))[:_MAX_SIZES]


def _short(loader: Loads) -> int:
    """Samples of a last batch that has fewer than the others; 0 where there is none."""
    return 0 if loader.drops or loader.samples < loader.batch else loader.samples % loader.batch
