"""cuDNN's recurrent layers: what they keep for backward, and their workspace."""

from __future__ import annotations

from typing import Any

import torch

from ..ledger import WORKSPACE
from .registry import Launch, rule

MIB = 1 << 20
# Gates of a cell, and values kept per hidden unit and step, by cuDNN's mode.
_GATES = {0: 1, 1: 1, 2: 4, 3: 3}
_KEPT = {0: 1, 1: 1, 2: 5, 3: 6}
# States of a layer at the seams between steps, per hidden unit: in one direction, in its backward, and in both.
_STATES = {0: 3, 1: 3, 2: 10, 3: 5}
_BACKWARD_STATES = {0: 5, 1: 5, 2: 11, 3: 5}
_STATES_OF_BOTH = {0: 10, 1: 10, 2: 24, 3: 14}
# The same of packed sequences.
_PACKED_STATES = {0: 1, 1: 1, 2: 6, 3: 3}
_PACKED_STATES_OF_BOTH = {0: 6, 1: 6, 2: 16, 3: 10}
# In one direction gates are worked out for so many steps at a time.
_STEPS = 256
# Backward works through a stack of layers in pieces of about so many steps.
_PIECE = 64
# The same where states are projected: of 12 to 80.
_PROJECTED_PIECE = 32
# PyTorch chooses kernels for small states up to these sizes, in forward and in backward.
_SMALL_STATE = {0: 384, 1: 384, 2: 192, 3: 192}
_SMALL_STATE_BACKWARD = {0: 256, 1: 256, 2: 128, 3: 128}
# What these ask for: states of a layer, then rows of a step in backward and its states; in one direction, and in both.
_SMALL_STATES = {0: 4, 1: 4, 2: 8, 3: 4}
_SMALL_STATES_OF_BOTH = {0: 10, 1: 10, 2: 18, 3: 10}
_SMALL_BACKWARD = {0: (13, 6), 1: (13, 6), 2: (17, 6), 3: (18, 6)}
_SMALL_BACKWARD_OF_BOTH = {0: (15, 14), 1: (15, 14), 2: (21, 18), 3: (20, 14)}


