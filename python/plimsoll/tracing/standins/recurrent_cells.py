"""`nn.GRUCell` and `nn.LSTMCell`: CUDA has one kernel for all gates, which keeps a workspace until backward."""

from __future__ import annotations

import torch

_ATEN = torch.ops.aten
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
