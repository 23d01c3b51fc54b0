"""`torch.export` of a program: PyTorch's own, on tensors without memory, as it works on a real GPU as well.

A model that it cannot export here, because its code names devices or looks at values, is run as it is.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.utils._pytree as trees
from torch.utils._python_dispatch import _disable_current_modes

from ...standins.imports import when_imported
from ...standins.patches import Patches
from ..places import HOST, Places
from .scripting import Files

_CALLS = ("export", "export_for_training")


def install(patches: Patches, files: Files) -> None:
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
