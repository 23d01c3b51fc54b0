"""What `torch.compile` and `Module.compile` give a program."""

from __future__ import annotations

import contextlib
import functools
import gc
from contextlib import ExitStack
from types import FunctionType
from typing import Any, Callable

import torch

from ...standins.patches import Patches
from ..places import GPU, Places
from . import flex_attention
from .graphs import GRAPHS, GRAPHS_LEFT_OUT, own_pool
from .lowering_fork import Coming
from .parts import Parts, form_of

LEFT_OUT = "torch.compile was left out: kernels that it fuses keep less, so that the peak may be up to 60 % lower"
# Without kernels that are tried in turn.
_PLAIN_MODES = (None, "default", "reduce-overhead")
_WITH_GRAPHS = ("reduce-overhead", "max-autotune")
_GRAPHS_OPTION = "triton.cudagraphs"


# CUDA graphs that a program records by itself: the steps run once, into a pool of memory of their own.
#
# What was recorded is repeated without asking for memory again.

_NOTE = (
    "CUDA graphs that the program records were followed: they keep a pool of memory of their own, which the rest of "
    "the program cannot use"
)
_CALLABLES = (
    "make_graphed_callables was left out: its graphs keep a pool of memory of their own, "
    "so that the peak may be higher"
)


def _install_captured_graphs(patches: Patches, observer: Any) -> None:
    # Of the stream on which all graphs are recorded; they stay.
    workspaces: dict[Any, int] = {}

    class CUDAGraph:
        def __init__(self, *_: Any, **__: Any) -> None:
            self._recording: ExitStack | None = None

        def capture_begin(self, *_: Any, **__: Any) -> None:
            observer.notes.add(_NOTE)
            self._recording = ExitStack()
            self._recording.enter_context(own_pool(observer.ledger))
            before, observer.workspaces = observer.workspaces, workspaces
            self._recording.callback(setattr, observer, "workspaces", before)

        def capture_end(self) -> None:
            if self._recording is not None:
                self._recording.close()
                self._recording = None

        def pool(self) -> tuple[int, int]:
            return (0, 1)

        def replay(self, *_: Any, **__: Any) -> None:
            return None

        reset = instantiate = debug_dump = enable_debug_mode = replay
        register_generator_state = replay

    class graph:
        """Between its begin and its end everything is recorded."""

        def __init__(self, cuda_graph: Any, *_: Any, **__: Any) -> None:
            self._graph = cuda_graph

        def __enter__(self) -> None:
            observer.ledger.empty_cache()
            self._graph.capture_begin()

        def __exit__(self, *_: Any) -> None:
            self._graph.capture_end()

    def make_graphed_callables(callables: Any, *_: Any, **__: Any) -> Any:
        observer.notes.add(_CALLABLES)
        observer.facts.graphs = True
        return callables

    for module in (torch.cuda, torch.cuda.graphs):
        patches.set(module, "CUDAGraph", CUDAGraph)
        patches.set(module, "graph", graph)
        patches.set(module, "graph_pool_handle", lambda: (0, 1))
        patches.set(module, "make_graphed_callables", make_graphed_callables)


# The calls of one compiled function: captured once for each form of its arguments.

_PLAIN = (int, float, bool, str, bytes, type(None), torch.dtype, torch.device)
FOLLOWED = (
    "torch.compile was followed: the graphs and kernels are those that PyTorch's compiler makes for this card; "
    "whether it pads matrices for a product, which it decides by trying, is not known"
)
# Forms that PyTorch compiles anew; from then on it runs the function as it is.
_MAX_FORMS = 8


class NotCaptured(Exception):
    """The function does what only values decide, or what a graph cannot hold."""


