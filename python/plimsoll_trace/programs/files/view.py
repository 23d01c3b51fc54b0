"""The kernel keeps the files of a program apart: the trace works in a view of its own of all that is mounted.

In the view each file system is an overlay: what any process of the trace writes, removes or changes lies in a folder of
the trace, and all of them find it there. It takes a mount namespace, and for those who may not mount, a user namespace.
A fork makes the view, and this process enters it when it is whole: where anything fails, nothing has changed here.
"""

from __future__ import annotations

import ctypes
import os
import re
import select
import shutil
import signal
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

# Of Linux, the same on all machines.
_NEW_MOUNTS, _NEW_USERS = 0x00020000, 0x10000000
_READ_ONLY, _NO_SUID, _NO_DEV, _NO_EXEC, _REMOUNT = 1, 2, 4, 8, 32
_BIND, _RECURSIVE, _UNBINDABLE, _SLAVE = 1 << 12, 1 << 14, 1 << 17, 1 << 19
_DETACH = 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_CAPABILITIES_VERSION = 0x20080522
_SYS_ADMIN = 1 << 21
_ALL_USERS = ["0", "0", "4294967295"]
# It takes milliseconds; a file system that does not answer would keep it for ever.
_SECONDS = 10.0
# Machines of clusters have some hundred mounts, nearly all of containers.
_MAX_MOUNTS, _MAX_SOCKETS, _MAX_FOLDERS = 256, 256, 4096
_DEEPEST = 2
# No files: what the kernel shows of itself, and devices.
_AS_THEY_ARE = ("/proc", "/sys", "/dev")
_NO_FILES = frozenset(
    (
        "autofs",
        "binfmt_misc",
        "bpf",
        "cgroup",
        "cgroup2",
        "configfs",
        "debugfs",
        "devpts",
        "devtmpfs",
        "efivarfs",
        "fusectl",
        "hugetlbfs",
        "mqueue",
        "nsfs",
        "proc",
        "pstore",
        "rpc_pipefs",
        "securityfs",
        "selinuxfs",
        "sysfs",
        "tracefs",
    )
)
# Those of containers: programs have nothing there.
_OF_CONTAINERS = re.compile(
    r"/var/lib/(docker|containers|containerd|kubelet|lxcfs)/|/run/(docker|containerd|netns)/"
)
# A tmpfs of the trace's own, with the folders that the view is made in.
_SHARED_MEMORY = "/dev/shm"
_MAKING = os.path.join(_SHARED_MEMORY, "plimsoll")
# Of the folder of the trace.
_WRITTEN = "view"
# In the options of a mount these mean something else.
_SPECIAL = re.compile(r"[,:\\]")
_OCTAL = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    path: str
    kind: str
    options: frozenset[str]
    writable: bool

    def has_no_files(self) -> bool:
        return self.kind in _NO_FILES or self.path in _AS_THEY_ARE

    def is_writable_folder(self) -> bool:
        return self.writable and os.path.isdir(self.path)


class View:
    """Where what is written under each mount lies."""

    def __init__(self, folders: dict[str, str]) -> None:
        self._folders = folders

    def holds(self, path: Any) -> bool:
        """Whether the program wrote it."""
        whole = os.path.abspath(os.fsdecode(path))
        around = whole
        while around not in self._folders:
            if around == "/":
                return False
            around = os.path.dirname(around)
        return os.path.lexists(self._folders[around] + os.path.join("/", whole[len(around) :]))


