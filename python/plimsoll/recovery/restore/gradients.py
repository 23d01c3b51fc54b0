"""Gradients between microbatches: which a failed backward wrote to, and how they are put back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Gradients:
    """The gradients of a model and an optimizer, with a mark to compare them to.

    A backward that fails may have added to some of them already. Versions tell which: they cost no
    memory, where a copy of all gradients would cost as much as the gradients.
    """

    def __init__(self, parameters: Iterable[Any]) -> None:
        self._parameters: list[Any] = list({id(p): p for p in parameters}.values())
        self._grads: list[Any] = []
        self._versions: list[int] = []
        self._fresh = True
        self._seen_clear = False

    @property
    def parameters(self) -> list[Any]:
        return self._parameters

    def are_clear(self) -> bool:
        self._seen_clear = all(p.grad is None for p in self._parameters)
        return self._seen_clear

    def mark(self) -> None:
        if self._seen_clear:
            # Just looked at: to read them all takes as long as a small kernel.
            self.forget_marks()
            self._seen_clear, self._fresh = False, True
            return
        self._grads = [p.grad for p in self._parameters]
        self._versions = [-1 if grad is None else grad._version for grad in self._grads]
        self._fresh = all(grad is None for grad in self._grads)

    def touched(self) -> bool:
        if self._fresh:
            return any(p.grad is not None for p in self._parameters)
        return any(
            p.grad is not grad or (grad is not None and grad._version != version)
            for p, grad, version in zip(self._parameters, self._grads, self._versions)
        )

    def put_back(self) -> bool:
        """Back to the mark; False where that takes doing the finished microbatches again."""
        if not self.touched():
            return True
        if self._fresh:
            self.clear()
            return True
        return False

    def held_bytes(self) -> int:
        grads = [p.grad for p in self._parameters if p.grad is not None]
        return sum(grad.numel() * grad.element_size() for grad in grads)

    def forget_marks(self) -> None:
        self._grads, self._versions, self._fresh = [], [], False

    def clear(self) -> None:
        self.forget_marks()
        for parameter in self._parameters:
            parameter.grad = None
