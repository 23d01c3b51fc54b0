"""Writes the source of fused kernels that are alike once: only the first of them is asked about when it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, NamedTuple
from unittest import mock
from weakref import WeakKeyDictionary

import torch
from sympy import Basic
from torch._inductor import config
from torch._inductor.codegen import simd
from torch._inductor.codegen.common import KernelArgs
from torch._inductor.codegen.simd import SIMDScheduling
from torch._inductor.codegen.triton import TritonKernel
from torch._inductor.ir import Layout, NonOwningLayout
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

_BEGINNINGS = ("codegen_node_schedule", "_generate_kernel_code_for_mix_order_reduction")


# What the source of a fused kernel depends on, but for the names of its buffers.
#
# Layers of a model that are alike have kernels that are alike. Buffers are numbered in the order in which they occur.

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


class _Written(NamedTuple):
    """The first kernel of a form. Buffers are numbers."""

    source: str
    facts: tuple[Any, Any]
    # Numbers of buffers and the names of the arguments that they are.
    inputs: list[tuple[int, Any]]
    outputs: list[tuple[int, Any]]
    sizes: dict[Any, Any]
    stored: list[int]
    kept: list[int]
    mutations: list[int]
    # What need not be made, because nothing outside of the kernel reads it.
    removed: tuple[list[int], list[int]]
    # Sums over the other dimension, which are finished after the kernel: their buffer, and how.
    unfinished: list[tuple[int, str, Any]]


class _Kernels:
    def __init__(self) -> None:
        self._written: WeakKeyDictionary[Any, dict[Any, _Written]] = WeakKeyDictionary()
        # Of the kernel that is being written now: its form, the numbers of its buffers, and its arguments.
        self._form: Any = None
        self._numbers = Numbers()
        self._first: dict[str, Any] = {}
        self._found: _Written | None = None

    def begin(self, write: Callable[[], Any]) -> Any:
        """Around all that is done for a kernel that nothing else is part of."""
        self._form, self._found, self._first = (), None, {}
        try:
            return write()
        finally:
            self._form, self._found, self._first = None, None, {}

    def fill(self, scheduling: Any, schedule: list, kernel: Any, fill: Any) -> None:
        if self._form == () and _is_plain(kernel):
            self._numbers = Numbers()
            mutations = list(kernel.mutations)
            try:
                self._form = _decided(kernel, schedule, self._numbers)
            except (Unknown, AttributeError):
                self._form = None
            known = self._written.setdefault(V.graph, {}).get(self._form)
            if known is not None and self._as_before(kernel, known):
                self._found = known
                return
            _forget(kernel, mutations)
            if self._form is not None:
                # What belongs to the kernel alone is taken out of its arguments at the end.
                kernel.remove_kernel_local_buffers = lambda: self._filled(kernel)
        fill(scheduling, schedule, kernel)

    def _as_before(self, kernel: Any, known: _Written) -> bool:
        """Gives a kernel the arguments of the first one; whether that is all there is to do."""
        names = list(self._numbers.places)
        args = kernel.args
        args.input_buffers = {names[place]: inner for place, inner in known.inputs}
        args.output_buffers = {names[place]: inner for place, inner in known.outputs}
        args.sizevars = dict(known.sizes)
        kernel.store_buffer_names.update(names[place] for place in known.stored)
        kernel.must_keep_buffers.update(names[place] for place in known.kept)
        kernel.mutations.update(names[place] for place in known.mutations)
        for place, kind, value in known.unfinished:
            kernel.saved_partial_accumulate.append(
                simd.PartialAccumulate(names[place], kind, value)
            )
        with V.set_kernel_handler(kernel):
            kernel.remove_kernel_local_buffers()
        return self._removed(kernel) == known.removed

    def _removed(self, kernel: Any) -> tuple[list[int], list[int]]:
        return self._places(kernel.removed_buffers), self._places(kernel.inplaced_to_remove)

    def _places(self, names: Any) -> list[int]:
        return [self._numbers.places[name] for name in names]

    def _filled(self, kernel: Any) -> None:
        args = kernel.args
        self._first = self._first or {
            "inputs": list(args.input_buffers.items()),
            "outputs": list(args.output_buffers.items()),
            "sizes": dict(args.sizevars),
            "stored": list(kernel.store_buffer_names),
            "kept": list(kernel.must_keep_buffers),
            "mutations": list(kernel.mutations),
            "unfinished": [
                (one.buffer_name, one.reduction_type, one.value) for one in _unfinished(kernel)
            ],
        }
        type(kernel).remove_kernel_local_buffers(kernel)

    def source(self, kernel: Any, name: Any, write: Any) -> str:
        if self._found is not None:
            found, self._found = self._found, None
            kernel.triton_meta, kernel.inductor_meta = found.facts
            return found.source
        source = write(kernel, name)
        first, places = self._first, self._numbers.places
        self._first = {}
        if first and name is None and (_is_mixed(kernel) or not kernel.args.workspace_args):
            used = [*first["stored"], *first["kept"], *first["mutations"]]
            named = *first["inputs"], *first["outputs"], *first["unfinished"]
            used += [one for one, *_ in named]
            if all(one in places for one in used):
                self._written[V.graph][self._form] = _Written(
                    source,
                    (kernel.triton_meta, kernel.inductor_meta),
                    [(places[one], inner) for one, inner in first["inputs"]],
                    [(places[one], inner) for one, inner in first["outputs"]],
                    first["sizes"],
                    self._places(first["stored"]),
                    self._places(first["kept"]),
                    self._places(first["mutations"]),
                    self._removed(kernel),
                    [(places[one], kind, value) for one, kind, value in first["unfinished"]],
                )
        return source


def _is_plain(kernel: Any) -> bool:
    """Others need memory to work in, or depend on the kernel before."""
    after_another = getattr(config.triton, "enable_pdl", False)
    plain = type(kernel) is TritonKernel and not kernel.cooperative_reduction
    return plain and not after_another


def _is_mixed(kernel: Any) -> bool:
    """Sums over both dimensions; it gets memory to work in after its source."""
    return getattr(kernel, "mix_order_reduction", False)


def _unfinished(kernel: Any) -> list:
    return getattr(kernel, "saved_partial_accumulate", [])


def _decided(kernel: Any, schedule: list, numbers: Numbers) -> Any:
    with V.set_kernel_handler(kernel):
        for node in schedule:
            if not isinstance(node, type):
                node.decide_inplace_update()
        return form_of_kernel(kernel, schedule, numbers)


def _forget(kernel: Any, mutations: list) -> None:
    kernel.args = KernelArgs()
    kernel.inplace_update_buffers.clear()
    kernel.mutations.clear()
    kernel.mutations.update(mutations)
    for names in (
        kernel.store_buffer_names,
        kernel.must_keep_buffers,
        kernel.removed_buffers,
        kernel.inplaced_to_remove,
    ):
        names.clear()
    _unfinished(kernel).clear()
    kernel.num_store = 0


@contextmanager
def written_once() -> Iterator[None]:
    kernels = _Kernels()
    fill = SIMDScheduling.codegen_node_schedule_with_kernel
    write = TritonKernel.codegen_kernel

    def codegen_node_schedule_with_kernel(self: Any, schedule: list, kernel: Any) -> None:
        kernels.fill(self, schedule, kernel, fill)

    def codegen_kernel(self: Any, name: Any = None) -> str:
        return kernels.source(self, name, write)

    def beginning(begin: Callable) -> Callable:
        return lambda *args, **named: kernels.begin(lambda: begin(*args, **named))

    with ExitStack() as stack:
        for name in _BEGINNINGS:
            # Older ones have no kernels with sums over both dimensions.
            if hasattr(SIMDScheduling, name):
                begin = beginning(getattr(SIMDScheduling, name))
                stack.enter_context(mock.patch.object(SIMDScheduling, name, begin))
        own = codegen_node_schedule_with_kernel
        stack.enter_context(mock.patch.object(SIMDScheduling, own.__name__, own))
        stack.enter_context(mock.patch.object(TritonKernel, "codegen_kernel", codegen_kernel))
        yield
