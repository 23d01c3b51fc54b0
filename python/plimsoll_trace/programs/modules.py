"""Python modules that a program writes and then imports, as libraries do with code that comes with a model.

What it writes lies in the trace's own folder, where Python's import would not look.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from typing import Any

from ..standins.patches import Patches
from .files.overlay import Overlay


def install(patches: Patches, overlay: Overlay) -> None:
    # In front: a module that the program wrote is taken before an older one of the same name.
    patches.set(sys, "meta_path", [_Written(overlay), *sys.meta_path])


class _Written:
    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        folders = [e or "." for e in (sys.path if path is None else path) if isinstance(e, str)]
        written = [self._overlay.path(folder) for folder in folders if self._overlay.holds(folder)]
        if not written:
            return None
        spec: Any = PathFinder.find_spec(name, written, target)
        # Without a loader it is a folder only, which the program's own import finds as well.
        if spec is None or spec.loader is None:
            return None
        places = spec.submodule_search_locations
        if places is not None:
            # Not all of a package has to be new.
            originals = [self._overlay.original(place) for place in places]
            places.extend(place for place in originals if place and os.path.isdir(place))
        return spec
