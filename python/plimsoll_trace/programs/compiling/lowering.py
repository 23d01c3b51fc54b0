"""Graphs as Inductor lowers them for the card: what it fuses, in which order, in whose memory."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from math import prod
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import torch
import torch._inductor.compile_fx as inductor
import torch._subclasses.fake_tensor as fakes
from torch._inductor import graph as lowered_graph
from torch._inductor.debug import DebugContext
from torch._inductor.fx_passes import joint_graph, pad_mm
from torch._inductor.graph import GraphLowering
from torch._inductor.ir import IRNode, Layout
from torch._inductor.lowering import fallbacks
from torch._inductor.utils import is_view
from torch._inductor.virtualized import V
from torch.utils import _pytree as pytree

from ...gpu import Gpu
from ...ledger import WORKSPACE
from .beside import Ahead
from .execution import executable
from .graphs import in_graphs
from .triton_kernels import Driver

# Products of matrices that Inductor tries with padding, while it compiles: faster where sizes are multiples of a few.
#
# What the trials ask for stays in the cache. Which is faster is told by a rule, fitted to 5,631 products that an
# H200 was
# asked about. Of 674 others it says the same for 91 %, and for 92 % of those with a matrix of more than 64 MB.

_NAME = "a product with and without padding"
# With padding a product is faster where it computes so much for each byte that is copied to pad its matrices. Each
# copy
# takes a while to start, and three times as long where columns follow one another instead of rows.
_FLOPS_PER_BYTE = 250
_START_BYTES = 1_000_000
_TURNED = 3


def tries_padding(observer: Any) -> Callable[..., bool]:
    """In place of what tries a product: asks for what it asks for, and says which is faster by a rule."""

    def should_pad(match: Any, left: Any, right: Any, op: Any, addend: Any = None) -> bool:
        with pad_mm.no_dispatch():
            facts = match, left, right, op, addend
            whole, alone = pad_mm.should_pad_bench_key(*facts), _key_alone(*facts)
            sizes = left.shape[-2], left.shape[-1], right.shape[-1]
            if not pad_mm.is_mm_compute_bound(*sizes, left.dtype):
                return False
            trial = _Trial(*facts, observer)
        if whole not in observer.tried:
            trial.run(timed=alone in observer.tried)
            observer.tried |= {whole, alone}
        return trial.pads

    return should_pad


def _key_alone(*facts: Any) -> str:
    """Without padding a product is timed once, wherever its matrices come from."""
    return pad_mm.should_pad_bench_key(*facts, is_base_time_key=True)


class _Trial:
    def __init__(self, match: Any, left: Any, right: Any, op: Any, addend: Any, observer: Any):
        self._observer = observer
        self._given = [_bytes(one.shape, one) for one in (left, right)]
        self._bias = [] if addend is None else [_bytes(addend.shape, addend)]
        self._fuses = addend is not None and addend.dim() == 1
        *batch, rows, inner = left.shape
        columns = right.shape[-1]
        more_rows, more_inner, more_columns = (
            size + pad_mm.get_padded_length(size, pad_mm.get_alignment_size(one))
            for size, one in ((rows, left), (inner, left), (columns, right))
        )
        self._result = _bytes((*batch, rows, columns), left)
        self._padded = _bytes((*batch, more_rows, more_columns), left)
        # Matrices that the graph makes could be made with padding at once: their copies are not timed.
        self._before: list[int] = []
        self._within: list[int] = []
        copied = _START_BYTES
        for name, one, shape in (
            ("mat1", left, (*batch, more_rows, more_inner)),
            ("mat2", right, (*batch, more_inner, more_columns)),
        ):
            if tuple(one.shape) != shape:
                early = pad_mm.should_exclude_padding_time(match, name)
                (self._before if early else self._within).append(_bytes(shape, one))
                copied += 0 if early else _bytes(one.shape, one) * _slowness(one)
        flops = 2 * prod(batch) * rows * inner * columns
        self.pads = (
            _uses_tensor_cores(left.dtype)
            and not _are_aligned(left, right, columns)
            and flops > _FLOPS_PER_BYTE * copied
        )

    def run(self, timed: bool) -> None:
        held = self._take([*self._given, *([] if timed else self._bias)])
        held += self._take([*self._before, *self._bias])
        if not timed:
            self._time([self._result])
        self._time([*self._within, self._padded])
        self._give(held)

    def _time(self, sizes: list[int]) -> None:
        self._product(sizes)
        cache = self._take([self._observer.gpu.cache])
        self._product(sizes)
        self._give(cache)

    def _product(self, sizes: list[int]) -> None:
        made = self._take(sizes)
        gpu = self._observer.gpu
        self._keep("cublas", gpu.blas_workspace)
        if self._fuses:
            self._keep("cublaslt", gpu.blaslt_workspace)
        self._give(made)

    def _keep(self, library: str, size: int) -> None:
        """The workspace of forward's handle stays, as that of any product does."""
        key = (library, False, 0)
        if key not in self._observer.workspaces:
            self._observer.workspaces[key] = self._take([size])[0]

    def _take(self, sizes: list[int]) -> list[int]:
        ledger = self._observer.ledger
        return [ledger.allocate(size, _NAME, "", WORKSPACE) for size in sizes]

    def _give(self, taken: list[int]) -> None:
        for one in taken:
            self._observer.ledger.free(one)


