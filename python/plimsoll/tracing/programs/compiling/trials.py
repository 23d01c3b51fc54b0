"""How Inductor tries a fused kernel out, in a few forms, before its first run."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import torch
from torch._inductor.runtime import hints, triton_heuristics

from ...ledger import WORKSPACE

_DECORATED = re.compile(
    r"@(triton_heuristics\.\w+\(.*?\))\s*@triton\.jit\s*def \w+\((.*?)\)", re.DOTALL
)
# The others name all forms themselves: one.
_LISTED = ("pointwise", "reduction", "persistent_reduction")


class Forms(NamedTuple):
    """What is known of a kernel before it runs."""

    number: int
    # Places of the arguments that it changes: each try works on copies of these.
    changed: tuple[int, ...] = ()
    # Whether copies that would raise the peak so far lie on the host.
    spares: bool = False


class _Settings:
    """Stands for the module of heuristics in the source of a kernel: says which is asked, and how."""

    def __getattr__(self, name: str) -> Any:
        return lambda **settings: (name, settings)


def forms(source: str) -> Forms:
    found = _DECORATED.search(source)
    if found is None:
        return Forms(1)
    names = {**vars(hints), "triton_heuristics": _Settings(), "__file__": None}
    kind, settings = eval(found[1], names)
    if kind not in _LISTED:
        return Forms(1)
    facts = settings["inductor_meta"]
    listed = getattr(triton_heuristics, kind)(**settings, return_configs=True)
    arguments = [part.split(":")[0].strip() for part in found[2].split(",")]
    changed = facts.get("mutated_arg_names", ())
    return Forms(
        len(triton_heuristics.unique_configs(listed)),
        tuple(place for place, name in enumerate(arguments) if name in changed),
        facts.get("optimize_mem", True),
    )


def tried(known: Forms, name: str, args: tuple, observer: Any) -> None:
    """Asks for what the trials of a kernel ask for."""
    if known.number < 2:
        return
    ledger = observer.ledger

    def run(copies: list[int]) -> None:
        made = [ledger.allocate(size, name, "", WORKSPACE) for size in copies]
        for one in made:
            ledger.free(one)

    for _ in range(known.number):
        copies = _copied(known, args, ledger.peak_bytes - ledger.live_bytes)
        run(copies)
        # Between two runs the second level cache is overwritten, by a buffer of its size.
        cache = ledger.allocate(observer.gpu.cache, name, "", WORKSPACE)
        run(copies)
        ledger.free(cache)


def _copied(known: Forms, args: tuple, room: int) -> list[int]:
    sizes = []
    for place in known.changed:
        size = _spanned(args[place])
        if known.spares and size > room:
            continue
        room -= size
        sizes.append(size)
    return sizes


def _spanned(tensor: torch.Tensor) -> int:
    """Bytes from the first to the last number of a tensor."""
    last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride()))
    return (last + 1) * tensor.element_size()
