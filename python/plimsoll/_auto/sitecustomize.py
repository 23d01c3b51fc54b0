"""Found by every Python that `plimsoll run` starts, through PYTHONPATH. Waits until torch is imported.

Until then it costs one entry in sys.meta_path. It never raises into the program, and it passes on to
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


class _WaitForTorch:
    """Stands in front of the finders for one name, and leaves when it was asked for."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        if _WaitForTorch in sys.meta_path:
            sys.meta_path.remove(_WaitForTorch)
        from importlib.util import find_spec

        spec: Any = find_spec("torch")
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        real = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            real(module)
            _start()

        try:
            spec.loader.exec_module = exec_module
        except AttributeError:
            # A loader that cannot be changed: torch is imported as if we were not there.
            pass
        return spec


def _start() -> None:
    try:
        root = os.path.dirname(os.path.dirname(_HERE))
        if root not in sys.path:
            sys.path.append(root)
        from plimsoll.bridge import auto

        auto.start()
    except Exception as error:
        if os.environ.get("PLIMSOLL_DEBUG"):
            print(f"plimsoll: not reporting: {error!r}", file=sys.stderr)


if os.environ.get("PLIMSOLL_BRIDGE") or os.environ.get("PLIMSOLL_MEMORY_BYTES"):
    sys.meta_path.insert(0, _WaitForTorch)
_pass_on()
