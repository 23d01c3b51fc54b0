"""The iterations inside of one step of L-BFGS, which lie in PyTorch's own code, and are often thousands.

Each asks for the same as the one before, and keeps two vectors as long as all parameters, until its history is full.
The first ones are run, then the history is filled, and the last ones are run with it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import lbfgs

from ...standins.patches import Patches

# So many at first, and with what the others would have kept.
_FIRST, _LAST = 4, 2
# How often a search along one direction asks for the loss; without values it would never be content.
_SEARCHES = 2
# What it keeps of each iteration.
_VECTORS, _FACTORS = ("old_dirs", "old_stps"), "ro"


def install(patches: Patches) -> None:
    step = torch.optim.LBFGS.step

    def fewer(self: Any, closure: Any) -> Any:
        group = self.param_groups[0]
        most = group["max_iter"]
        if most <= _FIRST + _LAST:
            return step(self, closure)
        try:
            group["max_iter"] = _FIRST
            loss = step(self, closure)
            _fill(self.state[self._params[0]], group["history_size"], most - _FIRST - _LAST)
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


def _fill(state: dict, size: int, iterations: int) -> None:
    """Keeps what so many iterations would keep: without values, none of them finds that it got better."""
    direction = state.get("d")
    if direction is None or not all(name in state for name in _VECTORS):
        return
    kept: list[list] = [state[name] for name in _VECTORS]
    for _ in range(min(iterations, size - len(kept[0]))):
        for vectors in kept:
            vectors.append(direction.clone())
        state[_FACTORS].append(direction.new_ones(()))
