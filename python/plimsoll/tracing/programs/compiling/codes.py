"""Code that Inductor wrote, by what it depends on.

Blocks of a model that are compiled one by one have graphs that are alike.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree


class Written(NamedTuple):
    code: str
    # Of the graph's results; of forward graphs only.
    strides: list[Any]


def form_of_graph(graph: Any, inputs: list, kind: dict[str, bool]) -> str | None:
    """A key that is the same for graphs with the same code; None for graphs that hold tensors or other graphs."""
    nodes = list(graph.graph.nodes)
    if any(node.op in ("get_attr", "call_module") for node in nodes):
        return None
    settings = (
        sorted(kind.items()),
        graph.graph.output_node().meta["user_visible_output_idxs"],
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
    )
    digest = sha256(repr(settings).encode())
    for one in inputs:
        digest.update(repr(_form(one)).encode())
    for node in nodes:
        value = pytree.tree_map(_form, node.meta.get("val"))
        facts = (
            node.op,
            node.name,
            str(node.target),
            node.args,
            node.kwargs,
            value,
            sorted(node.meta),
        )
        digest.update(repr(facts).encode())
    return digest.hexdigest()


def _form(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    layout = tuple(value.shape), value.stride(), value.storage_offset()
    return repr((*layout, value.dtype, value.device, value.requires_grad))
