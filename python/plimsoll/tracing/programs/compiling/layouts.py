"""How forward will lay out what it keeps for backward, guessed before its graph is lowered.

The rules are Inductor's: images that convolutions work on have channels last, and long rows
begin at multiples of 128 bytes. A guess that is wrong costs time, and nothing else.
"""

from __future__ import annotations

import operator
from types import SimpleNamespace
from typing import Any

import torch
from torch._inductor import graph as lowered_graph
from torch._inductor.ir import Layout
from torch._inductor.lowering import fallbacks
from torch._inductor.utils import is_view

_DISLIKE = "dislike_padding"
_CONVOLUTION = torch.ops.aten.convolution.default


def guessed_strides(graph: Any, kept: list) -> list[Any]:
    """The strides of each tensor that forward keeps for backward; None for entries that are not tensors."""
    try:
        return _guessed(graph, kept)
    except Exception:
        # Another PyTorch may have other names for its rules. Then the layout is that of the captured graph.
        return []


def _guessed(graph: Any, kept: list) -> list[Any]:
    lasts: Any = ()
    if lowered_graph.GraphLowering.decide_layout_opt(graph, is_inference=False):
        holder: Any = SimpleNamespace(module=graph)
        lasts = lowered_graph.GraphLowering.find_nodes_prefer_channels_last(holder)
    dense = _not_padded(graph)
    return [_strides(node, node in lasts, node in dense) for node in kept]


def _strides(node: Any, channels_last: bool, dense: bool) -> Any:
    value = getattr(node, "meta", {}).get("val")
    if not isinstance(value, torch.Tensor):
        return None
    given = node.op == "placeholder"
    # What is given is copied only where that changes something.
    if channels_last and value.dim() == 4 and _is_dense(value) and not (given and _is_last(value)):
        _, channels, height, width = value.shape
        return channels * height * width, 1, channels * width, channels
    if dense or not _is_padded(node):
        return value.stride()
    return tuple(Layout._pad_strides(value.stride(), value.shape, value.dtype))


def _is_dense(image: torch.Tensor) -> bool:
    return image.is_contiguous() or _is_last(image)


def _is_last(image: torch.Tensor) -> bool:
    return image.is_contiguous(memory_format=torch.channels_last)


def _is_padded(node: Any) -> bool:
    """Whether Inductor chooses the layout of what the node stands for, or is a view of: not a library."""
    while node.op == "call_function":
        target = node.target
        if target is not operator.getitem:
            if not isinstance(target, torch._ops.OpOverload):
                return False
            if not is_view(target):
                return target not in fallbacks and target is not _CONVOLUTION
        node = node.args[0]
    return False


def _not_padded(graph: Any) -> set[Any]:
    nodes = list(graph.graph.nodes)
    marked = {node for node in nodes if _DISLIKE in node.meta}
    output = graph.graph.output_node()
    visible = [output.args[0][place] for place in output.meta["user_visible_output_idxs"]]
    lowered_graph.mark_nodes_dislike_padding(
        graph.graph, {node: node.meta["val"].stride() for node in visible}
    )
    found = {node for node in nodes if node.meta.get(_DISLIKE)}
    # Inductor marks them itself once it has changed the graph.
    for node in found - marked:
        del node.meta[_DISLIKE]
    return found
