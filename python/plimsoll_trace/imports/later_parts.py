"""Parts of libraries that a program imports and hardly ever uses: imported once something is asked of them.

An optimizer asks PyTorch's compiler to break a graph before each step, and transformers marks two functions for it:
without a compiler at work neither does anything, but loading it takes a second. The Trainer of transformers loads
`datasets`, and with it pandas, and `peft` to ask whether something is one of their classes; PyTorch loads SymPy to ask
whether a number is an expression.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from types import FunctionType
from typing import Any

from ..standins.imports import before_import, when_imported
from ..standins.patches import Patches
from .fewer import Substitute, compiler_parts, symbolic_shapes

_COMPILER = "torch._dynamo"
# It asks for the compiler each time that a function is called first which must not be compiled.
_MARKS = "torch._compile"
_DECORATOR = "torch.compiler"
_MARK = "__dynamo_disable"
_COMPILED_MODEL = "OptimizedModule"
_TRAINERS = ("transformers.trainer", "transformers.trainer_seq2seq")
_DATA_SETS = ("Dataset", "IterableDataset")
# The first of them is imported before the others.
_ASK_FOR_ADAPTERS = (
    "transformers.trainer_utils",
    "transformers.trainer",
    "accelerate.utils.modeling",
)
_ADAPTERS = ("PeftModel", "PeftMixedModel")
_TABLES = "transformers.utils.import_utils"


class _Compiler(Substitute):
    """Keeps what was marked for it, and marks it once it is there."""

    def __init__(self) -> None:
        super().__init__(_COMPILER, is_package=True)
        # Functions of torch's that ask for a mark at their first call.
        self._asked: list[Any] = []
        # What is to be done with the compiler.
        self._later: list[Callable[[Any], None]] = []
        self._names = {
            "graph_break": lambda *_args, **_named: None,
            "disable": self._disable,
            "allow_in_graph": self._allow_in_graph,
            "assume_constant_result": _assume_constant_result,
            "eval_frame": _Models(self),
        }
        self.__dict__.update(self._names)

    def _disable(self, function: Any = None, recursive: bool = True, **named: Any) -> Any:
        asks = sys._getframe(1).f_globals.get("__name__")
        if asks == _MARKS:
            self._asked.append(function)
            return function
        if asks != _DECORATOR:
            return self.real().disable(function, recursive, **named)
        marked = partial(self._disabled, recursive=recursive, named=named)
        return marked if function is None else marked(function)

    def _disabled(self, function: Any, recursive: bool, named: dict) -> Any:
        """The function with the marks that the compiler goes by; with a compiler it runs as that has it."""
        if type(function) is not FunctionType:
            return self.real().disable(function, recursive, **named)
        runs = [function]

        def takes_over(module: Any) -> None:
            runs[0] = module.disable(function, recursive, **named)

        @wraps(function)
        def disabled(*args: Any, **kwargs: Any) -> Any:
            return runs[0](*args, **kwargs)

        marks = {
            "_torchdynamo_disable": True,
            "_torchdynamo_disable_recursive": recursive,
            "_torchdynamo_disable_msg": named.get("reason"),
            "_torchdynamo_orig_callable": function,
            "_torchdynamo_wrapper_id": id(disabled),
        }
        disabled.__dict__.update(marks)
        self._later.append(takes_over)
        return disabled

    def _allow_in_graph(self, function: Any) -> Any:
        if not callable(function):
            return self.real().allow_in_graph(function)
        self._later.append(lambda module: module.allow_in_graph(function))
        return function

    def real(self) -> Any:
        module = super().real()
        self.forget()
        for name in self._names:
            # Where this is still held, the compiler answers.
            self.__dict__.pop(name, None)
        later, self._later = self._later, []
        for action in later:
            action(module)
        return module

    def forget(self) -> None:
        """Functions of torch's ask again."""
        for function in self._asked:
            function.__dict__.pop(_MARK, None)
        self._asked = []


