"""The files that a program's answer depends on: those that it read, listed or looked for, and what they are like now.

Python tells of each file that it opens (`sys.addaudithook`), but not of the questions of `os.stat`. What the program
wrote itself, Python's packages and what the kernel shows of itself do not count. A library that opens a file without
Python is seen where it looks for the file first.
"""

from __future__ import annotations

import hashlib
import json
import os
import site
import stat
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import wraps
from importlib.util import source_from_cache
from multiprocessing import util as processes
from typing import Any

from ...standins.patches import Patches

# Of a folder: all names in it, or those of modules.
_READ, _LOOKED, _LISTED, _MODULES = KINDS = ("read", "looked", "listed", "modules")
_DOUBT = "doubt"
# They are kept with the answer, in a file of 1 MiB.
_MAX_CHARACTERS = 600_000
_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.abspath(os.path.join(_HERE, *3 * [os.pardir]))
# Of the kernel and of the machine.
_NO_FILES = ("/proc/", "/sys/", "/dev/")
_OPENS = ("ctypes.dlopen", "sqlite3.connect")
_LISTS = ("os.listdir", "os.scandir")
_STARTS = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system")
_EVENTS = frozenset(("open", "import", *_OPENS, *_LISTS, *_STARTS))
# Python's own: what they start, another part of a program has asked for.
_STARTERS = ("subprocess.py", "os.py")
# Small sources and settings count by their content: an editor may save them unchanged.
_TEXTS = (".py", ".json", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".txt")
_MAX_TEXT = 1 << 20
_MODULE_ENDINGS = (".py", ".so", ".pyd")

# A hook of Python stays as long as the process.
_noting: list[Callable[[str, tuple], None]] = []
_hooked = False


def _hook(event: str, args: tuple) -> None:
    if _noting and event in _EVENTS:
        _noting[-1](event, args)


class Dependencies:
    """Notes them. Processes that are forked from this one write theirs into a file of the scratch folder."""

    def __init__(self, scratch: str) -> None:
        self._of_forks = os.path.join(scratch, "dependencies.jsonl")
        self._owner = os.getpid()
        self._left_out = tuple(
            os.path.join(os.path.abspath(folder), "")
            for folder in (*_NO_FILES, *package_folders(), _PACKAGE, scratch)
        )
        # A copy of the program's folder may lie in the scratch folder.
        self._here = os.path.join(os.getcwd(), "")
        self._holds: Callable[[str], bool] = lambda path: False
        self._noted: set[tuple[str, str]] = set()
        self._module_folders: set[str] = set()
        self._characters = 0

    def watch(self, stack: ExitStack, patches: Patches, holds: Callable[[str], bool]) -> None:
        """`holds` says whether the program wrote what lies at a path."""
        global _hooked
        self._holds = holds
        _noting.append(self._event)
        stack.callback(_noting.remove, self._event)
        if not _hooked:
            sys.addaudithook(_hook)
            _hooked = True
        for name in ("stat", "lstat", "access"):
            self._watch_question(stack, patches, name)
        start = processes.spawnv_passfds

        def spawnv_passfds(path: Any, args: Any, passfds: Any) -> int:
            # That of shared memory reads nothing.
            if not any("resource_tracker" in os.fsdecode(word) for word in args):
                self._add(_DOUBT, "")
            return start(path, args, passfds)

        patches.set(processes, "spawnv_passfds", spawnv_passfds)

    def found(self) -> dict[str, list[str]] | None:
        """By kind; None where some are not known."""
        noted = set(self._noted)
        with suppress(OSError, ValueError), open(self._of_forks, encoding="utf-8") as file:
            noted.update((kind, path) for kind, path in map(json.loads, file))
        files = {kind: sorted(path for one, path in noted if one == kind) for kind in KINDS}
        read = set(files[_READ])
        files[_LOOKED] = [path for path in files[_LOOKED] if path not in read]
        in_doubt = (_DOUBT, "") in noted or len(json.dumps(files)) > _MAX_CHARACTERS
        return None if in_doubt else files

    def _event(self, event: str, args: tuple) -> None:
        """Of Python. Nothing that is thrown here may reach the program."""
        try:
            if event == "open":
                path, _, flags = args
                # What is written anew does not depend on what was there.
                only_written = flags & os.O_ACCMODE == os.O_WRONLY or flags & os.O_TRUNC
                if not only_written:
                    self._note(_READ, path)
            elif event == "import":
                self._imported(args[1], args[2])
            elif event in _LISTS:
                if _lists_for_program(sys._getframe(2)):
                    self._note(_LISTED, os.curdir if args[0] is None else args[0])
            elif event in _OPENS:
                self._note(_READ, args[0])
            elif self._starts_by_itself():
                self._add(_DOUBT, "")
        except Exception:
            self._add(_DOUBT, "")

    def _imported(self, file: Any, folders: Any) -> None:
        if file is not None:
            # One that is no Python.
            self._note(_READ, file)
        for folder in folders or ():
            if isinstance(folder, str) and folder not in self._module_folders:
                self._module_folders.add(folder)
                self._note(_MODULES, folder or os.curdir)

    def _watch_question(self, stack: ExitStack, patches: Patches, name: str) -> None:
        ask = getattr(os, name)

        @wraps(ask)
        def asked(path: Any, *args: Any, **kwargs: Any) -> Any:
            if _noting and not _is_made(sys._getframe(1)):
                with suppress(Exception):
                    self._note(_LOOKED, path)
            return ask(path, *args, **kwargs)

        patches.set(os, name, asked)
        # Libraries ask what it can do.
        for able in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            if ask in able:
                able.add(asked)
                stack.callback(able.discard, asked)

    def _note(self, kind: str, path: Any) -> None:
        if not isinstance(path, (str, bytes, os.PathLike)):
            # By its number: it was opened before.
            return
        whole = os.path.abspath(os.fsdecode(path))
        if (kind, whole) in self._noted:
            return
        inside = os.path.join(whole, "")
        if inside.startswith(self._left_out) and not inside.startswith(self._here):
            return
        if kind == _MODULES or not self._holds(whole):
            self._add(kind, _source(whole) if kind == _READ else whole)

    def _add(self, kind: str, path: str) -> None:
        if (kind, path) in self._noted or self._characters > _MAX_CHARACTERS:
            return
        self._characters += len(path)
        if self._characters > _MAX_CHARACTERS:
            kind, path = _DOUBT, ""
        self._noted.add((kind, path))
        if os.getpid() != self._owner:
            with suppress(OSError), open(self._of_forks, "a", encoding="utf-8") as file:
                file.write(json.dumps([kind, path]) + "\n")

    def _starts_by_itself(self) -> bool:
        """Whether the program starts another one, which may read anything. Libraries ask others what they can do."""
        frame: Any = sys._getframe(2)
        while frame is not None:
            path = frame.f_code.co_filename
            if os.path.basename(path) not in _STARTERS and not path.startswith(_PACKAGE):
                return not path.startswith(self._left_out)
            frame = frame.f_back
        return True


