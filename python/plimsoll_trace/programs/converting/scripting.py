"""TorchScript of a program: what is traced, frozen, saved and loaded stays the module that it was made from.

Tensors without memory cannot be written into TorchScript's files, nor compared as `torch.jit.trace` does. The ops
that run are the same. What is exported for other runtimes is run once, as its export does.
"""

from __future__ import annotations

import copy
import os
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ...standins.imports import when_imported
from ...standins.patches import Patches
from ..files.overlay import Overlay, is_path
from ..places import GPU, HOST, Places, is_cuda
from ..watch import SAVING, Watch


def install(patches: Patches, overlay: Overlay, watch: Watch, places: Places) -> Files:
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
