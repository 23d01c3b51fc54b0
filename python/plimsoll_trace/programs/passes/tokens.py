"""Tokens of `generate()` after the first few: their requests follow from those of the tokens before.

One token is like the next but for the cache, which is one position longer. So a token's requests are
taken from the last two that were run, each with the size that it has by then. Every so often a token
is run again: less often once one has asked for just what was expected of it, also in the next texts of the model
whose first two tokens grow as those of the last text did.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch

from ..places import Places
from .written import bound, grown, ident_of, steps_of, write_steps

# What the first tokens leave behind is gone by then.
_RUN_FIRST = 4
_RUN_EVERY = 32
_RUN_AT_LEAST_EVERY = 128
# In a text that grows like the last one: these of the first are run, and these more in any other.
_RUN_FIRST_AGAIN = 2
_RUN_OF_A_NEW_TEXT = {3, 4, 32, 64}
# What an encoder made before the first token is handed on with each of them.
_HANDED_ON = "encoder_last_hidden_state"
# Outputs of layers, which are as large for one token as for the next. Some decoders always give out the last of them.
_HIDDEN = ("hidden_states", "decoder_hidden_states")
# Layers of a cache that a token makes longer, the second up to the length of its window.
_GROWING_LAYERS = ("DynamicLayer", "DynamicSlidingWindowLayer")


@dataclass
class _Token:
    """The requests of one forward pass, as steps that name what they concern."""

    number: int
    steps: list[tuple]
    # Which layers' windows were full before it: they ask for no more from there on.
    full: list[bool]

    def alike(self, other: _Token) -> bool:
        if self.full != other.full:
            return False
        return [_shape(s) for s in self.steps] == [_shape(s) for s in other.steps]


def _shape(step: tuple) -> tuple:
    return (step[0], *step[2:]) if step[0] == "a" else step


class _Growth:
    """Two tokens that ask for the same but for sizes, and what the next ones ask for by them."""

    def __init__(self, before: _Token, last: _Token) -> None:
        self.last = last
        self.apart = last.number - before.number
        pairs = zip(before.steps, last.steps)
        # Of the requests that grow: their places, and by how much.
        self.by = {at: new[1] - old[1] for at, (old, new) in enumerate(pairs) if old != new}

    def steps_at(self, number: int) -> list[tuple]:
        steps, ahead = list(self.last.steps), number - self.last.number
        for at, more in self.by.items():
            kind, size, *rest = steps[at]
            steps[at] = (kind, max(1, size + more * ahead // self.apart), *rest)
        return steps

    def alike(self, other: _Growth) -> bool:
        """Whether the same requests grow by the same from token to token."""
        if self.by.keys() != other.by.keys() or not self.last.alike(other.last):
            return False
        return all(more * other.apart == other.by[at] * self.apart for at, more in self.by.items())


@dataclass
class _Text:
    """What was found out about the last text of a model."""

    growth: _Growth
    every: int
    # So many ops of the program take the run of a token.
    ops: int


class Tokens:
    def __init__(self, observer: Any, places: Places) -> None:
        self._observer = observer
        self._places = places
        self._model: Any = None
        self._number = 0
        self._every = self._next_run = _RUN_EVERY
        self._last: _Token | None = None
        # Of the last two that were run, where they ask for the same but for sizes: told once, since each has thousands
        # of steps.
        self._growth: _Growth | None = None
        self._ops = 0
        self._outputs: Any = None
        # The last text of each model, where what was expected of its tokens came true.
        self._texts: weakref.WeakKeyDictionary[Any, _Text] = weakref.WeakKeyDictionary()
        # Whether the text at hand grows like the last one.
        self._goes_on = False

    def call(self, module: Any, forward: Any, args: tuple, kwargs: dict) -> Any:
        """A forward pass within generate(): run, or written down."""
        cache = kwargs.get("past_key_values")
        # To ask a tensor for its shape would be a call of the program's, hundreds of them for each token.
        with torch._C.DisableTorchFunction():
            layers = _growing(cache)
            grows = not args and layers and _one_position(kwargs)
        if not grows:
            self._forget(module)
            return forward(module, *args, **kwargs)
        if module is not self._model:
            self._forget(module)
        self._number += 1
        with torch._C.DisableTorchFunction():
            known = self._known(layers)
            if known and self._number < self._next_run:
                return self._written(cache, layers)
        if not known:
            return self._run(module, forward, kwargs, layers)
        expected = self._steps_now()
        outputs = self._run(module, forward, kwargs, layers)
        as_expected = self._last is not None and self._last.steps == expected
        self._every = min(2 * self._every, _RUN_AT_LEAST_EVERY) if as_expected else _RUN_EVERY
        self._goes_on = self._goes_on and as_expected
        self._next_run = (self._number // self._every + 1) * self._every
        return outputs

    def _forget(self, model: Any) -> None:
        if self._growth is not None and self._every > _RUN_EVERY:
            self._texts[self._model] = _Text(self._growth, self._every, self._ops)
        elif self._number > _RUN_FIRST:
            self._texts.pop(self._model, None)
        self._model, self._number = model, 0
        self._every = self._next_run = _RUN_EVERY
        self._last = self._growth = self._outputs = None
        self._goes_on = False

    def _known(self, layers: list) -> bool:
        last = self._last
        if last is None or self._growth is None or last.full != _full(layers):
            return False
        return self._number > _RUN_FIRST or self._goes_on

    def _run(self, module: Any, forward: Any, kwargs: dict, layers: list) -> Any:
        events = self._observer.ledger.events
        with torch._C.DisableTorchFunction():
            held, full = self._slots(layers), _full(layers)
        start, ops = len(events), self._observer.ops
        outputs = forward(module, **kwargs)
        self._ops = self._observer.ops - ops
        before, self._last = self._last, None
        left = _left_by(outputs)
        if "logits" in left and _growing(outputs.get("past_key_values")):
            kept = self._slots(layers)
            kept |= {ident_of(self._observer, tensor): slot for slot, tensor in left.items()}
            steps = steps_of(events[start:], held, kept)
            if steps is not None and left.keys() <= {step[-1] for step in steps if step[0] == "a"}:
                self._last = _Token(self._number, steps, full)
            forms = {slot: (tensor.shape, tensor.dtype) for slot, tensor in left.items()}
            self._outputs = (type(outputs), forms)
        last, self._growth = self._last, None
        if before is not None and last is not None and before.alike(last):
            self._growth = _Growth(before, last)
        if self._number == _RUN_FIRST_AGAIN:
            self._go_on(self._texts.get(module))
        return outputs

    def _go_on(self, text: _Text | None) -> None:
        """Takes the next tokens for those of the last text, where the first two are like them."""
        if text is None or self._growth is None or not self._growth.alike(text.growth):
            return
        self._goes_on, self._every, self._next_run = True, text.every, text.every

    def _written(self, cache: Any, layers: list) -> Any:
        """Puts the requests of this token into the record, and what remains of them into the cache."""
        if self._goes_on and self._number in _RUN_OF_A_NEW_TEXT:
            # The clock goes on as if it were run: a program must not end elsewhere for what is known of it.
            self._observer.ops += self._ops
        ledger = self._observer.ledger
        old = {}
        for slot, tensor in self._tensors(layers):
            old[slot] = self._observer.disown(tensor)
        kind, forms = self._outputs
        new = write_steps(ledger, self._steps_now(), old)
        for layer_number, (layer, full) in enumerate(zip(layers, _full(layers))):
            if hasattr(layer, "cumulative_length"):
                layer.cumulative_length += 1
            for name in ("keys", "values"):
                held = getattr(layer, name)
                length = held.shape[-2] + (0 if full else 1)
                sizes = (*held.shape[:-2], length, held.shape[-1])
                ident = new[(layer_number, name)]
                setattr(layer, name, grown(self._observer, sizes, held.dtype, ident))
        left = {
            slot: self._bound(shape, dtype, new[slot]) for slot, (shape, dtype) in forms.items()
        }
        return kind(past_key_values=cache, **_as_outputs(left))

    def _steps_now(self) -> list[tuple]:
        assert self._growth is not None
        return self._growth.steps_at(self._number)

    def _tensors(self, layers: list) -> list[tuple[Any, Any]]:
        return [
            ((number, name), getattr(layer, name))
            for number, layer in enumerate(layers)
            for name in ("keys", "values")
        ]

    def _slots(self, layers: list) -> dict[int, Any]:
        return {ident_of(self._observer, tensor): slot for slot, tensor in self._tensors(layers)}

    def _bound(self, shape: Any, dtype: Any, ident: int) -> Any:
        return bound(self._observer, self._places, shape, dtype, ident)


def _left_by(outputs: Any) -> dict[Any, Any]:
    """The tensors that a token leaves beside its cache, by field, or field and place; none where it has no logits."""
    left: dict[Any, Any] = {}
    for name, value in outputs.items():
        if torch.is_tensor(value) and name != _HANDED_ON:
            left[name] = value
        elif name in _HIDDEN:
            left |= {(name, place): tensor for place, tensor in enumerate(value)}
    return left if "logits" in left else {}


def _as_outputs(left: dict[Any, Any]) -> dict[str, Any]:
    """The fields of a model's outputs that hold these tensors."""
    fields: dict[str, Any] = {}
    for slot, tensor in left.items():
        if isinstance(slot, str):
            fields[slot] = tensor
        else:
            fields[slot[0]] = (*fields.get(slot[0], ()), tensor)
    return fields


def _growing(cache: Any) -> list:
    """The layers that a token makes longer; none where the cache is of another kind."""
    cache = getattr(cache, "self_attention_cache", cache)
    layers = getattr(cache, "layers", None)
    if not layers or any(type(layer).__name__ not in _GROWING_LAYERS for layer in layers):
        return []
    if any(getattr(layer, "record_past", False) for layer in layers):
        # Held beyond its window, to take tokens back.
        return []
    return list(layers) if all(torch.is_tensor(getattr(x, "keys", None)) for x in layers) else []


def _full(layers: list) -> list[bool]:
    """For each layer, whether it holds its whole window, so that the next token makes it no longer."""
    windows = [getattr(layer, "sliding_window", None) for layer in layers]
    return [
        window is not None and layer.keys.shape[-2] >= window - 1
        for layer, window in zip(layers, windows)
    ]


def _one_position(kwargs: dict) -> bool:
    ids: Any = kwargs.get("decoder_input_ids", kwargs.get("input_ids"))
    return torch.is_tensor(ids) and ids.dim() == 2 and ids.shape[1] == 1
