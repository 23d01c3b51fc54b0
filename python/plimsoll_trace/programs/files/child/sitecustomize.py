"""Python imports this by its name when it starts: the process then sees the files of the trace."""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_HERE = os.path.dirname(os.path.abspath(__file__))


def _package():
    """The folder in which the package lies."""
    folder = _HERE
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder = os.path.dirname(folder)
    return folder


def _share_files():
    sys.path.insert(0, _package())
    try:
        from plimsoll_trace.programs.files.started import share_files

        share_files(os.environ)
    except Exception:
        # Another version of Python: the process runs as it would without a trace.
        pass
    finally:
        sys.path.remove(_package())


def _next_of_this_name():
    """The one of the user's own, which this one stands in front of."""
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


sys.path[:] = [place for place in sys.path if os.path.abspath(place or ".") != _HERE]
_share_files()
_next_of_this_name()