def enter(scratch: str | None, real: Iterable[str], needed: Iterable[str] = ()) -> View | None:
    """This process, which has one thread, and all that it starts work in the view from now on; None where the machine
    allows none. `scratch` is a folder for what is written; without one it lies in memory. `real`: files and folders
    that stay what they are. `needed`: where the program is expected to write."""
    if not hasattr(os, "fork") or not os.path.isdir("/proc/self/ns"):
        return None
    here = os.getcwd()
    told, tells = os.pipe()
    ends, end = os.pipe()
    maker = os.fork()
    if maker == 0:
        os.close(told)
        os.close(end)
        try:
            folders = _make(scratch, [*real], [here, *needed])
            os.write(
                tells, os.fsencode("\0".join(part for pair in folders.items() for part in pair))
            )
            os.close(tells)
            os.read(ends, 1)
        except BaseException as error:
            if os.environ.get("PLIMSOLL_DEBUG"):
                os.write(2, f"no view: {error!r}\n".encode(errors="replace"))
        finally:
            os._exit(0)
    os.close(tells)
    os.close(ends)
    try:
        folders = _received(told)
        if folders and _join(maker, here):
            return View(folders)
        if scratch is not None:
            shutil.rmtree(os.path.join(scratch, _WRITTEN), ignore_errors=True)
        return None
    finally:
        os.close(told)
        os.close(end)
        with suppress(OSError):
            os.kill(maker, signal.SIGKILL)
        os.waitpid(maker, 0)


def cache_of_data_sets() -> str:
    """Where the library `datasets` keeps what it has converted, which is mapped into memory from there."""
    variables = os.environ
    caches = variables.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    home = variables.get("HF_HOME") or os.path.join(caches, "huggingface")
    return os.path.expanduser(variables.get("HF_DATASETS_CACHE") or os.path.join(home, "datasets"))


def _received(told: int) -> dict[str, str]:
    said = b""
    while select.select([told], [], [], _SECONDS)[0]:
        part = os.read(told, 65536)
        if not part:
            parts = os.fsdecode(said).split("\0")
            return dict(zip(parts[::2], parts[1::2]))
        said += part
    return {}


def _join(maker: int, here: str) -> bool:
    libc = _libc()
    spaces = [f"/proc/{maker}/ns/{name}" for name in ("user", "mnt")]
    own = os.stat("/proc/self/ns/user").st_ino == os.stat(spaces[0]).st_ino
    try:
        opened = [os.open(path, os.O_RDONLY) for path in spaces]
    except OSError:
        return False
    try:
        if not own and libc.setns(opened[0], _NEW_USERS):
            return False
        if libc.setns(opened[1], _NEW_MOUNTS):
            return False
        os.chdir(here)
        if not own:
            _give_up_capabilities(libc)
        return True
    finally:
        for one in opened:
            os.close(one)


