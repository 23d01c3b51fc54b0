"""What is sharded together: each layer of a stack is one group, and the whole model the outermost."""

from __future__ import annotations

from typing import Any

import torch


def layers(model: Any) -> list[Any]:
    """The layers of the outermost stacks, in their order."""
    found: list[Any] = []
    inside: set[int] = set()
    for module in model.modules():
        if id(module) in inside or not _is_stack(module):
            continue
        for layer in module:
            found.append(layer)
            inside.update(map(id, layer.modules()))
    return found


def _is_stack(module: Any) -> bool:
    if not isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)) or len(module) < 2:
        return False
    kinds = {type(layer) for layer in module}
    return len(kinds) == 1 and any(True for _ in next(iter(module)).children())
