"""Folders that a trace makes where the program wants them, for libraries that write there without Python.

They have a mark, by which other traces that run at the same time know that they are not there for them. The
last one to end removes those in which nothing is. Where the file system keeps no marks, a trace sees the
folders of others. Processes that the program starts write theirs into a list, for the trace to remove.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

# Python's own: while a trace runs they are replaced.
_MKDIR, _RMDIR, _SCANDIR, _OPEN = os.mkdir, os.rmdir, os.scandir, open
_SET, _GET = getattr(os, "setxattr", None), getattr(os, "getxattr", None)
_MARK = "user.plimsoll.trace"


class MadeFolders:
    def __init__(self, of_children: str, owner: int | None = None) -> None:
        """`owner` is the process that removes them."""
        self._made: list[str] = []
        self._of_children = of_children
        self.owner = os.getpid() if owner is None else owner

    def make(self, folder: str, mode: int = 0o777) -> None:
        """Another trace may have made it meanwhile, or removed those around it."""
        try:
            _MKDIR(folder, mode)
        except FileNotFoundError:
            self.make(os.path.dirname(folder))
            _MKDIR(folder, mode)
        except FileExistsError:
            if _is_marked(folder):
                self._note(folder)
            return
        self._note(folder)
        with suppress(OSError):
            if _SET is not None:
                _SET(folder, _MARK, b"")

    def _note(self, folder: str) -> None:
        self._made.append(folder)
        if os.getpid() != self.owner:
            with _OPEN(self._of_children, "a", encoding="utf-8") as file:
                file.write(json.dumps(folder) + "\n")

    def has(self, folder: str) -> bool:
        return folder in self._made

    def take_over(self) -> None:
        """Those that other processes of the program made."""
        with suppress(OSError):
            with _OPEN(self._of_children, encoding="utf-8") as file:
                self._made += [json.loads(line) for line in file]

    def remove(self, folder: str = "/") -> None:
        """It and those in it; where something lies in one, the program or another one put it there."""
        inside = os.path.join(folder, "")
        gone = {made for made in self._made if os.path.join(made, "").startswith(inside)}
        for made in sorted(gone, key=len, reverse=True):
            with suppress(OSError):
                _RMDIR(made)
                self._made = [other for other in self._made if other != made]


def is_of_traces(folder: str) -> bool:
    """Whether a trace made it, and nothing else than such folders lies in it.

    A trace that was killed leaves its folders: what a real run writes there later is the user's.
    """
    if not _is_marked(folder):
        return False
    try:
        with _SCANDIR(folder) as entries:
            return all(entry.is_dir() and is_of_traces(entry.path) for entry in entries)
    except OSError:
        return False


def _is_marked(path: str) -> bool:
    try:
        return _GET is not None and _GET(path, _MARK) is not None
    except OSError:
        return False
