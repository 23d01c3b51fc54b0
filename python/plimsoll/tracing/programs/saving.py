"""What a program saves goes to a folder of the trace's own, which ends with it.

Files opened for writing are opened there instead, under the same path, and are found there again when
the program reads them. Folders that it makes are removed at the end where nothing is in them.
"""

from __future__ import annotations

import builtins
import io
import os
import shutil
import stat
from contextlib import nullcontext, suppress
from typing import Any

import torch

from ..standins.holes import holes
from ..standins.patches import Patches
from .watch import SAVING, Watch

_WRITES = frozenset("wxa+")
# The one of this machine: a program's own may ask about files that lie elsewhere.
_STAT = os.stat


class Overlay:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._made: list[str] = []
        # Folders whose files are written where they are.
        self._left_alone = [folder]
        # Whether anything was written at all; until then nothing needs to be looked up.
        self._used = False
        self._open = builtins.open
        self._mkdir = os.mkdir

    def leave_alone(self, folder: Any) -> None:
        """For caches that libraries read by other means than Python's `open`."""
        self._left_alone.append(os.path.join(os.path.abspath(os.fsdecode(folder)), ""))

    def path(self, name: Any) -> str:
        whole = os.path.abspath(os.fspath(name))
        if isinstance(whole, bytes):
            whole = os.fsdecode(whole)
        return os.path.join(self._folder, whole.lstrip("/").replace(":", "_"))

    def holds(self, name: Any) -> bool:
        return self._used and _is_path(name) and _exists(self.path(name))

    def writable(self, name: Any, keep: bool = False) -> Any:
        """Where a file is written instead; what is no plain file (a terminal, a null device) stays."""
        if not _is_path(name) or _is_special(name) or self._inside(name):
            return name
        self._used = True
        target = self.path(name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if keep and not _exists(target) and _exists(name):
            shutil.copyfile(name, target)
        return target

    def readable(self, name: Any) -> Any:
        return self.path(name) if self.holds(name) else name

    def original(self, path: str) -> str | None:
        """The path under which a program wrote what lies in the trace's own folder; None for others."""
        inside = os.path.join(self._folder, "")
        return os.path.join("/", path[len(inside) :]) if path.startswith(inside) else None

    def install(self, patches: Patches) -> None:
        make, list_made = self._mkdir, self._made

        def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if isinstance(mode, str) and _WRITES & set(mode):
                file = self.writable(file, keep=("a" in mode or "+" in mode) and "w" not in mode)
            else:
                file = self.readable(file)
            return self._open(file, mode, *args, **kwargs)

        def mkdir(path: Any, *args: Any, **kwargs: Any) -> None:
            make(path, *args, **kwargs)
            if _is_path(path) and not self._inside(path):
                list_made.append(os.path.abspath(os.fspath(path)))

        patches.set(builtins, "open", opened)
        patches.set(io, "open", opened)
        patches.set(os, "mkdir", mkdir)
        for name in ("exists", "isfile", "getsize"):
            self._questions(patches, os.path, name)
        for name in ("stat", "lstat", "access", "chmod", "utime", "listxattr", "getxattr"):
            if hasattr(os, name):
                self._questions(patches, os, name)
        self._listings(patches)
        for name in ("remove", "unlink", "rmdir"):
            self._removals(patches, name)
        self._removals_of_trees(patches)
        for name in ("rename", "replace", "link"):
            self._moves(patches, name)
        self._symbolic_links(patches)

    def _questions(self, patches: Patches, module: Any, name: str) -> None:
        ask = getattr(module, name)
        patches.set(
            module, name, lambda path, *args, **kwargs: ask(self.readable(path), *args, **kwargs)
        )

    def _listings(self, patches: Patches) -> None:
        names, entries = os.listdir, os.scandir

        def listdir(path: Any = ".") -> list[Any]:
            more = names(self.path(path)) if self.holds(path) else []
            return list(dict.fromkeys([*names(path), *more]))

        def scandir(path: Any = ".") -> Any:
            more = entries(self.path(path)) if self.holds(path) else ()
            return _Entries([*entries(path), *more])

        patches.set(os, "listdir", listdir)
        patches.set(os, "scandir", scandir)

    def _removals(self, patches: Patches, name: str) -> None:
        remove = getattr(os, name)

        def removed(path: Any, *args: Any, **kwargs: Any) -> None:
            folder = kwargs.get("dir_fd")
            if folder is not None:
                # Relative to a folder that was opened: only the removal of a whole tree does so.
                if self._inside(_opened(folder)):
                    remove(path, *args, **kwargs)
                return
            target = self.readable(path)
            if target is not path or self._inside(path) or name == "rmdir":
                remove(target, *args, **kwargs)

        patches.set(os, name, removed)

    def _removals_of_trees(self, patches: Patches) -> None:
        """It looks at a folder through Python, and opens it without: those would be two folders here."""
        remove, remove_tree = os.rmdir, shutil.rmtree

        def rmtree(path: Any, *args: Any, **kwargs: Any) -> None:
            if kwargs.get("dir_fd") is not None or not self.holds(path):
                remove_tree(path, *args, **kwargs)
                return
            remove_tree(self.path(path), *args, **kwargs)
            whole = os.path.abspath(os.fsdecode(path))
            # Of what really lies there only folders that the program made.
            for made in reversed(self._made):
                if os.path.join(made, "").startswith(os.path.join(whole, "")):
                    with suppress(OSError):
                        remove(made)

        patches.set(shutil, "rmtree", rmtree)

    def _moves(self, patches: Patches, name: str) -> None:
        move = getattr(os, name)

        def moved(source: Any, target: Any, *args: Any, **kwargs: Any) -> None:
            if self._inside(source):
                move(source, self.writable(target), *args, **kwargs)
            else:
                move(self.writable(source, keep=True), self.writable(target), *args, **kwargs)

        patches.set(os, name, moved)

    def _symbolic_links(self, patches: Patches) -> None:
        link = os.symlink

        def linked(source: Any, target: Any, *args: Any, **kwargs: Any) -> None:
            if self._inside(target):
                link(source, target, *args, **kwargs)
                return
            # What it names is looked for beside it, and may itself lie here.
            named = os.path.join(os.path.dirname(os.path.abspath(target)), source)
            link(self.readable(named), self.writable(target), *args, **kwargs)

        patches.set(os, "symlink", linked)

    def _inside(self, path: Any) -> bool:
        if not _is_path(path):
            return False
        whole = os.path.join(os.path.abspath(os.fsdecode(path)), "")
        return any(whole.startswith(folder) for folder in self._left_alone)

    def clean(self) -> None:
        for path in reversed(self._made):
            try:
                os.rmdir(path)
            except OSError:
                # Not empty: the program, or another one, put something there.
                continue


class _Entries(list):
    """What `os.scandir` gives, which is closed after use."""

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: Any) -> None:
        return None

    def __next__(self) -> Any:
        if not self:
            raise StopIteration
        return self.pop(0)

    def close(self) -> None:
        self.clear()


def install(patches: Patches, overlay: Overlay, watch: Watch) -> None:
    overlay.install(patches)
    save = torch.save

    def torch_save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        # What is written into memory has no holes.
        with watch.within(SAVING), holes() if _is_path(f) else nullcontext():
            save(obj, overlay.writable(f), *args, **kwargs)

    patches.set(torch, "save", torch_save)


def _is_path(name: Any) -> bool:
    return isinstance(name, (str, bytes, os.PathLike))


def _exists(name: Any) -> bool:
    try:
        _STAT(name)
    except OSError:
        return False
    return True


def _opened(folder: int) -> str:
    """The path of a folder by its number; empty where the system does not tell."""
    try:
        return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), "")
    except OSError:
        return ""


def _is_special(name: Any) -> bool:
    try:
        return not stat.S_ISREG(_STAT(name).st_mode)
    except OSError:
        return False
