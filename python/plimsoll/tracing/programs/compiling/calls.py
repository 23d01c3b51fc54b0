"""The calls of one compiled function: captured once for each form of its arguments."""

from __future__ import annotations

import contextlib
import gc
from types import FunctionType
from typing import Any, Callable

import torch

from ..places import GPU, Places
from .graphs import GRAPHS
from .parts import Parts, form_of

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
            self.observer.fused = True
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
        from .coming.plan import plan_of, shapes_of

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