class _Models:
    """accelerate asks whether a model is a compiled one: without the compiler none is."""

    def __init__(self, compiler: _Compiler) -> None:
        self._compiler = compiler
        self._compiled_model = type(_COMPILED_MODEL, (), {})

    def __getattr__(self, name: str) -> Any:
        if name == _COMPILED_MODEL and sys.modules.get(_COMPILER) is self._compiler:
            return self._compiled_model
        return getattr(self._compiler.real().eval_frame, name)


def _assume_constant_result(function: Any) -> Any:
    function._dynamo_marked_constant = True
    return function


class _Classes(Substitute):
    """A package whose classes some modules only hold things against: until it is imported, nothing is one of them."""

    def __init__(self, name: str, classes: tuple[str, ...], asking: tuple[str, ...]) -> None:
        super().__init__(name, is_package=True)
        self._classes = {one: type(one, (), {}) for one in classes}
        self._asking = asking

    def __getattr__(self, name: str) -> Any:
        waits = sys.modules.get(self.__name__, self) is self
        if waits and sys._getframe(1).f_globals.get("__name__") in self.__dict__["_asking"]:
            if name in self._classes:
                return self._classes[name]
            if name == "__path__":
                # `from package import Class` would look for a file of that name.
                raise AttributeError(name)
        return super().__getattr__(name)

    def real(self) -> Any:
        waits = sys.modules.get(self.__name__) is self
        module = super().real()
        if waits:
            self._give_way(module)
        return module

    def _give_way(self, module: Any) -> None:
        """Where this or its classes are held, the package and its own are: PyTorch's compiler asks without end."""
        for holder in list(sys.modules.values()):
            held = getattr(holder, "__dict__", {})
            if held.get(self.__name__) is self:
                held[self.__name__] = module
        for asking in self._asking:
            held = vars(sys.modules.get(asking, self))
            for name, kind in self._classes.items():
                # `from package import Class` was run before.
                if held.get(name) is kind:
                    held[name] = getattr(module, name)


@contextmanager
def imported_later(patches: Patches) -> Iterator[None]:
    """While entered, these parts wait until something is asked of them."""
    compiler = _Compiler()
    parts: list[Substitute] = [compiler, *compiler_parts(), symbolic_shapes()]
    for part in parts:
        part.place()

    def classes_of(name: str, classes: tuple[str, ...], asking: tuple[str, ...]) -> None:
        # A program may have a module of this name, which no library asks for.
        if name not in sys.modules and _is_installed(name):
            parts.append(_Classes(name, classes, asking))
            parts[-1].place()

    classes_of("sympy", ("Basic",), ("torch._prims_common",))
    # Named where strides are looked at, and not used.
    classes_of("torch.utils._sympy.functions", ("Max",), ("torch._prims_common",))
    for name in _TRAINERS:
        before_import(name, lambda: classes_of("datasets", _DATA_SETS, _TRAINERS))
    before_import(_ASK_FOR_ADAPTERS[0], lambda: classes_of("peft", _ADAPTERS, _ASK_FOR_ADAPTERS))
    when_imported(_TABLES, lambda module: _read_tables_once(patches, module))
    try:
        yield
    finally:
        compiler.forget()
        for part in parts:
            if sys.modules.get(part.__name__) is part:
                del sys.modules[part.__name__]


def _is_installed(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    folders = {"site-packages", "dist-packages"}
    return spec is not None and not folders.isdisjoint((spec.origin or "").split(os.sep))


def _read_tables_once(patches: Patches, module: Any) -> None:
    """transformers reads the sources of all its models, to know which file has which class, for two packages."""
    read = getattr(module, "define_import_structure", None)
    if read is None:
        return

    def define_import_structure(module_path: Any, prefix: str | None = None) -> Any:
        path = os.fspath(module_path)
        table = read(os.path.dirname(path) if os.path.isfile(path) else path)
        if prefix is None:
            return table
        return {
            needs: {f"{prefix}.{name}": found for name, found in files.items()}
            for needs, files in table.items()
        }

    patches.set(module, "define_import_structure", define_import_structure)
