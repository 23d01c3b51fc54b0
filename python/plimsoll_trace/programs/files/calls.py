"""Python's calls about files, each asked about what the program is to see."""

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
from typing import Any

from ...standins.patches import Patches
from . import by_number
from .by_number import error_of, place_of
from .overlay import Overlay, is_path

# Python's own: while a trace runs it is replaced.
_READLINK = os.readlink
_QUESTIONS = ("stat", "lstat", "access", "listxattr", "getxattr")
# They change what is said of a file, not what is in it.
_MARKS = ("chmod", "lchmod", "chown", "lchown", "utime", "setxattr", "removexattr")
_MARKS_BY_NUMBER = ("fchmod", "fchown")


def install(patches: Patches, overlay: Overlay) -> None:
    _opening(patches, overlay)
    for name in ("exists", "isfile", "getsize"):
        _question(patches, overlay, os.path, name)
    for name in _QUESTIONS:
        if hasattr(os, name):
            _question(patches, overlay, os, name)
    for name in (*_MARKS, *_MARKS_BY_NUMBER):
        if hasattr(os, name):
            _mark(patches, overlay, name)
    _special_files(patches, overlay)
    _folders(patches, overlay)
    for name in ("remove", "unlink"):
        _removal(patches, overlay, name)
    _removals_of_folders(patches, overlay)
    for name in ("rename", "replace"):
        _move(patches, overlay, name)
    _links(patches, overlay)
    by_number.install(patches, overlay)


def _opening(patches: Patches, overlay: Overlay) -> None:
    open_file = builtins.open

    def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        return open_file(place_of(overlay, file, mode), mode, *args, **kwargs)

    patches.set(builtins, "open", opened)
    patches.set(io, "open", opened)
    patches.set_held(open_file, opened)


def _question(patches: Patches, overlay: Overlay, module: Any, name: str) -> None:
    ask, last = getattr(module, name), name != "lstat"

    def asked(path: Any, *args: Any, **kwargs: Any) -> Any:
        follows = last and kwargs.get("follow_symlinks", True)
        return ask(overlay.readable(path, follows), *args, **kwargs)

    patches.set(module, name, asked)


def _mark(patches: Patches, overlay: Overlay, name: str) -> None:
    mark = getattr(os, name)

    def marked(path: Any, *args: Any, **kwargs: Any) -> None:
        # Folders, and files that were opened only to be read, are the real ones: they stay as they are.
        if overlay.leaves_alone(path if is_path(path) else _opened(path)):
            mark(path, *args, **kwargs)
        elif is_path(path) and kwargs.get("dir_fd") is None:
            if not overlay.exists(path):
                raise error_of(errno.ENOENT, path)
            if not os.path.isdir(path):
                mark(overlay.writable(path, keep=True), *args, **kwargs)

    patches.set(os, name, marked)


def _special_files(patches: Patches, overlay: Overlay) -> None:
    for name in ("mkfifo", "mknod"):
        if hasattr(os, name):
            _special_file(patches, overlay, name)


def _special_file(patches: Patches, overlay: Overlay, name: str) -> None:
    make = getattr(os, name)

    def made(path: Any, *args: Any, **kwargs: Any) -> None:
        if overlay.exists(path):
            raise error_of(errno.EEXIST, path)
        make(overlay.writable(path, last=False), *args, **kwargs)

    patches.set(os, name, made)


