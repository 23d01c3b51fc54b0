"""Imports for one trace in a process of its own: fewer where that is safe, all of them where it failed."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import operator
import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, reduce
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Callable

from plimsoll.failure import Failure

from ..standins.imports import when_imported

# A module that stands in for a slow one, and gives way to it when more is asked of it.


class Substitute(ModuleType):
    """Has the few names that a trace uses; any other name imports the real module, which then takes over."""

    def __init__(self, name: str, names: dict[str, Any] | None = None, is_package: bool = False):
        super().__init__(name)
        self.__dict__.update(names or {})
        self.__spec__ = ModuleSpec(name, None)
        self._is_package = is_package

    def __getattr__(self, name: str) -> Any:
        # Tools look at every module for its file and the like; only a submodule needs a package's path.
        if name.startswith("__") and not (name == "__path__" and self._is_package):
            raise AttributeError(name)
        if self._is_file(name):
            return importlib.import_module(f"{self.__name__}.{name}")
        return getattr(self.real(), name)

    def _is_file(self, name: str) -> bool:
        """Whether a package that was given its folder has such a part: `from . import part` needs no more."""
        return any(
            os.path.exists(os.path.join(folder, part))
            for folder in self.__dict__.get("__path__", ())
            for part in (name, f"{name}.py")
        )

    def real(self) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return importlib.import_module(self.__name__)

    def defer(self, *names: str) -> Substitute:
        """Functions and classes that need the real module only when they are called."""
        for name in names:
            self.__dict__[name] = lambda *args, name=name, **kwargs: getattr(self.real(), name)(
                *args, **kwargs
            )
        return self

    def place(self) -> None:
        """Takes the module's place, unless it is imported already."""
        sys.modules.setdefault(self.__name__, self)


# Parts of torch that serve its compiler alone: `torch.export`, `torch._dynamo`, and SymPy's shapes.
#
# The trace never compiles. Without a compiler at work, dynamo's decorators return what they are given,
# and questions about symbolic shapes are asked about plain numbers.

_SHAPES = "torch.fx.experimental.symbolic_shapes"


def substitute_torch_parts() -> None:
    for part in (
        Substitute("torch.export", is_package=True),
        _dynamo(),
        *compiler_parts(),
        symbolic_shapes(),
        # Asked for one class, to know that a number is not an expression.
        Substitute("sympy", {"Basic": type("Basic", (), {})}, is_package=True),
    ):
        part.place()


def compiler_parts() -> tuple[Substitute, ...]:
    """What torchvision and transformers ask for as they are imported, and use for some kinds of masks and boxes."""
    return (
        Substitute("torch._dynamo.utils").defer("is_compile_supported"),
        Substitute("torch._dynamo._trace_wrapped_higher_order_op").defer("TransformGetItemToIndex"),
    )


def _dynamo() -> Substitute:
    def as_given(function: Any = None, *_args: Any, **_settings: Any) -> Any:
        return (lambda given: given) if function is None else function

    return Substitute(
        "torch._dynamo",
        {
            "disable": as_given,
            "allow_in_graph": as_given,
            "assume_constant_result": as_given,
            "graph_break": lambda *_args, **_settings: None,
        },
        is_package=True,
    )


def symbolic_shapes() -> Substitute:
    """Each answer for plain booleans and numbers; anything else is passed to the real function."""
    shapes = Substitute(_SHAPES)

    def passed_on(name: str, plain: Callable[..., Any], *types: type) -> Callable[..., Any]:
        def answer(first: Any, *others: Any, **settings: Any) -> Any:
            if (
                type(first) in types
                and all(type(other) in types for other in others)
                and not settings
            ):
                return plain(first, *others)
            return getattr(shapes.real(), name)(first, *others, **settings)

        return answer

    def same(value: Any) -> Any:
        return value

    def joined(operation: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        return lambda *values: reduce(operation, values)

    answers: dict[str, tuple[Callable[..., Any], tuple[type, ...]]] = {
        **dict.fromkeys(
            ("guard_or_false", "guard_or_true", "guard_size_oblivious", "statically_known_true"),
            (same, (bool,)),
        ),
        "expect_true": (same, (bool,)),
        "size_hint": (same, (int,)),
        "has_hint": (lambda _value: True, (int, float, bool)),
        "is_nested_int": (lambda _value: False, (int,)),
        "sym_and": (joined(operator.and_), (bool,)),
        "sym_or": (joined(operator.or_), (bool,)),
    }
    for name, (plain, types) in answers.items():
        shapes.__dict__[name] = passed_on(name, plain, *types)
    shapes.__dict__["sym_eq"] = partial(_equal_shapes, shapes)
    return shapes


def _equal_shapes(shapes: Substitute, first: Any, second: Any) -> Any:
    pair = (first, second)
    if all(type(one) is int for one in pair):
        return first == second
    if all(isinstance(one, (tuple, list)) and all(type(n) is int for n in one) for one in pair):
        return tuple(first) == tuple(second)
    return shapes.real().sym_eq(first, second)


# transformers without its table of all models, and without what serves clusters and hubs alone.
#
# `import transformers` reads the source of every model to know which file has which class. The file of
# one model needs none of that: a plain package leads to it, and the whole is imported as soon as a name
# is asked for that the package does not have.

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


def substitute_transformers_parts() -> None:
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


# Ops of PyTorch say in Python what their hash is, and a trace looks each of them up some twenty times when it runs.
#
# There is one object for each op, so where that lies does as well, and Python tells it without calling anything.


def hash_by_place() -> None:
    """Before torch is imported: what is in a table by one hash is not found by another."""
    if "torch" not in sys.modules:
        when_imported("torch._ops", _install)


def _install(ops: Any) -> None:
    op = getattr(ops, "OpOverload", None)
    if op is not None and op.__eq__ is object.__eq__:
        op.__hash__ = object.__hash__


# Set for the second try, which imports everything.
_ALL = "PLIMSOLL_ALL_IMPORTS"
# Facts about a file, which stay the same however much is imported.
_ABOUT_THE_FILE = frozenset(
    ("config-unreadable", "config-not-json", "config-too-large", "config-no-model-type")
)


@contextmanager
def fewer_imports(options: Namespace) -> Iterator[None]:
    """While entered, torch may be imported; what fails runs once more with all imports.

    A script is the user's own code and may want anything, so it always gets everything; so does
    sharding, which needs most of torch.
    """
    if options.script or options.parallel or os.environ.get(_ALL) or os.name == "nt":
        yield
        return
    substitute_torch_parts()
    if options.config:
        substitute_transformers_parts()
    try:
        yield
    except Exception as error:
        if isinstance(error, Failure) and error.code in _ABOUT_THE_FILE:
            raise
        os.environ[_ALL] = "1"
        sys.stdout.flush()
        sys.stderr.flush()
        # Python 3.9 does not keep how it was called.
        again = [sys.executable, "-m", "plimsoll_trace", *sys.argv[1:]]
        os.execv(sys.executable, getattr(sys, "orig_argv", again))


@contextmanager
def uncollected() -> Iterator[None]:
    """Imports make much and throw away little; looking for garbage meanwhile takes a tenth of their time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