def _uses_tensor_cores(dtype: torch.dtype) -> bool:
    """Without them sizes hardly matter."""
    return dtype != torch.float32 or torch.backends.cuda.matmul.fp32_precision == "tf32"


def _slowness(matrix: torch.Tensor) -> int:
    """Of its copy."""
    return 1 if matrix.stride(-1) == 1 else _TURNED


def _are_aligned(left: torch.Tensor, right: torch.Tensor, columns: int) -> bool:
    """Whether rows of the matrices, or columns where these follow one another, begin at multiples of 16 bytes."""
    steps = (max(left.stride()[-2:]), max(right.stride()[-2:]), columns)
    return all(step % pad_mm.get_alignment_size(left) == 0 for step in steps)


def _bytes(shape: Any, like: torch.Tensor) -> int:
    return prod(shape) * like.element_size()


_CARD = torch.device("cuda", 0)
_BACKWARD = {"is_backward": True}


# Code that Inductor wrote, by what it depends on.
#
# Blocks of a model that are compiled one by one have graphs that are alike.


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


# How forward will lay out what it keeps for backward, guessed before its graph is lowered.
#
# The rules are Inductor's: images that convolutions work on have channels last, and long rows
# begin at multiples of 128 bytes. A guess that is wrong costs time, and nothing else.

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