def _folders(patches: Patches, overlay: Overlay) -> None:
    make = os.mkdir

    def mkdir(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        if not is_path(path) or dir_fd is not None or overlay.leaves_alone(path):
            make(path, mode, dir_fd=dir_fd)
        elif overlay.exists(path):
            raise error_of(errno.EEXIST, path)
        elif not overlay.exists(os.path.dirname(os.path.abspath(path))):
            raise error_of(errno.ENOENT, path)
        else:
            overlay.make(path, mode)

    patches.set(os, "mkdir", mkdir)
    patches.set(os, "listdir", lambda path=".": [entry.name for entry in overlay.listed(path)])
    patches.set(os, "scandir", lambda path=".": _Entries(overlay.listed(path)))


def _removal(patches: Patches, overlay: Overlay, name: str) -> None:
    remove = getattr(os, name)

    def removed(path: Any, *, dir_fd: int | None = None) -> None:
        if dir_fd is not None:
            # Relative to a folder that was opened: only the removal of a whole tree does so.
            if overlay.leaves_alone(_opened(dir_fd)):
                remove(path, dir_fd=dir_fd)
            return
        where = overlay.readable(path, last=False)
        real = where is path and is_path(path) and not overlay.leaves_alone(path)
        if not real or os.path.isdir(path) or not overlay.exists(path):
            # What was written; or an error, where nothing is, or a folder.
            remove(where)
        if is_path(path) and not overlay.leaves_alone(path):
            overlay.remove(path)

    patches.set(os, name, removed)


def _removals_of_folders(patches: Patches, overlay: Overlay) -> None:
    """The removal of a tree opens folders without Python: what was written lies in another than what is there."""
    remove, remove_tree = os.rmdir, shutil.rmtree

    def rmdir(path: Any, *, dir_fd: int | None = None) -> None:
        if not is_path(path) or dir_fd is not None or overlay.leaves_alone(path):
            remove(path, dir_fd=dir_fd)
            return
        if not overlay.exists(path):
            raise error_of(errno.ENOENT, path)
        if overlay.listed(path):
            raise error_of(errno.ENOTEMPTY, path)
        if overlay.holds(path):
            remove(overlay.path(path))
        overlay.remove(path)

    def rmtree(path: Any, *args: Any, **kwargs: Any) -> None:
        pretended = is_path(path) and kwargs.get("dir_fd") is None
        if not pretended or overlay.leaves_alone(path) or not overlay.exists(path):
            remove_tree(overlay.readable(path), *args, **kwargs)
            return
        if overlay.holds(path):
            remove_tree(overlay.path(path), *args, **kwargs)
        overlay.remove(path)

    patches.set(os, "rmdir", rmdir)
    patches.set(shutil, "rmtree", rmtree)


def _move(patches: Patches, overlay: Overlay, name: str) -> None:
    move = getattr(os, name)

    def moved(source: Any, target: Any, **kwargs: Any) -> None:
        if overlay.leaves_alone(source):
            move(source, overlay.writable(target, last=False), **kwargs)
        elif os.path.isdir(source):
            overlay.move_folder(source, target, move)
        else:
            place = overlay.writable(source, keep=True, last=False)
            move(place, overlay.writable(target, last=False), **kwargs)
            overlay.move_link(source, target)
            overlay.remove(source)

    patches.set(os, name, moved)


def _links(patches: Patches, overlay: Overlay) -> None:
    link, link_by_name, read = os.link, os.symlink, os.readlink

    def named_by(path: Any, *, dir_fd: int | None = None) -> Any:
        if dir_fd is not None:
            return read(path, dir_fd=dir_fd)
        named = read(overlay.readable(path, last=False))
        return overlay.original(os.fsdecode(named)) or named

    def linked(source: Any, target: Any, **kwargs: Any) -> None:
        if not overlay.leaves_alone(source):
            source = overlay.writable(source, keep=True)
        link(source, overlay.writable(target), **kwargs)

    def linked_by_name(source: Any, target: Any, *args: Any, **kwargs: Any) -> None:
        if overlay.leaves_alone(target):
            link_by_name(source, target, *args, **kwargs)
            return
        # What it names is looked for beside it, and may itself lie here.
        named = os.path.join(os.path.dirname(os.path.abspath(target)), source)
        place = overlay.writable(target, last=False)
        link_by_name(overlay.readable(named), place, *args, **kwargs)
        overlay.link(target, named)

    patches.set(os, "readlink", named_by)
    patches.set(os, "link", linked)
    patches.set(os, "symlink", linked_by_name)


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


def _opened(folder: int) -> str:
    """The path of a folder by its number; empty where the system does not tell."""
    try:
        return os.path.join(_READLINK(f"/proc/self/fd/{folder}"), "")
    except OSError:
        return ""
