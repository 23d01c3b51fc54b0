"""Forward passes that are written down from one that was run: their requests, and what they leave."""

from __future__ import annotations

from typing import Any

import torch

from ..places import GPU, Places


def steps_of(events: list, held: dict[int, Any], kept: dict[int, Any]) -> list[tuple] | None:
    """Events by what they concern; None where a pass leaves, or ends, anything else.

    A step is ("a", size, op, module, category, whose), ("f", whose) or one of scratch memory as the record
    has it; whose is a slot, or a place in the list.
    """
    steps: list[tuple] = []
    open_now: dict[int, int] = {}
    for event in events:
        if event[0] == "a" and len(event) == 6:
            _, ident, size, op, module, category = event
            open_now[ident] = len(steps)
            steps.append(("a", size, op, module, category, kept.get(ident)))
        elif event[0] == "f":
            ident = event[1]
            if ident in open_now:
                steps.append(("f", open_now.pop(ident)))
            elif ident in held:
                steps.append(("f", ("held", held[ident])))
            else:
                return None
        elif event[0] == "o":
            steps.append(tuple(event))
        elif event[0] != "k":
            # What a kernel brings along at its first run it does not bring again.
            return None
    left = set(open_now) - set(kept)
    return None if left else steps


def write_steps(ledger: Any, steps: list[tuple], held: dict[Any, int]) -> dict[Any, int]:
    """Puts the steps into the record; what each slot lies in then."""
    made: dict[Any, int] = {}
    for at, step in enumerate(steps):
        if step[0] == "f":
            whose = step[1]
            ledger.free(held[whose[1]] if isinstance(whose, tuple) else made[whose])
            continue
        if step[0] == "o":
            ledger.unsure_scratch(*step[1:])
            continue
        _, size, op, module, category, whose = step
        made[at if whose is None else whose] = ledger.allocate_again(size, op, module, category)
    return made


def bound(observer: Any, places: Places, shape: Any, dtype: Any, ident: int) -> Any:
    """A tensor that lies in an allocation which the record already has."""
    observer.recording = False
    try:
        with torch._C.DisableTorchFunction(), places.naming(GPU):
            made = torch.empty(shape, dtype=dtype, device="meta")
    finally:
        observer.recording = True
    observer.bind(made.untyped_storage(), ident)
    return made


def ident_of(observer: Any, tensor: Any) -> int:
    with torch._C.DisableTorchFunction():
        return observer.ident_of(tensor)