class Layer:
    """The sizes of one call, from the arguments of `_cudnn_rnn`."""

    def __init__(self, args: tuple):
        (
            source,
            self.weights,
            _,
            buffer,
            _,
            _,
            self.mode,
            self.hidden,
            self.projected,
            self.layers,
            batch_first,
            self.dropout,
            self.train,
            both,
            packed,
        ) = args[:15]
        self.flat = buffer is not None
        self.projects = self.projected > 0
        # Values that a step gives out, in one direction.
        self.out = self.projected or self.hidden
        self.steps: float
        if packed:
            # Of packed sequences only the rows that there are count, in mean so many steps.
            self.batch = packed[0]
            self.steps = len(source) / self.batch
            self.longest = len(packed)
        elif batch_first:
            self.batch, self.steps = source.shape[:2]
        else:
            self.steps, self.batch = source.shape[:2]
        if not packed:
            self.longest = int(self.steps)
        self.packed = bool(packed)
        self.inputs = source.shape[-1]
        self.directions = 2 if both else 1
        self.size = source.element_size()
        self.source = source

    @property
    def weight_count(self) -> int:
        return sum(w.numel() for w in self.weights)

    def reserve(self) -> int:
        """Bytes kept from forward to backward."""
        unit = round(self.steps * self.batch) * self.hidden * self.directions * self.size
        between = self.layers - 1
        size = unit * (_KEPT[self.mode] * self.layers + between) + 256
        # Before a projection and after it.
        size += unit * self.layers * (self.hidden + self.projected) // self.hidden * self.projects
        if self.dropout > 0:
            # Which values are dropped is drawn for all steps of all sequences.
            places = self.longest * self.batch * self.out * self.directions
            size += between * _ceil(places * self.directions, 256) * 32
        return size

    def workspace(self, backward: bool = False) -> int:
        """Bytes while it runs.

        Forward's are exact. In training they are asked for both passes, but each pass chooses its own
        kernels; what backward needs is met within a few percent of the sizes measured on an H200.
        """
        matrices = sum(w.numel() for w in self.weights if w.dim() > 1) * self.size
        if self.packed:
            units = self._packed_units()
            rows = int(units * self.batch * self.hidden * self.size)
            return matrices + 8 * MIB * self.layers * self.directions + rows
        units = self._small_units() if self._is_small(backward) else self._units()
        return (
            matrices
            + 8 * MIB * self.layers * self.directions
            + round(units * self.batch * self.hidden * self.size)
            + 256
            + _ceil(8 * self.batch, 32) * 32
        )

    def _is_small(self, backward: bool) -> bool:
        """cuDNN runs bfloat16 in its usual kernels all the same."""
        most = (_SMALL_STATE_BACKWARD if backward else _SMALL_STATE)[self.mode]
        usual = self.projects or self.source.dtype in (torch.bfloat16, torch.float64)
        return self.hidden <= most and not usual

    def _units(self) -> float:
        """In rows of one value per sample and hidden unit of one direction."""
        steps, gates, wide = self.steps, _GATES[self.mode], self.inputs / self.hidden
        if self.projects:
            return self._projected_units()
        if self.directions == 1:
            forward = gates * min(steps, _STEPS) + (1 + wide) * steps
            states = _STATES[self.mode] * self.layers
            backward = (2 + 2 * wide + max(1, wide)) * steps
            backward += steps if self.layers == 1 else min(steps, _PIECE)
            backward += _BACKWARD_STATES[self.mode] * self.layers - states
        else:
            forward = (2 * gates + 6 + wide) * steps
            states = _STATES_OF_BOTH[self.mode] * self.layers
            backward = 2 * (4 + wide + max(2, 2 * wide)) * steps
            if self.layers == 1:
                backward = 2 * (3 + 2 * wide + max(1, wide)) * steps
        if not self.train:
            return forward + states
        if self.dropout > 0 and self.directions == 1 and self.layers > 1:
            forward += steps
        return max(forward, backward) + states

    def _projected_units(self) -> float:
        """Of an LSTM whose states are projected. As 419 layers asked an H200 for it, but for pieces of a stack."""
        steps, wide, out = self.steps, self.inputs / self.hidden, self.out / self.hidden
        stacked = self.layers > 1
        backward = (2 * wide + max(1, wide) + 2 + 2 * out) * steps
        if self.directions == 1:
            forward = 4 * min(steps, _STEPS) + (1 + wide + out) * steps
            forward += (8 + 2 * out) * self.layers
            backward += (7 + 4 * out) * self.layers
            if stacked:
                backward += min(steps, _PROJECTED_PIECE) - steps
        else:
            forward = (14 + wide + 2 * out) * steps + (20 + 4 * out) * self.layers
            backward = 2 * (backward + stacked * steps) + (18 + 8 * out) * self.layers
        if not self.train:
            return forward
        if self.dropout > 0 and self.directions == 1 and stacked:
            forward += steps
        return max(forward, backward)

    def _packed_units(self) -> float:
        """Exact on an H200 but for plain recurrent layers in training, which take some more."""
        gates = _GATES[self.mode]
        if self.directions == 2:
            return (2 * gates + 4) * self.steps + _PACKED_STATES_OF_BOTH[self.mode] * self.layers
        drops = self.train and self.dropout > 0 and self.layers > 1
        return (gates + drops) * self.steps + _PACKED_STATES[self.mode] * self.layers

    def _small_units(self) -> float:
        gates, wide = _GATES[self.mode], self.inputs / self.hidden
        one = self.directions == 1
        states = (_SMALL_STATES if one else _SMALL_STATES_OF_BOTH)[self.mode]
        rows = (5 * gates + 1 if one else 6 * gates + 6) + wide
        forward = rows * self.steps + states * self.layers
        if not self.train:
            return forward
        rows, states = (_SMALL_BACKWARD if one else _SMALL_BACKWARD_OF_BOTH)[self.mode]
        rows += 3 * wide * self.directions
        return max(forward, rows * self.steps + states * self.layers)


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def forward(args: tuple) -> list[Any]:
    """What `_cudnn_rnn` returns, in place of its meta kernel, which has no reserve."""
    layer = Layer(args)
    source, hidden, cell, batch_first = layer.source, args[4], args[5], args[10]

    def new(shape, dtype=source.dtype):
        return torch.empty(shape, dtype=dtype, device="meta")

    width = hidden.shape[2] * layer.directions
    packed = source.dim() == 2
    out = new((len(source), width) if packed else (layer.steps, layer.batch, width))
    kept = new(layer.reserve() if layer.train else 0, torch.uint8)
    # The buffer of the weights is returned, and with that kept as the last of all.
    buffer = args[3] if layer.flat else new(layer.weight_count)
    state = new(hidden.shape)
    return [
        out.transpose(0, 1) if batch_first else out,
        state,
        new(cell.shape) if cell is not None else new(0),
        kept,
        buffer,
    ]