def _lists_for_program(frame: Any) -> bool:
    """Python itself looks for modules in folders, and the trace for packages."""
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return frame is None or not frame.f_code.co_filename.startswith((_PACKAGE, "<frozen importlib"))


def _is_made(frame: Any) -> bool:
    """Whether the question is one of `os.makedirs`: folders are made whether they are there or not."""
    asking: Any = frame
    # Questions of the trace about what was written stand in between.
    for _ in range(4):
        if asking is None or asking.f_code is os.makedirs.__code__:
            break
        asking = asking.f_back
    return asking is not None and asking.f_code is os.makedirs.__code__


def _source(path: str) -> str:
    """Of a module that was compiled before."""
    if path.endswith(".pyc"):
        with suppress(ValueError, NotImplementedError):
            return source_from_cache(path)
    return path


def package_folders() -> list[str]:
    """Of this Python."""
    paths = sysconfig.get_paths()
    known = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders = [*known, *site.getsitepackages(), site.getusersitepackages()]
    # A virtual environment may lie behind a link.
    return sorted(
        {place(folder) for folder in folders for place in (os.path.abspath, os.path.realpath)}
    )


def print_state() -> int:
    """`python -m plimsoll_trace --state`: reads `{"files": {...}, "before": seconds}` and prints `{"state": "3f..."}`,
    the same for the same Python, packages and files. It is null where one of them may have changed since `before`,
    seconds since 1970."""
    asked = json.load(sys.stdin)
    before = asked.get("before")
    state = hashlib.sha256(json.dumps([sys.version, sys.executable]).encode())
    try:
        parts = [(folder, _packages_in(folder, before)) for folder in package_folders()]
        for kind in KINDS:
            parts += [(path, _state(kind, path, before)) for path in asked["files"][kind]]
    except _Changed:
        print(json.dumps({"state": None}))
        return 0
    state.update(json.dumps(parts).encode())
    print(json.dumps({"state": state.hexdigest()}))
    return 0


class _Changed(Exception):
    """Since the program read it, perhaps."""


def _packages_in(folder: str, before: float | None) -> list[Any]:
    """Names, and when packages were installed: what Python compiles changes the folder of a package, too."""
    installed = (".dist-info", ".egg-info", ".egg-link", ".pth")
    return [
        [name, _unchanged(os.stat(path), before) if name.endswith(installed) else 0]
        for name, path in _entries(folder)
        if name != "__pycache__"
    ]


def _state(kind: str, path: str, before: float | None) -> Any:
    if kind == _MODULES:
        return [name for name, inside in _entries(path) if _is_module(name, inside)]
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return "missing"
    if kind == _LISTED:
        _unchanged(found, before)
        return [name for name, _ in _entries(path)]
    if stat.S_ISDIR(found.st_mode):
        return "folder"
    if not stat.S_ISREG(found.st_mode):
        if kind == _READ:
            # The next one who reads it may get something else.
            raise _Changed
        return stat.S_IFMT(found.st_mode)
    times = _unchanged(found, before)
    if kind == _READ and path.endswith(_TEXTS) and found.st_size <= _MAX_TEXT:
        with suppress(OSError), open(path, "rb") as file:
            return hashlib.sha256(file.read(_MAX_TEXT + 1)).hexdigest()
    return [found.st_dev, found.st_ino, found.st_size, *times]


def _unchanged(found: os.stat_result, before: float | None) -> list[int]:
    """When it was changed."""
    if before is not None and max(found.st_mtime, found.st_ctime) >= before:
        raise _Changed
    return [found.st_mtime_ns, found.st_ctime_ns]


def _entries(folder: str) -> Iterator[tuple[str, str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        yield from sorted((entry.name, entry.path) for entry in entries)


def _is_module(name: str, path: str) -> bool:
    return name.endswith(_MODULE_ENDINGS) or os.path.isfile(os.path.join(path, "__init__.py"))
