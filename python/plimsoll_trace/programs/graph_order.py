"""Gradients of gradients: nodes that backward makes are numbered as on CUDA, where backward has a thread.

Autograd runs the nodes with the highest numbers first, and each thread counts for itself. What backward
makes on a card gets the small numbers of its thread there, and is run after the nodes of the forward
pass. Tensors without memory stay in the thread that asks, so that the same nodes would come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ..standins.patches import Patches


class BackwardThread:
    """How far the thread has counted that runs backward on a card."""

    def __init__(self) -> None:
        self._counted = 0

    def renumber(self, tensors: Iterable[Any], since: int) -> None:
        """Of the nodes behind these tensors, those that were made since then."""
        made = {node._sequence_nr(): node for node in _nodes(tensors, since)}
        for number in sorted(made):
            made[number]._set_sequence_nr(self._counted)
            self._counted += 1


def install(patches: Patches) -> None:
    thread = BackwardThread()
    grad = torch.autograd.grad

    def numbered(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        since = torch._C._autograd._get_sequence_nr()
        results = grad(outputs, inputs, *args, **kwargs)
        thread.renumber(results, since)
        return results

    patches.set(torch.autograd, "grad", numbered)


def _nodes(tensors: Iterable[Any], since: int) -> Iterator[Any]:
    found = [t.grad_fn for t in tensors if isinstance(t, torch.Tensor) and t.grad_fn is not None]
    seen = set()
    while found:
        node = found.pop()
        # Sums of gradients into a leaf have the highest number there is, and stay so.
        if node in seen or not since <= node._sequence_nr() < _LEAF:
            continue
        seen.add(node)
        # Those of functions written in Python keep theirs.
        if hasattr(node, "_set_sequence_nr"):
            yield node
        found.extend(next_one for next_one, _ in node.next_functions if next_one is not None)


_LEAF = (1 << 64) - 1
