"""Texts that a model generates: which tokens it chooses, and when a text ends.

Scores have no values, so any token may be the chosen one. It is taken from the middle of the vocabulary:
tokens that mean something (the end of a text, padding, times in speech) stand at either end of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ... import small_values

_ATEN = torch.ops.aten
_CHOOSE = {_ATEN.argmax.default, _ATEN.multinomial.default}
_AMONG = {_ATEN.isin.Tensor_Tensor, _ATEN.isin.Tensor_Scalar}
# Not all alike: programs count the different words of a text.
_STEP, _NEXT_STEP = 7919, 104729
_LEAST_WORDS = 16


class Texts:
    def __init__(self) -> None:
        self._generating = False
        self._chosen = 0

    @contextmanager
    def generated(self) -> Iterator[None]:
        """Within a call of generate()."""
        before, self._generating = self._generating, True
        try:
            yield
        finally:
            self._generating = before

    def follow(self, func: Any, args: tuple, result: Any) -> None:
        if func in _CHOOSE and self._generating:
            self._choose(args[0], result)
        elif func in _AMONG and small_values.readable(result):
            # A token that was chosen is none of those that end a text.
            none = torch.zeros(result.shape, dtype=torch.bool, device="cpu")
            small_values.remember(result, none)

    def _choose(self, scores: Any, result: Any) -> None:
        words = scores.shape[-1] if scores.dim() else 0
        one_of_a_row = result.numel() == scores.numel() // max(words, 1)
        if words < _LEAST_WORDS or not one_of_a_row or not small_values.readable(result):
            return
        third = words // 3
        self._chosen += 1
        spread = torch.arange(result.numel(), device="cpu") * _STEP + self._chosen * _NEXT_STEP
        small_values.remember(result, (third + spread % third).reshape(result.shape))
