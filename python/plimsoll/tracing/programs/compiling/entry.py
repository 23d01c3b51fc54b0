"""What `torch.compile` and `Module.compile` give a program."""

from __future__ import annotations

import functools
import gc
from typing import Any, Callable

import torch

from ...standins.patches import Patches
from ..places import Places
from . import captured_graphs, flex_attention
from .calls import Calls, NotCaptured
from .coming.fork import Coming
from .graphs import GRAPHS_LEFT_OUT

LEFT_OUT = "torch.compile was left out: kernels that it fuses keep less, so that the peak may be up to 60 % lower"
# Without kernels that are tried in turn.
_PLAIN_MODES = (None, "default", "reduce-overhead")
_WITH_GRAPHS = ("reduce-overhead", "max-autotune")
_GRAPHS_OPTION = "triton.cudagraphs"


def install(patches: Patches, observer: Any, places: Places) -> Coming:
    observer.coming = coming = Coming(observer)
    captured_graphs.install(patches, observer)

    def left_out(graphs: bool) -> None:
        observer.notes.add(LEFT_OUT)
        observer.compiled = True
        if graphs:
            observer.notes.add(GRAPHS_LEFT_OUT)
            observer.graphs = True

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