class Lowering:
    def __init__(self, observer: Any, graphs: bool, mode: Any):
        """`mode`: that of the capture. Tensors of another one are copied, and no result with them is remembered."""
        self.observer = observer
        self._graphs = graphs
        # PyTorch would try a backward graph again that could not be lowered.
        self.failure: Exception | None = None
        self._mode = mode
        # Tensors that a graph holds itself, by those that stand for them on the card.
        self._held: dict[int, Any] = {}
        self._ahead = Ahead(self._backward_code)

    def partition(self, graph: Any, inputs: Any, **settings: Any) -> Any:
        with _joint_passes(self.observer):
            self._move(graph)
            forward, backward = inductor.partition_fn(graph, inputs, **settings)
            self._ahead.guess(backward)
            return forward, backward

    def forward(self, graph: Any, inputs: Any) -> Any:
        return self._executable(*self._lowered(graph, inputs, {}))

    def backward(self, graph: Any, inputs: Any) -> Any:
        try:
            return self._executable(*self._lowered(graph, inputs, _BACKWARD))
        except Exception as error:
            self.failure = error
            raise

    def inference(self, graph: Any, inputs: Any) -> Any:
        with _joint_passes(self.observer):
            self._move(graph)
            graph = inductor._recursive_joint_graph_passes(graph, input_device=_CARD)
        return self._executable(*self._lowered(graph, inputs, {"is_inference": True}))

    def close(self) -> None:
        self.observer.coming.go_on()
        self._ahead.end()

    def _lowered(
        self, graph: Any, inputs: Any, kind: dict[str, bool]
    ) -> tuple[str, dict[str, Any]]:
        """The code of a graph, and the tensors that it holds; graphs that are alike are lowered once."""
        inputs = [self._on_card(one) for one in inputs]
        _keep_strides(graph, kind)
        codes, form = self.observer.codes, form_of_graph(graph, inputs, kind)
        self.observer.coming.find(form)
        if form in codes:
            _reported_strides().extend(codes[form].strides)
            return codes[form].code, {}
        if not kind:
            self._ahead.begin(guessed_strides(graph, _kept_of(graph.graph.output_node().args[0])))
            self.observer.coming.pause()
        code = self._ahead.code(inputs) if kind == _BACKWARD else None
        constants: dict[str, Any] = {}
        if code is None:
            code, constants = self._lower(graph, inputs, kind)
        if form is not None and not constants:
            codes[form] = Written(code, list(_reported_strides()))
        return code, constants

    def _backward_code(self, graph: Any, inputs: Any) -> str | None:
        """None where it holds tensors, which another process could not give to this one."""
        _keep_strides(graph, _BACKWARD)
        code, constants = self._lower(graph, inputs, _BACKWARD)
        return None if constants else code

    def _lower(self, graph: Any, inputs: Any, kind: dict[str, bool]) -> tuple[str, dict[str, Any]]:
        with DebugContext(), V.set_fake_mode(self._mode), torch.no_grad():
            inductor.view_to_reshape(graph)
            inductor.fake_tensor_prop(graph, inputs, True)
            inductor._recursive_record_original_output_strides(graph)
            inference = kind.get("is_inference", False)
            inductor._recursive_post_grad_passes(graph, is_inference=inference)
            lowered = GraphLowering(graph, example_inputs=inputs, **kind)
            with V.set_graph_handler(lowered), V.set_extern_kernel_nodes([]):
                lowered.run(*inputs)
                _report_strides(lowered)
            if not kind:
                self._ahead.begin(_strides_of_kept())
            with V.set_graph_handler(lowered), V.set_extern_kernel_nodes([]):
                code, _ = lowered.codegen()
        constants = {
            name: self._held.get(id(value), value) for name, value in lowered.constants.items()
        }
        return code.value, constants

    def _executable(self, code: str, constants: dict[str, Any]) -> Any:
        run = executable(code, constants, self.observer)
        return in_graphs(run, self.observer) if self._graphs else run

    def _move(self, graph: Any) -> None:
        """Names the card wherever a graph that was captured on meta names meta."""

        def moved(value: Any) -> Any:
            is_meta = isinstance(value, torch.device) and value.type == "meta"
            return _CARD if is_meta else value

        for node in graph.graph.nodes:
            node.args = torch.fx.node.map_aggregate(node.args, moved)
            node.kwargs = torch.fx.node.map_aggregate(node.kwargs, moved)
            if "val" in node.meta:
                node.meta["val"] = pytree.tree_map(self._on_card, node.meta["val"])
            if node.op == "get_attr":
                held = getattr(graph, node.target)
                if getattr(held, "requires_grad", False):
                    raise ValueError("a parameter that is in no module of the function")
                stand_in = self._on_card(held)
                if stand_in is not held:
                    self._held[id(stand_in)] = held
                    setattr(graph, node.target, stand_in)
        graph.recompile()

    def _on_card(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.device.type != "meta":
            return value
        # Made past the dispatcher, which takes ten times as long for it.
        with torch._C._DisableTorchDispatch():
            plain = torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device="meta"
            )
            return fakes.FakeTensor(self._mode, plain, _CARD)


