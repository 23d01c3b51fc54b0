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
# How beams choose: the best continuations of all of them, or the scores of those that were drawn.
_BEST, _GATHER = _ATEN.topk.default, _ATEN.gather.default
_AMONG = {_ATEN.isin.Tensor_Tensor, _ATEN.isin.Tensor_Scalar}
# What texts are followed through.
TEXT_OPS = _CHOOSE | _AMONG | {_BEST, _GATHER}
NOTE = (
    "generated texts may end early: counted are the longest. The interval allows for it while they are generated, "
    "not for what is made of them later"
)
# Not all alike: programs count the different words of a text.
_STEP, _NEXT_STEP = 7919, 104729


class Texts:
    def __init__(self, observer: Any) -> None:
        self._observer = observer
        # The words of the model that generates; None while none does.
        self._words: int | None = None
        self._chosen = 0
        # The highest peak until the first token of a text that may end.
        self._peak: int | None = None

    @contextmanager
    def generated_by(self, model: Any) -> Iterator[None]:
        """Within its call of generate()."""
        before = self._words, self._peak
        self._words, self._peak = _words_of(model), None
        try:
            yield
        finally:
            if self._peak is not None:
                self._observer.ledger.peak_may_be_less(self._peak)
            self._words, self._peak = before

    def follow(self, func: Any, args: tuple, result: Any) -> None:
        if func in (_BEST, _GATHER) or func in _CHOOSE:
            if self._words:
                self._follow_scores(func, args[0], result, self._words)
        elif func in _AMONG and small_values.readable(result):
            self._among(result)

    def _among(self, result: Any) -> None:
        """A token that was chosen is none of those that end a text."""
        if self._words is None and small_values.is_known(result):
            return
        if self._words is not None and self._peak is None:
            self._peak = self._observer.ledger.peak_bytes
            self._observer.notes.add(NOTE)
        small_values.remember(result, torch.zeros(result.shape, dtype=torch.bool, device="cpu"))

    def _follow_scores(self, func: Any, scores: Any, result: Any, words: int) -> None:
        beams = _beams(scores, words)
        if func in _CHOOSE and not beams:
            self._choose(scores, result, words)
        elif beams:
            best, places = result if func is _BEST else (result, result)
            if func is not _GATHER and small_values.readable(places):
                small_values.remember(places, self._continued(places, words, beams))
            if func not in _CHOOSE and small_values.readable(best):
                small_values.remember(best, self._scores(best))

    def _continued(self, places: Any, words: int, beams: int) -> Any:
        """Each beam goes on with a word of its own."""
        self._chosen += 1
        number = torch.arange(places.numel(), device="cpu")
        word = words // 3 + (number * _STEP + self._chosen * _NEXT_STEP) % (words // 3)
        return (number % places.shape[-1] % beams * words + word).reshape(places.shape)

    def _scores(self, best: Any) -> Any:
        """The best first, and lower for each word of a text."""
        place = torch.arange(best.numel(), device="cpu") % best.shape[-1]
        return (-self._chosen - place / best.shape[-1]).to(best.dtype).reshape(best.shape)

    def _choose(self, scores: Any, result: Any, words: int) -> None:
        """Of scores for all words: of others, such as those of experts, nothing is known."""
        third = words // 3
        of_words = third > 0 and scores.dim() > 0 and scores.shape[-1] == words
        one_of_a_row = of_words and result.numel() == scores.numel() // words
        if not one_of_a_row or not small_values.readable(result):
            return
        self._chosen += 1
        spread = torch.arange(result.numel(), device="cpu") * _STEP + self._chosen * _NEXT_STEP
        small_values.remember(result, (third + spread % third).reshape(result.shape))


def _beams(scores: Any, words: int) -> int:
    """How many beams have their scores for all words in one row; 0 where scores are of another kind."""
    of_beams = words > 2 and scores.dim() == 2 and scores.shape[1] > words
    return scores.shape[1] // words if of_beams and scores.shape[1] % words == 0 else 0


def _words_of(model: Any) -> int:
    config = model.config
    if hasattr(config, "get_text_config"):
        config = config.get_text_config(decoder=True)
    return getattr(config, "vocab_size", None) or 0
