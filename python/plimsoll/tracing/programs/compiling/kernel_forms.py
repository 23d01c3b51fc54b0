"""What the source of a fused kernel depends on, but for the names of its buffers.

Layers of a model that are alike have kernels that are alike. Buffers are numbered in the order in which they occur.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from sympy import Basic
from torch._inductor.ir import Layout, NonOwningLayout
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

_SHIMS = ("set_indirect", "masked_subblock")


class Unknown(Exception):
    """The kernel has a part whose form is not known."""


class Numbers:
    """Numbers of buffers, by their names."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def of(self, name: str) -> int:
        return self.places.setdefault(name, len(self.places))

    def form(self, value: Any) -> Any:
        """A part of a loop's body, as a key."""
        if isinstance(value, str):
            return ("buffer", self.of(value)) if _is_buffer(value) else value
        if isinstance(value, torch.fx.Node):
            # Their names count what a body does: they are alike where bodies are.
            return ("node", value.name)
        if isinstance(value, (tuple, list)):
            return tuple(map(self.form, value))
        if isinstance(value, dict):
            return tuple((self.form(key), self.form(one)) for key, one in value.items())
        return value if isinstance(value, Basic) else _written(value)


def form_of_kernel(kernel: Any, schedule: list, numbers: Numbers) -> Any:
    """Raises `Unknown` where it cannot be told."""
    nodes = [node for node in schedule if not isinstance(node, type)]
    inside = OrderedSet(node.get_name() for node in nodes)
    parts = [_form_of_node(node, numbers) if node in nodes else node for node in schedule]
    updates = [
        (numbers.of(output), numbers.of(given))
        for output, given in kernel.inplace_update_buffers.items()
    ]
    mutations = [numbers.of(name) for name in kernel.mutations]
    outputs = [_form_of_output(one, inside, numbers) for node in nodes for one in node.outputs]
    return (
        type(kernel),
        key(kernel.numels),
        key(kernel.tiling),
        key(kernel.tiling_scores),
        kernel.persistent_reduction,
        kernel.no_x_dim,
        kernel.inside_reduction,
        getattr(kernel, "mix_order_reduction", False),
        getattr(kernel, "rsplit_size", 0),
        str(kernel.features.select_index_dtype()),
        str(kernel.features.get_reduction_hint(kernel.tiling_scores)),
        tuple(parts),
        tuple(updates),
        tuple(mutations),
        tuple(outputs),
        tuple(_forms_of_buffers(numbers)),
    )


def _form_of_node(node: Any, numbers: Numbers) -> Any:
    body = node._body
    if not all(name.startswith(_SHIMS) or name == "get_index" for name in body.submodules):
        raise Unknown
    blocks = {"": body.root_block, **body.subblocks}
    shims = {name: one for name, one in body.submodules.items() if name not in body.subblocks}
    shims.pop("get_index")
    return (
        node.is_reduction(),
        key(node.get_ranges()),
        key(node.group),
        key(body.sizes),
        key(body.var_ranges),
        key(body.indexing_exprs),
        key(body.indirect_var_ranges),
        tuple((name, _form_of_shim(shim)) for name, shim in shims.items()),
        tuple((name, _form_of_block(block, numbers)) for name, block in blocks.items()),
        # What a node reads without loading it decides about sizes and removals, too.
        tuple(numbers.of(dependency.name) for dependency in node.read_writes.reads),
        tuple(numbers.of(dependency.name) for dependency in node.read_writes.writes),
    )


def _form_of_shim(shim: Any) -> Any:
    """How an index that is read is used, or which part of the body runs for some places only."""
    how = getattr(getattr(shim, "clone", None), "keywords", None)
    if how is None:
        raise Unknown
    return key(sorted(how.items(), key=lambda one: one[0]))


def _form_of_block(block: Any, numbers: Numbers) -> Any:
    return tuple(
        (node.op, node.name, str(node.target), numbers.form(node.args), numbers.form(node.kwargs))
        for node in block.graph.nodes
    )


def _form_of_output(output: Any, inside: Any, numbers: Numbers) -> Any:
    name = output.get_name()
    return (
        numbers.of(name),
        V.graph.scheduler.can_buffer_be_removed_through_fusion(name, inside),
        tuple(map(numbers.of, output.get_mutations())),
        tuple(map(numbers.of, output.get_aliases())),
    )


def _forms_of_buffers(numbers: Numbers) -> Iterator[Any]:
    done = 0
    # The real name of a buffer may be a further one.
    while done < len(numbers.places):
        names = list(numbers.places)[done:]
        done += len(names)
        for name in names:
            yield _form_of_buffer(name, numbers)


def _form_of_buffer(name: str, numbers: Numbers) -> Any:
    graph = V.graph
    buffer = graph.try_get_buffer(name)
    if buffer is None:
        # A tensor that the graph holds itself.
        held = graph.constants.get(name)
        if held is None:
            raise Unknown
        layout: Any = (held.shape, held.stride(), held.device)
        aligned = True
    else:
        found = buffer.maybe_get_layout()
        layout = _form_of_layout(found)
        aligned = not isinstance(found, NonOwningLayout) or found.maybe_guard_aligned()
    real = graph.scheduler.mutation_real_name.get(name, name)
    return (
        layout,
        aligned,
        graph.get_dtype(name),
        name in graph.graph_inputs,
        name in graph.constants,
        name in graph.removed_buffers,
        name in graph.unaligned_buffers,
        name in graph.zero_dim_cpu_tensor_list,
        # Those have arguments of another name.
        name.startswith("seed"),
        numbers.of(real),
    )


def _form_of_layout(layout: Any) -> Any:
    if not isinstance(layout, Layout):
        return type(layout), str(layout)
    pinned = getattr(layout, "is_pinned", False)
    places = layout.size, layout.stride, layout.offset
    return type(layout), layout.device, layout.dtype, pinned, key(places)


def key(value: Any) -> Any:
    """Formulas as they are: SymPy compares them quickly, and takes long to write them."""
    # A size may be a number of Python or of SymPy. Both are written alike, and are equal.
    if isinstance(value, Basic) or type(value) is int:
        return value
    if isinstance(value, (tuple, list)):
        return tuple(map(key, value))
    if isinstance(value, dict):
        return tuple((key(name), key(one)) for name, one in value.items())
    return _written(value)


def _written(value: Any) -> Any:
    """Numbers that are equal may be written in different ways."""
    return type(value), repr(value)


def _is_buffer(name: str) -> bool:
    return V.graph.try_get_buffer(name) is not None or name in V.graph.constants
