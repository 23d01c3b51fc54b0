"""Forward passes that are written down from one that was run: their requests, and what they leave."""

from __future__ import annotations

from typing import Any

import torch

from ..places import GPU, Places


def steps_of(events: list, held: dict[int, Any], kept: dict[int, Any]) -> list[tuple] | None:
    """Events by what they concern; None where a pass leaves, or ends, anything else.

    A step is ("a", size, op, module, category, whose), ("f", whose) or one of scratch memory as the record
    has it. Whose: of a request the slot that it is kept in, or None; of an end ("held", slot), or which of the
    requests of the list it ends.
    """
    steps: list[tuple] = []
    open_now: dict[int, int] = {}
    requests = 0
    for event in events:
        if event[0] == "a" and len(event) == 6:
            _, ident, size, op, module, category = event
            open_now[ident] = requests
            requests += 1
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
    if ledger.is_plain(held.values()):
        return ledger.repeat(steps, held)
    made: dict[Any, int] = {}
    requests: list[int] = []
    for step in steps:
        if step[0] == "f":
            whose = step[1]
            ledger.free(held[whose[1]] if isinstance(whose, tuple) else requests[whose])
            continue
        if step[0] == "o":
            ledger.unsure_scratch(*step[1:])
            continue
        _, size, op, module, category, slot = step
        requests.append(ledger.allocate_again(size, op, module, category))
        if slot is not None:
            made[slot] = requests[-1]
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


def grown(observer: Any, shape: Any, dtype: Any, ident: int) -> Any:
    """The same for one of many tensors of a cache: of these nothing else is known, so no observer needs to see them."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        made = torch.empty(shape, dtype=dtype, device="meta")
    observer.count_host_op()
    observer.bind(made.untyped_storage(), ident)
    return made


def ident_of(observer: Any, tensor: Any) -> int:
    with torch._C.DisableTorchFunction():
        return observer.ident_of(tensor)