def _give_up_capabilities(libc: Any) -> None:
    """Those in the user namespace: for the program its own rights are as they were."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    libc.capset(header, (ctypes.c_uint32 * 6)())


def _make(scratch: str | None, real: list[str], needed: list[str]) -> dict[str, str]:
    """In a fork, which is in the view after it. Answers with the folders of what is written, by what they cover."""
    libc = _libc()
    mounts = list(_mounts())
    sockets = _sockets()
    of_users, options = _unshare(libc)
    _mount(libc, "none", "/", _RECURSIVE | _SLAVE)
    _mount(libc, "tmpfs", _SHARED_MEMORY, _NO_SUID | _NO_DEV, "tmpfs", "mode=1777")
    root = os.path.join(_MAKING, "root")
    os.makedirs(root)
    needed = [os.path.realpath(path) for path in needed]
    maker = _Maker(libc, root, scratch, options, mounts, needed)
    if of_users:
        maker.cover_folders()
    else:
        maker.cover_mounts()
    for path in [*([] if scratch is None else [scratch]), *real, *sockets, *_pipes(needed)]:
        maker.keep(os.path.realpath(path))
    maker.check(needed[0])
    os.chdir(root)
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is not None and libc.syscall(number, b".", b".") == 0:
        _checked(libc.umount2(b".", _DETACH))
    else:
        os.chroot(".")
    os.chdir("/")
    return maker.folders


class _Maker:
    def __init__(
        self,
        libc: Any,
        root: str,
        scratch: str | None,
        options: str,
        mounts: list[Mount],
        needed: list[str],
    ) -> None:
        self._libc, self._root, self._options, self._mounts = libc, root, options, mounts
        in_memory = os.path.join(_MAKING, "files")
        # File systems that are no disk of this machine, and overlays, cannot hold what is written.
        self._places = (
            [in_memory] if scratch is None else [os.path.join(scratch, _WRITTEN), in_memory]
        )
        self._needed = needed
        self._number = 0
        self._kept: list[str] = []
        self.folders: dict[str, str] = {}

    def cover_mounts(self) -> None:
        """As the superuser: an overlay on each file system."""
        for mount in self._mounts:
            if self._is_kept(mount.path):
                continue
            if mount.has_no_files():
                self.keep(mount.path)
            elif not mount.is_writable_folder() or not self._overlay(mount.path):
                self._bind(mount.path)
                # Such as `/etc/hosts` of a container.
                self._read_only(mount)
            if mount.path == "/":
                # Else `/dev`, in which it is made, would bring it along.
                _mount(self._libc, "none", self._root, _UNBINDABLE)

    def cover_folders(self) -> None:
        """In a user namespace nothing may be covered that others have mounted something in. What the account can write
        into gets an overlay; all else is read-only."""
        self._bind("/")
        for mount in self._mounts:
            if mount.has_no_files():
                self._kept.append(os.path.join(mount.path, ""))
            elif not self._is_kept(mount.path):
                self._read_only(mount)
        for mount in self._mounts:
            if mount.is_writable_folder() and not self._is_kept(mount.path):
                for folder in self._without_mounts(mount.path):
                    self._cover_if_written(folder)

    def keep(self, path: str) -> None:
        """It is in the view what it is."""
        if os.path.lexists(path) and not self._is_kept(path):
            self._bind(path)
            self._kept.append(os.path.join(path, ""))

    def check(self, folder: str) -> None:
        known = any(_holds(top, folder) for top in self.folders) or self._is_kept(folder)
        if not known and os.access(folder, os.W_OK):
            raise OSError(f"no overlay on {folder}")

    def _without_mounts(self, folder: str) -> Iterator[str]:
        if not any(one.path != folder and _holds(folder, one.path) for one in self._mounts):
            yield folder
            return
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                path = entry.path
                mounted = any(one.path == path for one in self._mounts)
                if not mounted and entry.is_dir(follow_symlinks=False) and not self._is_kept(path):
                    yield from self._without_mounts(path)

    def _cover_if_written(self, folder: str) -> None:
        others, owns = _written_by_me(folder)
        needed = [path for path in self._needed if _holds(folder, path)]
        if others or owns or needed:
            self._overlay(folder, (*others, *needed))

    def _is_kept(self, path: str) -> bool:
        return any(_holds(top, path) for top in self._kept)

    def _bind(self, path: str) -> None:
        _mount(self._libc, path, self._in_root(path), _BIND | _RECURSIVE)

    def _in_root(self, path: str) -> str:
        return self._root + path.rstrip("/")

    def _read_only(self, mount: Mount) -> None:
        """With the other limits of the mount, which only its owner may lift."""
        flags = {"nosuid": _NO_SUID, "nodev": _NO_DEV, "noexec": _NO_EXEC}
        kept = sum(flag for name, flag in flags.items() if name in mount.options)
        _mount(self._libc, "none", self._in_root(mount.path), _BIND | _REMOUNT | _READ_ONLY | kept)

    def _overlay(self, folder: str, made: Iterable[str] = ()) -> bool:
        for place in self._places:
            written = os.path.join(place, str(self._number), "files")
            work = os.path.join(place, str(self._number), "work")
            if any(_SPECIAL.search(path) for path in (folder, written)):
                continue
            os.makedirs(written, exist_ok=True)
            os.makedirs(work, exist_ok=True)
            for one in made:
                _make_around(one, folder, written)
            options = f"lowerdir={folder},upperdir={written},workdir={work},{self._options}"
            try:
                _mount(self._libc, "overlay", self._in_root(folder), 0, "overlay", options)
            except OSError:
                continue
            with suppress(OSError):
                # Else only the superuser could remove it.
                os.chmod(os.path.join(work, "work"), 0o700)
            self._number += 1
            self.folders[folder] = written
            return True
        return False


def _make_around(folder: str, top: str, written: str) -> None:
    """The kernel copies a folder before something is written into it, which it cannot do with that of another account:
    those that this account may write into are there before."""
    made, real = written, top
    for part in os.path.relpath(folder, top).split(os.sep):
        made, real = os.path.join(made, part), os.path.join(real, part)
        with suppress(OSError):
            mode = stat.S_IMODE(os.stat(real).st_mode)
            os.mkdir(made)
            os.chmod(made, mode)


def _written_by_me(top: str) -> tuple[list[str], bool]:
    """Folders of others, near the top, that this account may write into, such as `/tmp`; and whether there are any of
    its own."""
    left, others, owns = [(top, 0)], [], False
    for _ in range(_MAX_FOLDERS):
        if not left:
            break
        folder, depth = left.pop()
        try:
            if os.stat(folder).st_uid == os.geteuid():
                owns = True
                continue
            if os.access(folder, os.W_OK):
                others.append(folder)
            if depth < _DEEPEST:
                with os.scandir(folder) as entries:
                    dirs = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
                left += [(path, depth + 1) for path in dirs]
        except OSError:
            continue
    return others, owns


def _holds(top: str, path: str) -> bool:
    return os.path.join(path, "").startswith(os.path.join(top, ""))


def _unshare(libc: Any) -> tuple[bool, str]:
    """Into namespaces of its own; answers with whether one is of users, and the options of overlays."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        status = dict(line.split(":\t", 1) for line in file if ":\t" in line)
    with open("/proc/self/uid_map", encoding="ascii") as file:
        outermost = file.read().split() == _ALL_USERS
    if int(status["CapEff"], 16) & _SYS_ADMIN:
        _checked(libc.unshare(_NEW_MOUNTS))
        return False, "redirect_dir=on" if outermost else "userxattr"
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        # In a namespace of its own it could not read what belongs to others, as it can here.
        raise PermissionError("this superuser may not mount")
    _checked(libc.unshare(_NEW_MOUNTS | _NEW_USERS))
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    return True, "userxattr"


