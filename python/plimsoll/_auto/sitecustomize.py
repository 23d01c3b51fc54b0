"""Found by every Python that `plimsoll run` starts, through PYTHONPATH. Waits for torch and for trainers.

Until they are imported it costs one entry in sys.meta_path. It never raises into the program, and it passes on to
the sitecustomize that would have been found without it.
"""

import os
import sys
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))


def _pass_on() -> None:
    """Runs the sitecustomize that this one hides."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    mine = sys.modules.get("sitecustomize")
    sys.modules["sitecustomize"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if mine is not None:
            sys.modules["sitecustomize"] = mine
        raise


_BRIDGE = ("plimsoll.bridge.auto", "start")
# What is done once a module was imported: (module of ours, its function) of each.
_SPILL = ("plimsoll.spilling.spill", "install")
_AFTER = {"torch": [_BRIDGE, _SPILL]}
_TRAINERS = {
    "torch": [
        _BRIDGE,
        _SPILL,
        ("plimsoll.trainers.loops", "install"),
        ("plimsoll.trainers.after_failure", "install"),
    ],
    "transformers.modeling_utils": [("plimsoll.optimizing.in_loops", "install")],
    "transformers.trainer": [("plimsoll.trainers.hugging_face", "install")],
    "transformers.generation.utils": [("plimsoll.trainers.generation", "install")],
}
for _package in ("lightning.pytorch", "pytorch_lightning"):
    _ours = "plimsoll.trainers.lightning"
    _TRAINERS |= {
        f"{_package}.loops.optimization.automatic": [(_ours, "install")],
        f"{_package}.loops.optimization.manual": [(_ours, "install_manual")],
        f"{_package}.strategies.strategy": [(_ours, "install_evaluation")],
    }


class _WaitForImports:
    """Stands in front of the finders for a few names, and acts when one of them was imported."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if name not in _AFTER:
            return None
        spec = _found_by_others(name, path, target)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        acts = _AFTER.pop(name)
        real = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            real(module)
            for act in acts:
                _start(act, module)

        try:
            spec.loader.exec_module = exec_module
        except AttributeError:
            # A loader that cannot be changed: the module is imported as if we were not there.
            pass
        return spec


def _found_by_others(name: str, path: Any, target: Any) -> Any:
    for finder in list(sys.meta_path):
        if finder is _WaitForImports or not hasattr(finder, "find_spec"):
            continue
        spec = finder.find_spec(name, path, target)
        if spec is not None:
            return spec
    return None


def _start(act: "tuple[str, str]", module: Any) -> None:
    try:
        root = os.path.dirname(os.path.dirname(_HERE))
        if root not in sys.path:
            sys.path.append(root)
        from importlib import import_module

        getattr(import_module(act[0]), act[1])(module)
    except Exception as error:
        if os.environ.get("PLIMSOLL_DEBUG"):
            print(f"plimsoll: {act[0]} did not start: {error!r}", file=sys.stderr)


if os.environ.get("PLIMSOLL_BRIDGE") or os.environ.get("PLIMSOLL_MEMORY_BYTES"):
    if os.environ.get("PLIMSOLL_TRAINERS") != "0":
        _AFTER.update(_TRAINERS)
    sys.meta_path.insert(0, _WaitForImports)
_pass_on()
