"""Which module an allocation belongs to: by the call stack forward, by autograd's numbers backward."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import torch

from .weak_table import WeakTable


class ModuleNames:
    def __init__(self) -> None:
        self._names: WeakTable[str] = WeakTable()
        self._stack: list[str] = [""]
        self._starts: list[int] = []
        self._owners: list[str] = []

    def learn(self, model: Any) -> None:
        self._names = WeakTable()
        self.learn_more(model)

    def learn_more(self, model: Any) -> None:
        """For programs with several models: the first name of a module stays."""
        for name, module in model.named_modules():
            self._names.add(module, name)

    def enter(self, module: Any) -> None:
        self._stack.append(self._names.of(module, self._stack[-1]))
        self._note()

    def leave(self) -> None:
        self._stack.pop()
        self._note()

    def _note(self) -> None:
        # Recomputation inside backward numbers its nodes from above all earlier ones.
        self._starts.append(torch._C._autograd._get_sequence_nr())
        self._owners.append(self._stack[-1])

    def forget(self) -> None:
        """Drops the numbers of a finished step."""
        self._starts.clear()
        self._owners.clear()

    def current(self) -> str:
        if len(self._stack) > 1 or torch._C._current_graph_task_id() == -1:
            return self._stack[-1]
        node = torch._C._current_autograd_node()
        if node is None or not self._starts or not hasattr(node, "_sequence_nr"):
            return ""
        place = bisect_right(self._starts, node._sequence_nr()) - 1
        return self._owners[place] if place >= 0 else ""
