"""What a program writes goes to a folder of the trace's own, which ends with it.

Files are written there under the same path, and found there again when the program reads them. What it
removes stays, but not for the program. Folders that it makes are made in both places.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import sysconfig
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .view import View

# Those of this machine: a program's own may ask about files that lie elsewhere.
_STAT, _LSTAT, _SCANDIR = os.stat, os.lstat, os.scandir
# Python's own files and those of its packages: imports ask about them tens of thousands of times.
_LIBRARIES = tuple(
    {
        os.path.join(sysconfig.get_paths()[name], "")
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
)


# As many as Linux follows.
_MAX_LINKS = 40

# Folders that a trace makes where the program wants them, for libraries that write there without Python.
#
# They have a mark, by which other traces that run at the same time know that they are not there for them. The
# last one to end removes those in which nothing is. Where the file system keeps no marks, a trace sees the
# folders of others. Processes that the program starts write theirs into a list, for the trace to remove.

# Python's own: while a trace runs they are replaced.
_MKDIR, _RMDIR, _ENTRIES, _OPEN = os.mkdir, os.rmdir, os.scandir, open
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
        with _ENTRIES(folder) as entries:
            return all(entry.is_dir() and is_of_traces(entry.path) for entry in entries)
    except OSError:
        return False


def _is_marked(path: str) -> bool:
    try:
        return _GET is not None and _GET(path, _MARK) is not None
    except OSError:
        return False


class Overlay:
    # Whether the kernel keeps the files apart, so that all are where the program says.
    by_kernel = False

    def __init__(self, folder: str, scratch: str | None = None, owner: int | None = None) -> None:
        """`owner` is the process that the trace runs in, where that is not this one."""
        self.base = folder
        self._folder = os.path.join(folder, "files")
        self._made = MadeFolders(os.path.join(folder, "made by others"), owner)
        # What really lies there, but was removed by the program.
        self._removed: set[str] = set()
        # Those that the program made by name, with what they lead to.
        self._links: dict[str, str] = {}
        # Folders whose files are written where they are.
        self._left_alone = [folder]
        if scratch is not None:
            self.leave_alone(scratch)
        # Whether anything was written at all; until then nothing needs to be looked up.
        self._used = False
        share_with_forks(self)
        # Whether anything was written or removed among Python's packages; until then they are what they are.
        self._changes_libraries = False

    def leave_alone(self, folder: Any) -> None:
        """For caches that libraries read by other means than Python's `open`."""
        self._left_alone.append(os.path.join(_whole(folder), ""))

    def leaves_alone(self, path: Any) -> bool:
        if not is_path(path):
            return False
        whole = os.path.join(_whole(path), "")
        return any(whole.startswith(folder) for folder in self._left_alone)

    def path(self, name: Any) -> str:
        return os.path.join(self._folder, _whole(name).lstrip("/").replace(":", "_"))

    def link(self, name: Any, target: str) -> None:
        """What is asked of a link that the program made is asked of the path that it leads to: the system would follow
        it to the real file."""
        self._links[_whole(self.followed(name, last=False))] = _whole(target)

    def move_link(self, source: Any, target: Any) -> None:
        before, after = (_whole(self.followed(name, last=False)) for name in (source, target))
        self._links.pop(after, None)
        if before in self._links:
            self._links[after] = self._links[before]

    def followed(self, name: Any, last: bool = True) -> Any:
        """Without links that the program made; with `last=False` the last part of the path may be one."""
        if not self._links or not is_path(name):
            return name
        given = whole = _whole(name)
        for _ in range(_MAX_LINKS):
            inside = os.path.join(whole, "") if last else whole
            link = next((one for one in self._links if inside.startswith(one + os.sep)), None)
            if link is None:
                return name if whole == given else whole
            whole = os.path.abspath(self._links[link] + whole[len(link) :])
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), given)

    def original(self, path: str) -> str | None:
        """The path under which a program wrote what lies in the trace's own folder; None for others."""
        inside = os.path.join(self._folder, "")
        return os.path.join("/", path[len(inside) :]) if path.startswith(inside) else None

    def holds(self, name: Any) -> bool:
        return self._used and is_path(name) and _exists(self.path(self.followed(name)))

    def readable(self, name: Any, last: bool = True) -> Any:
        """Where the program finds it; of what is not there for the program, a path where nothing is."""
        name = self.followed(name, last)
        if self._is_as_installed(name) or not is_path(name) or self.leaves_alone(name):
            return name
        held = self._used and _exists(self.path(name))
        return self.path(name) if held or self._hides(_whole(name)) else name

    def writable(self, name: Any, keep: bool = False, last: bool = True) -> Any:
        """Where a file is written instead; a terminal or a null device is used as it is."""
        name = self.followed(name, last)
        if not is_path(name) or _is_special(name) or self.leaves_alone(name):
            return name
        target = self._room(name)
        if keep and not _exists(target) and _exists(self.readable(name)):
            shutil.copyfile(name, target)
        return target

    def listed(self, path: Any) -> list[Any]:
        """Entries of a folder, as `os.scandir` gives them."""
        path = self.followed(path)
        if self._is_as_installed(path) or not is_path(path) or self.leaves_alone(path):
            return _entries(path)
        whole, where = _whole(path), self.readable(path)
        if where is path:
            return self._seen(path, whole)
        written = _entries(where)
        if self._is_removed(whole) or not _exists(path):
            return written
        real = self._seen(path, whole)
        known = {os.fsdecode(entry.name) for entry in real}
        return [*real, *(entry for entry in written if entry.name not in known)]

    def _seen(self, path: Any, whole: str) -> list[Any]:
        def hidden(entry: Any) -> bool:
            if not self._removed and not entry.is_dir():
                return False
            inside = os.path.join(whole, os.fsdecode(entry.name))
            return self._hides(inside) if entry.is_dir() else inside in self._removed

        return [entry for entry in _entries(path) if not hidden(entry)]

    def make(self, folder: Any, mode: int) -> None:
        whole = _whole(self.followed(folder, last=False))
        self._made.make(whole, mode)
        os.mkdir(self._room(whole), mode)

    def made(self, folder: str) -> bool:
        """Whether the program made it, so that nothing of the user's lies in it."""
        if not self.holds(folder) or not os.path.isdir(self.path(folder)):
            return False
        return not _exists(folder) or self._made.has(folder) or is_of_traces(folder)

    def exists(self, path: Any) -> bool:
        return _exists(self.readable(path))

    def remove(self, path: Any) -> None:
        """What really lies there is gone for the program alone, but for folders that it made."""
        whole = _whole(self.followed(path, last=False))
        self._notice_change(whole)
        self._made.remove(whole)
        self._links.pop(whole, None)
        if _exists(whole):
            self._removed.add(whole)

    def remove_all(self, paths: list[str]) -> None:
        for path in paths:
            self._notice_change(path)
            self._removed.add(path)

    def move_folder(self, source: Any, target: Any, move: Callable[[str, str], None]) -> None:
        for folder, _, names in os.walk(source):
            for name in names:
                # What really lies there goes along as a copy.
                self.writable(os.path.join(folder, name), keep=True)
        held = self._room(source)
        os.makedirs(held, exist_ok=True)
        move(held, self._room(target))
        self._made.make(_whole(target))
        self.remove(source)

    def others_may_write(self) -> None:
        """From now on other processes write into the same folder."""
        self._used = True

    def state(self) -> dict[str, Any]:
        """What another process needs to know, to find and write the same files."""
        return {
            "folder": self.base,
            "owner": self._made.owner,
            "leftAlone": self._left_alone,
            "removed": sorted(self._removed),
            "links": self._links,
        }

    def clean(self) -> None:
        self._made.take_over()
        self._made.remove()

    def _room(self, name: Any) -> str:
        """Its path in the trace's own folder, with the folders around it."""
        self._used = True
        self._notice_change(_whole(name))
        target = self.path(name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        return target

    def _notice_change(self, whole: str) -> None:
        # What is done to a folder around the packages is done to them.
        inside = os.path.join(whole, "")
        if any(inside.startswith(one) or one.startswith(inside) for one in _LIBRARIES):
            self._changes_libraries = True

    def _is_as_installed(self, name: Any) -> bool:
        if self._changes_libraries or type(name) is not str:
            return False
        return name.startswith(_LIBRARIES) and os.pardir not in name

    def _hides(self, whole: str) -> bool:
        """What lies there is not there for the program: it removed it, or another trace made it."""
        return self._is_removed(whole) or (is_of_traces(whole) and not self.holds(whole))

    def _is_removed(self, whole: str) -> bool:
        if not self._removed:
            return False
        while whole not in self._removed:
            around = os.path.dirname(whole)
            if around == whole:
                return False
            whole = around
        return True


class SeenFiles(Overlay):
    """Those of a trace whose process sees the files in a view of its own."""

    by_kernel = True

    def __init__(self, view: View) -> None:
        self._view = view

    def leaves_alone(self, path: Any) -> bool:
        return is_path(path)

    def leave_alone(self, folder: Any) -> None:
        """The cache of data sets is known before the view is made."""

    def readable(self, name: Any, last: bool = True) -> Any:
        return name

    def writable(self, name: Any, keep: bool = False, last: bool = True) -> Any:
        return name

    def holds(self, name: Any) -> bool:
        return is_path(name) and self._view.holds(name)


def overlay_of(state: dict[str, Any]) -> Overlay:
    """That of a trace, in another process that the program started."""
    overlay = Overlay(state["folder"], owner=state["owner"])
    for folder in state["leftAlone"]:
        overlay.leave_alone(folder)
    overlay.remove_all(state["removed"])
    for name, target in state["links"].items():
        overlay.link(name, target)
    overlay.others_may_write()
    return overlay


def share_with_forks(overlay: Overlay) -> None:
    """What a process writes that was forked, such as one of `multiprocessing`, is looked for."""
    known = weakref.ref(overlay)

    def before() -> None:
        if (held := known()) is not None:
            held.others_may_write()

    os.register_at_fork(before=before)


def is_path(name: Any) -> bool:
    return isinstance(name, (str, bytes, os.PathLike))


def _whole(name: Any) -> str:
    return os.path.abspath(os.fsdecode(name))


def _entries(path: Any) -> list[Any]:
    with _SCANDIR(path) as entries:
        return list(entries)


def _exists(name: Any) -> bool:
    """Also a link that leads nowhere."""
    try:
        _LSTAT(name)
    except OSError:
        return False
    return True


def _is_special(name: Any) -> bool:
    try:
        return not stat.S_ISREG(_STAT(name).st_mode)
    except OSError:
        return False