def backward(args: tuple) -> list[Any]:
    source, weights, _, _, hidden, cell = args[:6]
    batch_first = args[14]

    def new(like):
        return torch.empty(like.shape, dtype=like.dtype, device="meta")

    buffer = torch.empty(sum(w.numel() for w in weights), dtype=weights[0].dtype, device="meta")
    grads, offset = [], 0
    for weight in weights:
        grads.append(buffer[offset : offset + weight.numel()].view(weight.shape))
        offset += weight.numel()
    steps_first = new(source.transpose(0, 1) if batch_first else source)
    for_source = steps_first.transpose(0, 1) if batch_first else steps_first
    return [for_source, new(hidden), new(cell) if cell is not None else None, grads]


@rule("aten._cudnn_rnn")
def recurrent(launch: Launch) -> None:
    layer = Layer(launch.args)
    if layer.train:
        launch.note("cuDNN's workspace for training recurrent layers is known within a few percent")
    copy = _steps_first(launch, layer.source, launch.args[10])
    launch.place(0)
    launch.place(1)
    launch.place(2)
    launch.place(4)
    workspace = launch.take(layer.workspace(), WORKSPACE)
    launch.place(3)
    launch.give(workspace, copy)


@rule("aten._pack_padded_sequence")
def packing(launch: Launch) -> None:
    """Steps that equally many sequences reach are copied together, then all copies into one."""
    source, lengths, batch_first = launch.args[:3]
    steps, batch = source.shape[:2]
    if batch_first:
        steps, batch = batch, steps
    of_step = source[0, 0].numel() * source.element_size()
    ends = sorted(lengths.tolist())
    pieces, before = [], 0
    for place, end in enumerate(ends):
        if end > before:
            wide = batch - place
            # All sequences at once lie as they are, where steps come first.
            copied = batch_first or wide < batch
            pieces.append(launch.take((end - before) * wide * of_step if copied else 0))
            before = end
    launch.place_all()
    launch.give(*pieces)


@rule("aten._cudnn_rnn_backward")
def recurrent_backward(launch: Launch) -> None:
    """One pass for the input's gradient and one for the weights', each with its own workspace."""
    args = launch.args
    output, grad, grad_states, batch_first = args[6], args[7], args[8:10], args[14]
    layer = Layer((*args[:6], *args[10:19]))
    # Gradients that no later op gives are zeros: of the output where only the last states are used, and of these.
    states = [one for one in args[4:6] if one is not None]
    whole = output.numel() * output.element_size()
    held = [launch.take(whole)] if grad is None else []
    missing = [state for state, given in zip(states, grad_states) if given is None]
    held += [launch.take(state.numel() * layer.size) for state in missing]
    copy = _steps_first(launch, layer.source, batch_first)
    zeros_lie_otherwise = grad is None and batch_first
    passed = launch.take(whole) if zeros_lie_otherwise else _steps_first(launch, grad, batch_first)
    launch.place(0)
    launch.place(1)
    launch.place(2)
    launch.give(launch.take(layer.workspace(backward=True), WORKSPACE), passed, copy)
    copy = _steps_first(launch, layer.source, batch_first)
    launch.place(3)
    launch.give(launch.take(layer.workspace(backward=True), WORKSPACE), copy, *reversed(held))


def _steps_first(launch: Launch, tensor: Any, batch_first: bool) -> int:
    """cuDNN wants steps before batch, in one run; what lies otherwise is copied."""
    if tensor is None or (tensor.transpose(0, 1) if batch_first else tensor).is_contiguous():
        return 0
    return launch.take(tensor.numel() * tensor.element_size())
