"""Models that a program converts: scripted, exported, quantized."""

from __future__ import annotations

import copy
import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.utils._pytree as trees
from torch.utils._python_dispatch import _disable_current_modes

from ..standins.imports import when_imported
from ..standins.patches import Patches
from . import values
from .files.overlay import Overlay, is_path
from .parameters import keeping_values
from .places import GPU, HOST, Places, is_cuda
from .watch import SAVING, Watch

# TorchScript of a program: what is traced, frozen, saved and loaded stays the module that it was made from.
#
# Tensors without memory cannot be written into TorchScript's files, nor compared as `torch.jit.trace` does. The ops
# that run are the same. What is exported for other runtimes is run once, as its export does.


def install_scripting(patches: Patches, overlay: Overlay, watch: Watch, places: Places) -> Files:
    """Answers with the files that modules were saved to."""
    files = Files(overlay, watch, places, torch.jit.load)
    patches.set(torch.jit, "trace", _traced(files))
    patches.set(torch.jit, "trace_module", _traced_methods(files))
    patches.set(torch.jit, "freeze", lambda module, *_, **__: module)
    patches.set(torch.jit, "optimize_for_inference", lambda module, *_, **__: module)
    patches.set(torch.jit, "save", lambda module, f, *_, **__: files.save(module, f))
    patches.set(torch.jit, "load", files.load)
    patches.set(torch.jit.RecursiveScriptModule, "save", lambda m, f, **_: files.save(m, f))
    when_imported("torch.onnx", lambda onnx: patches.set(onnx, "export", _exported(files)))
    return files


