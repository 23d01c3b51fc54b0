"""The iterations inside of one step of L-BFGS, which lie in PyTorch's own code, and are often thousands.

Each asks for the same as the one before, and keeps two vectors as long as all parameters, until its history is full.
The first ones are run, then the history is filled, and the last ones are run with it.

It keeps nothing of an iteration whose gradients are tiny. They are tiny where a picture is optimized and the network
that sees it has random weights: the loss is a mean over many numbers. Then the history stays empty, and the interval
reaches up to a full one. Weights are random unless the program reads some from a file.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.optim import lbfgs

from ...standins.patches import Patches
from ..watch import Watch

# So many at first, and with what the others would have kept.
_FIRST, _LAST = 4, 2
# How often a search along one direction asks for the loss; without values it would never be content.
_SEARCHES = 2
# What it keeps of each iteration.
_VECTORS, _FACTORS = ("old_dirs", "old_stps"), "ro"
_EMPTY = (
    "L-BFGS keeps vectors only of iterations whose gradients are large enough; here, with random weights, none was "
    "counted, and the interval reaches up for a full history."
)
_FULL = "L-BFGS keeps vectors only of iterations whose gradients are large enough; here all were counted."


def install(patches: Patches, watch: Watch) -> None:
    step = torch.optim.LBFGS.step
    # By optimizer: iterations that its history was counted with, where none was kept.
    counted: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def stays_empty(optimizer: Any) -> bool:
        parameters = any(isinstance(p, torch.nn.Parameter) for p in optimizer._params)
        return not watch.loads_weights and not parameters

    def keep(optimizer: Any, size: int, iterations: int) -> None:
        state = optimizer.state[optimizer._params[0]]
        if not stays_empty(optimizer):
            watch.observer.notes.add(_FULL)
            _fill(state, size, iterations, watch.observer)
            return
        watch.observer.notes.add(_EMPTY)
        before = counted.get(optimizer)
        # Steps that come again may come often, of which a few are run.
        now = min(iterations, size) if before is None else size
        vector = sum(p.numel() * p.element_size() for p in optimizer._params)
        watch.more_bytes += len(_VECTORS) * vector * (now - (before or 0))
        counted[optimizer] = now

    def fewer(self: Any, closure: Any) -> Any:
        group = self.param_groups[0]
        most = group["max_iter"]
        if most <= _FIRST + _LAST:
            return step(self, closure)
        try:
            group["max_iter"] = _FIRST
            loss = step(self, closure)
            keep(self, group["history_size"], most - _FIRST - _LAST)
            group["max_iter"] = _LAST
            step(self, closure)
            return loss
        finally:
            group["max_iter"] = most

    patches.set(torch.optim.LBFGS, "step", fewer)
    search = lbfgs._strong_wolfe

    def shorter(*args: Any, **kwargs: Any) -> Any:
        return search(
            *args, **{**kwargs, "max_ls": min(kwargs.get("max_ls", _SEARCHES), _SEARCHES)}
        )

    patches.set(lbfgs, "_strong_wolfe", shorter)


def _fill(state: dict, size: int, iterations: int, observer: Any) -> None:
    """Keeps what so many iterations would keep: without values, none of them finds that it got better."""
    direction = state.get("d")
    if direction is None or not all(name in state for name in _VECTORS):
        return
    kept: list[list] = [state[name] for name in _VECTORS]
    for _ in range(min(iterations, size - len(kept[0]))):
        for vectors in kept:
            vectors.append(direction.clone())
            observer.ledger.may_be_less(observer.allocation_of(vectors[-1]))
        state[_FACTORS].append(direction.new_ones(()))