class Calls:
    # Whether any function is being captured: what it calls belongs to its graph.
    capturing = False

    def __init__(self, function: Callable, observer: Any, places: Places, graphs: bool):
        self.function = function
        # Whether its graphs become CUDA graphs.
        self.graphs = graphs
        self.observer = observer
        self.places = places
        self._graphs: dict[Any, Any] = {}

    def run(self, args: tuple, kwargs: dict) -> Any:
        parts = Parts((args, kwargs))
        leaves = parts.leaves
        modules = modules_of(self.function, leaves)
        with torch._C.DisableTorchFunction():
            key = (*parts.form(), *map(self._form, leaves), *_state(modules))
        if key not in self._graphs:
            self._graphs[key] = self._captured(parts, modules)
        graph = self._graphs[key]
        if graph is None:
            raise NotCaptured
        return graph(leaves)

    def _captured(self, parts: Parts, modules: list) -> Any:
        if len(self._graphs) >= _MAX_FORMS or any(map(_is_recurrent, modules)):
            return None
        # An optimizer keeps what its step makes; out of a graph that would be no tensors.
        if _held(self.function, parts.leaves, torch.optim.Optimizer):
            return None
        Calls.capturing = True
        # A compiler makes much and throws away little.
        gc.disable()
        try:
            from .capture import capture

            self._compile_ahead(parts, modules)
            graph = capture(self, parts, modules)
            self.observer.facts.fused = True
            self.observer.notes.add(FOLLOWED)
            if self.graphs:
                self.observer.notes.add(GRAPHS)
            return graph
        except Exception as error:
            # Shown with --verbose.
            print(f"torch.compile: {type(error).__name__}: {error}")
            return None
        finally:
            Calls.capturing = False
            gc.enable()
            # What a capture leaves behind may hold tensors of the program. Some of it is no longer among the youngest.
            gc.collect(1)

    def _compile_ahead(self, parts: Parts, modules: list) -> None:
        """For sizes that will come. Nothing that fails here is a fault of the program's."""
        from .likely_sizes import plan_of, shapes_of

        with contextlib.suppress(Exception):
            coming = self.observer.coming
            coming.meets((id(self), torch.is_grad_enabled(), shapes_of(parts.leaves)))
            if not self._graphs and not coming.works:
                coming.begin(plan_of(self, parts, modules))

    def _form(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            if leaf.device.type == "meta" and self.places.of(leaf) != GPU:
                raise NotCaptured
            return leaf.shape, leaf.stride(), leaf.dtype, leaf.requires_grad, leaf.device.type
        if isinstance(leaf, torch.nn.Module):
            return id(leaf)
        if isinstance(leaf, FunctionType):
            return form_of(leaf)
        if not isinstance(leaf, _PLAIN):
            raise NotCaptured
        return type(leaf), leaf


def modules_of(function: Callable, leaves: list) -> list:
    """The modules whose parameters a function uses."""
    return _held(function, leaves, torch.nn.Module)


def _held(function: Callable, leaves: list, kind: type) -> list:
    """What a function uses of a kind: its own, its arguments, those it closes over."""
    inner = function
    # A method is wrapped without the object that it belongs to.
    owners = [getattr(function, "__self__", None)]
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
        owners.append(getattr(inner, "__self__", None))
    code = getattr(inner, "__code__", None) or getattr(
        getattr(inner, "__func__", None), "__code__", None
    )
    held: list[Any] = [inner, *owners, *leaves]
    for cell in getattr(inner, "__closure__", None) or ():
        with contextlib.suppress(ValueError):
            held.append(cell.cell_contents)
    names = code.co_names if code is not None else ()
    held.extend(getattr(inner, "__globals__", {}).get(name) for name in names)
    found = {id(one): one for one in held if isinstance(one, kind)}
    return list(found.values())


def _is_recurrent(module: Any) -> bool:
    """The compiler leaves these layers out as well."""
    return any(isinstance(part, torch.nn.RNNBase) for part in module.modules())


def _state(modules: list) -> Any:
    yield torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    yield torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    for module in modules:
        yield tuple(part.training for part in module.modules())
        yield tuple((p.requires_grad, p.dtype, tuple(p.shape)) for p in module.parameters())


def install(patches: Patches, observer: Any, places: Places) -> Coming:
    observer.coming = coming = Coming(observer)
    _install_captured_graphs(patches, observer)

    def left_out(graphs: bool) -> None:
        observer.notes.add(LEFT_OUT)
        observer.facts.compiled = True
        if graphs:
            observer.notes.add(GRAPHS_LEFT_OUT)
            observer.facts.graphs = True

    def compiled(model: Any = None, **settings: Any) -> Any:
        if settings.get("disable") or _is_eager(settings.get("backend")):
            return model if model is not None else (lambda function: function)
        if model is None:
            return functools.partial(compiled, **settings)
        mode, options = settings.get("mode"), settings.get("options") or {}
        plain = settings.get("backend", "inductor") == "inductor" and not options
        known = plain and mode in _PLAIN_MODES
        graphs = mode in _WITH_GRAPHS or bool(options.get(_GRAPHS_OPTION))

        def wrap(function: Callable) -> Callable:
            follows = known and not _is_step(function)
            calls = Calls(function, observer, places, graphs) if follows else None
            return _wrapped(function, calls, functools.partial(left_out, graphs), observer)

        if isinstance(model, torch.nn.Module):
            return _compiled_model()(model, wrap)
        return wrap(model)

    def compile_module(self: Any, *_: Any, **settings: Any) -> None:
        self._compiled_call_impl = compiled(self._call_impl, **settings)

    flex_attention.install(patches, observer)
    patches.set(torch, "compile", compiled)
    patches.set(torch.nn.Module, "compile", compile_module)
    return coming


def _compiled_model() -> Any:
    """PyTorch's class of compiled models. Its import makes much and throws away little."""
    collects = gc.isenabled()
    gc.disable()
    try:
        from torch._dynamo.eval_frame import OptimizedModule
    finally:
        if collects:
            gc.enable()
    return OptimizedModule


def _is_eager(backend: Any) -> bool:
    """By its name, or as the function of PyTorch that has it."""
    return getattr(backend, "__name__", backend) == "eager"


def _is_step(function: Any) -> bool:
    """Steps of a Lightning module keep what they log: a graph has no such results. Its `forward` is one."""
    name = getattr(function, "__name__", "")
    return name.endswith("_step") and hasattr(
        getattr(function, "__self__", None), "automatic_optimization"
    )


def _wrapped(
    function: Callable, calls: Calls | None, left_out: Callable[[], None], observer: Any
) -> Callable:
    # Libraries compile functions that a program may never call.
    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        observer.in_compiled += 1
        try:
            if flex_attention.is_it(function):
                return function(*args, **kwargs)
            # What is called while another is captured belongs to its graph.
            if not Calls.capturing:
                if calls is not None:
                    try:
                        return calls.run(args, kwargs)
                    except NotCaptured:
                        pass
                left_out()
            return function(*args, **kwargs)
        finally:
            observer.in_compiled -= 1

    return called