def _keep_strides(graph: Any, kind: dict[str, bool]) -> None:
    """What the program gets back keeps its strides; what is kept for backward may be laid out anew."""
    output = graph.graph.output_node()
    results = range(len(output.args[0]))
    context = torch._guards.TracingContext.try_get()
    if not kind and context is not None and context.fw_metadata is not None:
        facts = context.fw_metadata
        first = facts.num_mutated_inp_runtime_indices
        results = results[first : first + facts.num_outputs]
    given = [place for place in results if isinstance(output.args[0][place], torch.fx.Node)]
    output.meta["user_visible_output_idxs"] = given


def _report_strides(lowered: GraphLowering) -> None:
    """How forward lays out what it keeps: the backward graph is made for that layout."""
    reported = _reported_strides()
    for result in lowered.graph_outputs:
        known = isinstance(result, IRNode) and result.has_tensor_output()
        reported.append(tuple(map(int, result.get_layout().stride)) if known else None)


def _reported_strides() -> list[Any]:
    """The list in which PyTorch expects the strides; an empty one if it does not ask for them."""
    context = torch._guards.TracingContext.try_get()
    if context is None or context.output_strides is None:
        return []
    return context.output_strides


def _strides_of_kept() -> list[Any]:
    """As they were reported."""
    return _kept_of(_reported_strides())


def _kept_of(results: Any) -> list[Any]:
    """Of the results of a forward graph, those that it keeps for backward."""
    context = torch._guards.TracingContext.try_get()
    if context is None or context.fw_metadata is None:
        return []
    return list(results[context.fw_metadata.tensors_saved_for_backwards_slice])


class _Folder(joint_graph.UniformValueConstantFolder):
    """Values that are the same throughout are worked out with numbers, and no card is here."""

    def _add_peephole_patterns(self) -> None:
        return None

    def _deduce_value(self, node: Any) -> Any:
        named = node.kwargs.get("device")
        if node.target is torch.ops.prims.device_put.default:
            return self.unknown_value
        if named is None or named.type != "cuda":
            return super()._deduce_value(node)
        given = node.kwargs
        node.kwargs = {**given, "device": torch.device("cpu")}
        try:
            return super()._deduce_value(node)
        finally:
            node.kwargs = given


@contextmanager
def _joint_passes(observer: Any) -> Iterator[None]:
    """They build example tensors on a card, if there is one."""
    with (
        mock.patch.object(torch.cuda, "is_available", lambda: False),
        mock.patch.object(joint_graph, "UniformValueConstantFolder", _Folder),
        # Whether a product is faster with padding is measured on a card.
        mock.patch.object(pad_mm, "has_triton", lambda: True),
        mock.patch.object(pad_mm, "_should_pad", tries_padding(observer)),
    ):
        yield


def _first_guess(_run: Any, guess: int, *_limits: Any) -> int:
    return guess


@contextmanager
def pretended_card(gpu: Gpu) -> Iterator[None]:
    """The questions that lowering puts to the card and its driver."""
    from torch._dynamo import device_interface
    from torch._inductor.runtime.coordinate_descent_tuner import CoordescTuner

    driver = import_module("triton.runtime").driver
    properties = torch.cuda.get_device_properties(0)
    cuda = device_interface.CudaInterface
    answer = staticmethod(lambda *_: properties)
    with (
        mock.patch.object(fakes, "init_gpu_context", lambda *_: None),
        mock.patch.object(cuda, "get_device_properties", answer),
        mock.patch.object(cuda.Worker, "get_device_properties", answer),
        mock.patch.object(driver, "_active", Driver(gpu)),
        # Into how many parts a reduction is split is measured on a card; as a rule the first guess stays.
        mock.patch.object(CoordescTuner, "autotune_single_field", _first_guess, create=True),
    ):
        yield
