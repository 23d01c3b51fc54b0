"""transformers without its table of all models, and without what serves clusters and hubs alone.

`import transformers` reads the source of every model to know which file has which class. The file of
one model needs none of that: a plain package leads to it, and the whole is imported as soon as a name
is asked for that the package does not have.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from .substitute import Substitute

# transformers does without these where they are not installed; no model needs them to be built and run.
_LEFT_OUT = frozenset(("accelerate", "jinja2", "torchvision"))
_WHOLE = "direct_transformers_import"
_VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)


class _Package(Substitute):
    """Finds a class in the families that are imported already, before it imports the whole."""

    def __getattr__(self, name: str) -> Any:
        if name[:1].isupper():
            for module, family in list(sys.modules.items()):
                if module.startswith("transformers.models.") and module.count(".") == 2:
                    found = getattr(family, name, None)
                    if found is not None:
                        return found
        return super().__getattr__(name)


def substitute() -> None:
    spec = importlib.util.find_spec("transformers")
    if spec is None or not spec.origin or "transformers" in sys.modules:
        return
    with open(spec.origin, encoding="utf-8") as file:
        version = _VERSION.search(file.read())
    folder = os.path.dirname(spec.origin)
    if version is None or not os.path.isdir(os.path.join(folder, "models")):
        return
    whole = {"__version__": version[1], "__path__": [folder], "__file__": spec.origin}
    _Package("transformers", whole).place()
    models = os.path.join(folder, "models")
    Substitute("transformers.models", {"__path__": [models]}).place()
    weights = "modeling_gguf_pytorch_utils"
    if os.path.exists(os.path.join(folder, weights + ".py")):
        Substitute(f"transformers.{weights}").defer("load_gguf_checkpoint").place()


def import_models() -> None:
    """What every model of transformers imports, as on a machine without clusters and the packages left out."""
    if not isinstance(sys.modules.get("transformers"), _Package):
        return
    import torch

    with ExitStack() as changes:
        changes.enter_context(_replaced(torch.distributed, "is_available", lambda: False))
        changes.enter_context(_hidden(_LEFT_OUT))
        utils = importlib.import_module("transformers.utils")
        if hasattr(utils, _WHOLE):
            # Imports the whole package again, for names that are looked up in it later.
            changes.enter_context(_replaced(utils, _WHOLE, lambda *_: sys.modules["transformers"]))
        importlib.import_module("transformers.modeling_utils")
        importlib.import_module("transformers.modeling_layers")


@contextmanager
def _hidden(packages: frozenset[str]) -> Iterator[None]:
    find = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> Any:
        return None if name in packages else find(name, package)

    with _replaced(importlib.util, "find_spec", find_spec):
        yield


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
