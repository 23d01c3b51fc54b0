"""LSTM, GRU and plain recurrent layers through cuDNN's one op, as CUDA runs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..gpu import Gpu
from .patches import Patches

_ATEN = torch.ops.aten
RELU, TANH, LSTM, GRU = 0, 1, 2, 3
# PyTorch keeps weights of these types in one buffer from the start; bfloat16 it copies each time.
_FLAT = (torch.float32, torch.float16, torch.float64)
# Random state of cuDNN's dropout, for each thread that can run.
_STATE_OF_THREAD = 24


# `nn.GRUCell` and `nn.LSTMCell`: CUDA has one kernel for all gates, which keeps a workspace until backward.

# Values that the kernel keeps for each one of the hidden state.
_GRU_KEEPS = 5
_GRU_GATES = 3


def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """Takes the place of `aten::gru_cell`."""
    of_input, of_hidden = torch.matmul(input, w_ih.t()), torch.matmul(hx, w_hh.t())
    return _ATEN._thnn_fused_gru_cell(of_input, of_hidden, hx, b_ih, b_hh)[0]


def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """Takes the place of `aten::lstm_cell`."""
    hidden, cell = hx
    of_input, of_hidden = torch.matmul(input, w_ih.t()), torch.matmul(hidden, w_hh.t())
    return _ATEN._thnn_fused_lstm_cell(of_input, of_hidden, cell, b_ih, b_hh)[:2]


def fused_gru(_input_gates, _hidden_gates, hx, _input_bias=None, _hidden_bias=None):
    workspace = hx.new_empty(hx.shape[0], hx.shape[1] * _GRU_KEEPS)
    return _like(hx), workspace


def fused_gru_backward(grad_hy, workspace, has_bias):
    size = workspace.shape[1] // _GRU_KEEPS * _GRU_GATES
    of_input = workspace.new_empty(workspace.shape[0], size)
    of_hidden = workspace.new_empty(workspace.shape[0], size)
    of_state = _like(grad_hy)
    biases = (of_input.sum(0), of_hidden.sum(0)) if has_bias else (None, None)
    return of_input, of_hidden, of_state, *biases


def fused_lstm(input_gates, _hidden_gates, cx, _input_bias=None, _hidden_bias=None):
    workspace = _like(input_gates)
    return _like(cx), _like(cx), workspace


def fused_lstm_backward(_grad_hy, _grad_cy, cx, _cy, workspace, has_bias):
    gates, cell = _like(workspace), _like(cx)
    return gates, cell, gates.sum(0) if has_bias else None


def _like(tensor):
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def layers(gpu: Gpu) -> dict[str, Any]:
    """What takes the place of each op, by its name."""
    state = DropoutState(gpu)
    found = {"lstm.input": _lstm(state), "lstm.data": _packed(_lstm(state))}
    found["_pack_padded_sequence_backward"] = gradient_of_packing
    for name, mode in (("gru", GRU), ("rnn_tanh", TANH), ("rnn_relu", RELU)):
        found[f"{name}.input"] = _one_state(mode, state)
        found[f"{name}.data"] = _packed(_one_state(mode, state))
    return found


class DropoutState:
    """Made for the first layer that drops anything, and kept for all others."""

    def __init__(self, gpu: Gpu) -> None:
        self._bytes = gpu.multiprocessors * gpu.threads_per_multiprocessor * _STATE_OF_THREAD
        self._held: Any | None = None

    def need(self, dropout: float, train: bool, device: Any) -> None:
        if self._held is None and train and dropout > 0:
            torch.empty((), dtype=torch.int64, device=device)
            self._held = torch.empty(self._bytes, dtype=torch.uint8, device=device)


def flatten_weights(patches: Patches) -> None:
    """Recurrent modules move their weights into one buffer when they are built."""

    def flatten_parameters(self) -> None:
        weights = [w for w in self._flat_weights if isinstance(w, torch.Tensor)]
        # In host memory they stay as they are; a program is told that its meta tensors are CUDA's.
        if not weights or weights[0].device.type not in ("meta", "cuda"):
            return
        if any(w.dtype not in _FLAT or w.dtype != weights[0].dtype for w in weights):
            return
        if len({w.untyped_storage()._cdata for w in weights}) == 1 < len(weights):
            return
        with torch.no_grad():
            buffer = torch.empty(
                sum(w.numel() for w in weights), dtype=weights[0].dtype, device=weights[0].device
            )
            offset = 0
            for weight in weights:
                weight.data = buffer[offset : offset + weight.numel()].view(weight.shape)
                offset += weight.numel()

    patches.set(torch.nn.RNNBase, "flatten_parameters", flatten_parameters)


def _packed(layer: Any) -> Any:
    """Sequences of different lengths in one run of rows; how many reach each step lies in host memory."""

    def of_sequences(data, batch_sizes, *settings):
        return layer(data, *settings, batch_first=False, sizes=batch_sizes.tolist())

    return of_sequences


def gradient_of_packing(grad, input_size, batch_sizes, batch_first):
    """At once what PyTorch fills step by step, which would be thousands of ops and shows nothing new."""
    if torch.is_grad_enabled() and grad.requires_grad:
        op = _ATEN._pack_padded_sequence_backward.default
        return op.decompose(grad, input_size, batch_sizes, batch_first)
    sizes = list(input_size)
    if batch_first:
        sizes[:2] = sizes[1::-1]
    filled = torch.zeros(sizes, dtype=grad.dtype, device=grad.device)
    return filled.transpose(0, 1) if batch_first else filled


def _lstm(state: DropoutState):
    def layer(
        input,
        hx,
        params,
        has_biases,
        num_layers,
        dropout,
        train,
        bidirectional,
        batch_first,
        sizes=(),
    ):
        state.need(dropout, train, input.device)
        hidden, cell = hx
        return _run(
            input,
            hidden,
            cell,
            params,
            has_biases,
            LSTM,
            num_layers,
            dropout,
            train,
            bidirectional,
            batch_first,
            sizes,
        )

    return layer


def _one_state(mode: int, state: DropoutState):
    def layer(
        input,
        hx,
        params,
        has_biases,
        num_layers,
        dropout,
        train,
        bidirectional,
        batch_first,
        sizes=(),
    ):
        state.need(dropout, train, input.device)
        out, hidden, _ = _run(
            input,
            hx,
            None,
            params,
            has_biases,
            mode,
            num_layers,
            dropout,
            train,
            bidirectional,
            batch_first,
            sizes,
        )
        return out, hidden

    return layer


def _run(
    input: Any,
    hidden: Any,
    cell: Any | None,
    params: Sequence[Any],
    biases: bool,
    mode: int,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    sizes: Sequence[int],
) -> tuple[Any, Any, Any]:
    weights: list[Any] = list(params)
    buffer = None
    if torch.is_autocast_enabled("cuda") and input.dtype != torch.float64:
        # Whatever type autocast is set to, recurrent layers run in this one.
        dtype = torch.float16
        buffer, weights = _cast_flat(weights, dtype)
        cell = None if cell is None else cell.to(dtype)
        hidden = hidden.to(dtype)
        input = input.to(dtype)
    elif len({w.untyped_storage()._cdata for w in weights}) == 1:
        buffer = torch.empty(0, dtype=weights[0].dtype, device=weights[0].device)
    # An LSTM may project its state to fewer values than its cell has.
    units = (hidden if cell is None else cell).shape[2]
    result = _ATEN._cudnn_rnn(
        input,
        weights,
        4 if biases else 2,
        buffer,
        hidden,
        cell,
        mode,
        units,
        0 if units == hidden.shape[2] else hidden.shape[2],
        layers,
        batch_first,
        dropout,
        train,
        bidirectional,
        list(sizes),
        None,
    )
    return result[0], result[1], result[2]


def _cast_flat(weights: Sequence[Any], dtype: Any) -> tuple[Any, list[Any]]:
    """Autocast copies all weights, cast, into one new buffer."""
    buffer = torch.empty(sum(w.numel() for w in weights), dtype=dtype, device=weights[0].device)
    views, offset = [], 0
    for weight in weights:
        # Not views to autograd, so that the copies are recorded one by one.
        part = torch.empty(0, dtype=dtype, device=buffer.device)
        part.set_(buffer.untyped_storage(), offset, weight.shape)
        part.copy_(weight)
        views.append(part)
        offset += weight.numel()
    return buffer, views
