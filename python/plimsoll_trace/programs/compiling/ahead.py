"""The backward graph of a function, lowered on a second core while this one lowers its forward graph.

It depends on forward in one thing: how forward lays out the tensors that it keeps. The fork starts with a guess. If
forward turns out to use another layout, that fork is ended and a new one is started.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import torch

from .beside import Beside, begin


class Ahead:
    def __init__(self, write: Callable[[Any, list], str | None]) -> None:
        # Gets the graph and its inputs; gives its code, or None where another process cannot give it.
        self._write = write
        self._graph: Any = None
        self._form: Any = None
        self._beside: Beside | None = None

    def guess(self, graph: Any) -> None:
        """The backward graph: it is final when forward is lowered."""
        self._graph = graph

    def begin(self, strides: Sequence[Any] = ()) -> None:
        """`strides`: of what forward keeps, which are the first inputs of backward; none where not known yet."""
        if self._graph is None:
            return
        inputs = [node.meta.get("val") for node in self._graph.graph.find_nodes(op="placeholder")]
        # What is not known until it runs belongs to no other process.
        if not all(isinstance(one, torch.Tensor) for one in inputs):
            return
        inputs = [_laid_out(one, place, strides) for place, one in enumerate(inputs)]
        form = _form(inputs)
        if self._beside is not None:
            if form == self._form:
                return
            self._beside.end()
        self._form = form
        self._beside = begin(lambda: self._write(self._graph, inputs))

    def code(self, inputs: list) -> str | None:
        """None where it has to be lowered here."""
        if self._beside is None or _form(inputs) != self._form:
            return None
        return self._beside.result()

    def end(self) -> None:
        if self._beside is not None:
            self._beside.end()
        self._graph = self._beside = None


def _laid_out(tensor: Any, place: int, strides: Sequence[Any]) -> Any:
    found = strides[place] if place < len(strides) else None
    if found is None or tuple(tensor.stride()) == tuple(found):
        return tensor
    return tensor.as_strided(tensor.size(), found)


def _form(inputs: list) -> Any:
    return [
        (one.shape, one.stride(), one.dtype, one.device) if isinstance(one, torch.Tensor) else None
        for one in inputs
    ]
