"""cuDNN's recurrent layers: what they keep for backward, and their workspace."""

from __future__ import annotations

from typing import Any, List, Tuple

import torch

from ..ledger import WORKSPACE
from .registry import Launch, rule

MIB = 1 << 20
# Gates of a cell, values kept per hidden unit and step, and small states per hidden unit, by cuDNN's mode.
_GATES = {0: 1, 1: 1, 2: 4, 3: 3}
_KEPT = {0: 1, 1: 1, 2: 5, 3: 6}
_STATES = {0: 3, 1: 3, 2: 10, 3: 5}
# Gates are worked out for so many steps at a time.
_STEPS = 256


class Layer:
    """The sizes of one call, from the arguments of `_cudnn_rnn`."""

    def __init__(self, args: Tuple):
        (
            source,
            self.weights,
            _,
            buffer,
            _,
            _,
            self.mode,
            self.hidden,
            _,
            self.layers,
            batch_first,
            self.dropout,
            self.train,
            both,
        ) = args[:14]
        self.flat = buffer is not None
        self.steps, self.batch = source.shape[:2]
        if batch_first:
            self.steps, self.batch = self.batch, self.steps
        self.inputs = source.shape[2]
        self.directions = 2 if both else 1
        self.size = source.element_size()
        self.source = source

    @property
    def weight_count(self) -> int:
        return sum(w.numel() for w in self.weights)

    def reserve(self) -> int:
        """Bytes kept from forward to backward."""
        unit = self.steps * self.batch * self.hidden * self.directions * self.size
        between = self.layers - 1
        size = unit * (_KEPT[self.mode] * self.layers + between) + 256
        if self.dropout > 0:
            size += between * unit // self.size * self.directions // 8
        return size

    def workspace(self) -> int:
        """Bytes while it runs; exact for one direction where the input is not much wider than the state."""
        rows = self.batch * self.hidden * self.directions * self.size
        matrices = sum(w.numel() for w in self.weights if w.dim() > 1) * self.size
        gates = _GATES[self.mode] * min(self.steps, _STEPS)
        return (
            matrices
            + 8 * MIB * self.layers * self.directions
            + (gates + self.steps) * rows
            + self.steps * self.batch * self.inputs * self.size
            + _STATES[self.mode] * rows * self.layers
            + 256
            + 8 * self.batch
        )


def forward(args: Tuple) -> List[Any]:
    """What `_cudnn_rnn` returns, in place of its meta kernel, which has no reserve."""
    layer = Layer(args)
    source, hidden, cell, batch_first = layer.source, args[4], args[5], args[10]

    def new(shape, dtype=source.dtype):
        return torch.empty(shape, dtype=dtype, device="meta")

    width = layer.hidden * layer.directions
    out = new((layer.steps, layer.batch, width))
    kept = new(layer.reserve() if layer.train else 0, torch.uint8)
    buffer = new(0 if layer.flat else layer.weight_count)
    state = new(hidden.shape)
    return [
        out.transpose(0, 1) if batch_first else out,
        state,
        new(hidden.shape) if cell is not None else new(0),
        kept,
        buffer,
    ]


def backward(args: Tuple) -> List[Any]:
    source, weights, _, _, hidden, cell = args[:6]

    def new(like):
        return torch.empty(like.shape, dtype=like.dtype, device="meta")

    buffer = torch.empty(sum(w.numel() for w in weights), dtype=weights[0].dtype, device="meta")
    grads, offset = [], 0
    for weight in weights:
        grads.append(buffer[offset : offset + weight.numel()].view(weight.shape))
        offset += weight.numel()
    return [new(source), new(hidden), new(cell) if cell is not None else None, grads]


@rule("aten._cudnn_rnn")
def recurrent(launch: Launch) -> None:
    layer = Layer(launch.args)
    if layer.directions > 1 or layer.inputs > 2 * layer.hidden:
        launch.note("the workspace of this recurrent layer is approximate")
    copy = _steps_first(launch, layer.source, launch.args[10])
    launch.place(0)
    launch.place(1)
    launch.place(2)
    launch.place(4)
    workspace = launch.take(layer.workspace(), WORKSPACE)
    launch.place(3)
    launch.give(workspace, copy)


@rule("aten._cudnn_rnn_backward")
def recurrent_backward(launch: Launch) -> None:
    """One pass for the input's gradient and one for the weights', each with its own workspace."""
    args = launch.args
    cell, out, grad_states, batch_first = args[5], args[6], args[8:10], args[14]
    layer = Layer((*args[:6], *args[10:18]))
    state = args[4].numel() * layer.size
    # Gradients of the last states that nobody asked for are zeros.
    wanted = grad_states if cell is not None else grad_states[:1]
    held = [launch.take(state) for given in wanted if given is None]
    passed = _steps_first(launch, out, batch_first)
    copy = _steps_first(launch, layer.source, batch_first)
    launch.place(0)
    launch.place(1)
    launch.place(2)
    launch.give(launch.take(layer.workspace(), WORKSPACE), copy, passed)
    copy = _steps_first(launch, layer.source, batch_first)
    launch.place(3)
    launch.give(launch.take(layer.workspace(), WORKSPACE), copy, *reversed(held))


def _steps_first(launch: Launch, tensor: Any, batch_first: bool) -> int:
    """cuDNN wants steps before batch; what lies the other way round is copied."""
    return launch.take(tensor.numel() * tensor.element_size()) if batch_first else 0