def _mounts() -> Iterator[Mount]:
    """Those that the process sees, the outer ones first."""
    found: dict[str, Mount] = {}
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields, _, super_block = line.partition(" - ")
            words, (kind, *rest) = fields.split(), super_block.split()
            path = _OCTAL.sub(lambda match: chr(int(match[1], 8)), words[4])
            options = frozenset(words[5].split(","))
            writable = "rw" in options and "rw" in rest[-1].split(",")
            if not _OF_CONTAINERS.match(os.path.join(path, "")):
                found[path] = Mount(path, kind, options, writable)
    if len(found) > _MAX_MOUNTS:
        raise OSError("too many mounts")
    yield from sorted(found.values(), key=lambda mount: len(mount.path.rstrip("/").split("/")))


def _sockets() -> list[str]:
    """Of servers on this machine: in the view nothing would listen behind their names."""
    with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
        paths = [line.split(maxsplit=7)[7].rstrip("\n") for line in file if " /" in line]
    names = [path for path in dict.fromkeys(paths) if path.startswith("/")]
    return [path for path in names[:_MAX_SOCKETS] if _has_kind(path, stat.S_ISSOCK)]


def _pipes(folders: list[str]) -> list[str]:
    """Named pipes, by which others outside of the view may speak with the program."""
    found = []
    for folder in dict.fromkeys(folders):
        with suppress(OSError), os.scandir(folder) as entries:
            found += [entry.path for entry in entries if _has_kind(entry.path, stat.S_ISFIFO)]
    return found


def _has_kind(path: str, is_kind: Any) -> bool:
    try:
        return is_kind(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _mount(
    libc: Any, source: str, target: str, flags: int, kind: str | None = None, options: str = ""
) -> None:
    given = [None if one is None else os.fsencode(one) for one in (source, target, kind)]
    _checked(libc.mount(*given, ctypes.c_ulong(flags), os.fsencode(options) or None), target)


def _checked(status: int, path: str | None = None) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