class Files:
    """Modules that were saved, by their paths."""

    def __init__(self, overlay: Overlay, watch: Watch, places: Places, load: Any) -> None:
        self._overlay, self._watch, self.places, self._load = overlay, watch, places, load
        self._saved: dict[Any, Any] = {}

    def save(self, module: Any, f: Any) -> None:
        with self._watch.within(SAVING):
            self._saved[_key(f)] = module
            self.touch(f)

    def saved(self, f: Any) -> Any:
        return self._saved.get(_key(f))

    def place(self, f: Any) -> Any:
        return self._overlay.readable(f)

    def touch(self, f: Any) -> None:
        """A file that is there, and holds nothing."""
        if is_path(f):
            with open(self._overlay.writable(f), "wb"):
                pass

    def load(self, f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        module = self.saved(f)
        if module is None:
            return self._read(self.place(f), map_location, *args, **kwargs)
        copied = copy.deepcopy(module)
        return copied if map_location is None or not _is_module(copied) else copied.to(map_location)

    def _read(self, f: Any, map_location: Any, *args: Any, **kwargs: Any) -> Any:
        """A file of a real run, without its values: PyTorch moves no weights that it read to tensors without memory."""
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            module = self._load(f, "meta", *args, **kwargs)
        on_gpu = map_location is not None and is_cuda(map_location)
        # Copied where it is seen.
        with self.places.naming(GPU if on_gpu else HOST):
            return copy.deepcopy(module)


def _traced(files: Files) -> Any:
    def trace(func: Any, example_inputs: Any = None, *_: Any, **settings: Any) -> Any:
        named = settings.get("example_kwarg_inputs")
        inputs = () if example_inputs is None else example_inputs
        given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        with torch.no_grad():
            func(*given, **(named or {}))
        return _saving(func, files)

    return trace


def _traced_methods(files: Files) -> Any:
    def trace_module(module: Any, inputs: dict[str, Any], *_: Any, **__: Any) -> Any:
        for name, example in inputs.items():
            given = example if isinstance(example, tuple) else (example,)
            with torch.no_grad():
                getattr(module, name)(*given)
        return _saving(module, files)

    return trace_module


def _saving(made: Any, files: Files) -> Any:
    """The same parameters in a module of its own, which can be saved as TorchScript."""
    if not _is_module(made) or isinstance(made, torch.jit.ScriptModule):
        return made
    kind = type(made)
    saved = type(kind.__name__, (kind,), {"save": lambda self, f, **_: files.save(self, f)})
    like = copy.copy(made)
    like.__class__ = saved
    return like


def _exported(files: Files) -> Any:
    def export(model: Any, args: Any = (), f: Any = None, *_: Any, **settings: Any) -> None:
        inputs = args if isinstance(args, tuple) else (args,)
        named = dict(settings.get("kwargs") or {})
        if inputs and isinstance(inputs[-1], dict):
            named.update(inputs[-1])
            inputs = inputs[:-1]
        with torch.no_grad():
            model(*inputs, **named)
        if f is not None:
            files.touch(f)

    return export


def _is_module(value: Any) -> bool:
    return isinstance(value, torch.nn.Module)


def _key(f: Any) -> Any:
    return os.path.abspath(f) if is_path(f) else id(f)


# `torch.export` of a program: PyTorch's own, on tensors without memory, as it works on a real GPU as well.
#
# A model that it cannot export here, because its code names devices or looks at values, is run as it is.

_CALLS = ("export", "export_for_training")


def install_exporting(patches: Patches, files: Files) -> None:
    when_imported("torch.export", lambda module: _install(patches, files, module))


def _install(patches: Patches, files: Files, module: Any) -> None:
    for name in _CALLS:
        if hasattr(module, name):
            patches.set(module, name, _exporting(getattr(module, name), files.places))
    load = module.load

    def loaded(f: Any, **settings: Any) -> Any:
        saved = files.saved(f)
        return copy.deepcopy(saved) if saved is not None else load(files.place(f), **settings)

    patches.set(module, "save", lambda program, f, **_: files.save(program, f))
    patches.set(module, "load", loaded)


class Exported:
    """The model itself, with what an exported program is asked for."""

    def __init__(self, module: Any) -> None:
        self._module = self.graph_module = module

    def module(self) -> Any:
        return self._module

    @property
    def state_dict(self) -> Any:
        return self._module.state_dict()

    def run_decompositions(self, *_: Any, **__: Any) -> Exported:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_module":
            raise AttributeError(name)
        return getattr(self._module, name)


def _exporting(export: Any, places: Places) -> Any:
    def exported(mod: Any, args: Any = (), kwargs: Any = None, **settings: Any) -> Any:
        bare = functools.partial(_bare, places)
        # Modes that pretend a GPU would be met by those that PyTorch follows a model with.
        with _disable_current_modes(), torch._C.DisableTorchFunction(), _bare_buffers(mod, bare):
            try:
                given, named = trees.tree_map_only(torch.Tensor, bare, (args, kwargs))
                return export(mod, given, named, **settings)
            except Exception:
                return Exported(mod)

    return exported


def _bare(places: Places, tensor: Any) -> Any:
    """Without memory, as the weights of the model are."""
    if tensor.is_meta:
        return tensor
    bare = tensor.detach().to("meta")
    places.remember(bare.untyped_storage(), HOST)
    return bare


@contextmanager
def _bare_buffers(module: Any, bare: Any) -> Iterator[None]:
    """PyTorch exports models that lie on one device."""
    held = [
        (one, name, buffer)
        for one in module.modules()
        for name, buffer in one._buffers.items()
        if buffer is not None
    ]
    for one, name, buffer in held:
        one._buffers[name] = bare(buffer)
    try:
        yield
    finally:
        for one, name, buffer in held:
            one._buffers[name] = buffer


# Quantized models (`torch.ao.quantization`): they run in host memory, with values.
#
# What is converted gets plausible values first: the weights of a model have none.

_QUANTIZING_CALLS = {
    "torch.ao.quantization": ("convert", "quantize_dynamic"),
    "torch.ao.quantization.quantize": ("convert", "quantize_dynamic"),
    "torch.ao.quantization.quantize_fx": ("convert_fx", "convert_to_reference_fx"),
}


def install_quantizing(patches: Patches, places: Places, observer: Any) -> None:
    for module, names in _QUANTIZING_CALLS.items():
        when_imported(module, _replacing(patches, places, observer, names))


def _replacing(
    patches: Patches, places: Places, observer: Any, names: tuple[str, ...]
) -> Callable[[Any], None]:
    def replace(module: Any) -> None:
        for name in names:
            patches.set(module, name, _converting(getattr(module, name), places, observer))

    return replace


def _converting(convert: Any, places: Places, observer: Any) -> Any:
    form = inspect.signature(convert)
    first = next(iter(form.parameters))

    def converted(*args: Any, **kwargs: Any) -> Any:
        bound = form.bind(*args, **kwargs)
        if not bound.arguments.get("inplace"):
            bound.arguments[first] = copy.deepcopy(bound.arguments[first])
        with keeping_values():
            _give_values(bound.arguments[first], places, observer)
            return convert(*bound.args, **bound.kwargs)

    return converted


def _give_values(model: Any, places: Places, observer: Any) -> None:
    for module in model.modules():
        for kind in (module._parameters, module._buffers):
            for name, tensor in kind.items():
                if tensor is not None and places.where(tensor) == HOST:
                    kind[name] = _with_values(tensor, observer)
        lowest, highest = (module._buffers.get(name) for name in ("min_val", "max_val"))
        if lowest is not None and highest is not None and lowest.shape == highest.shape:
            # The range that an observer has seen.
            module._buffers["max_val"] = torch.maximum(highest, lowest + 1)


def _with_values(tensor: Any, observer: Any) -> Any:
    held = values.plausible(tensor, observer)
    if not isinstance(tensor, torch.nn.Parameter):
        return held
    return torch.nn.Parameter(held, requires_grad=tensor.requires_grad)
