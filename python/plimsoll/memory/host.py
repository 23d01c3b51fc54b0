"""The host's memory as this process sees it: /proc, cgroups (v2 and v1), limits that were set."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from .clean_up import give_back_caches

# What cgroup v1 shows where no limit is set: the largest page-aligned number.
NO_LIMIT = 2**60


def process_status(path: str = "/proc/self/status") -> dict[str, int]:
    """The Vm and Rss figures of this process in bytes; empty where the kernel has no /proc."""
    figures = {}
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            for line in file:
                name, _, rest = line.partition(":")
                if name.startswith(("Vm", "Rss")) and rest.endswith("kB\n"):
                    figures[name] = int(rest[:-3]) * 1024
    except OSError:
        pass
    return figures


def resident_bytes() -> int:
    """What this process holds of the memory. Pages of files (libraries) are left out: the kernel takes
    them back when it needs them, and no limit counts them for long.
    """
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            _, resident, shared = map(int, file.read().split()[:3])
        return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        # Without /proc only the peak is known; macOS counts it in bytes.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def reset_peak() -> bool:
    """Resets VmHWM to what is resident now."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
        return True
    except OSError:
        return False


def machine(path: str = "/proc/meminfo") -> dict[str, int]:
    figures = {}
    try:
        with open(path, encoding="ascii") as file:
            for line in file:
                name, _, rest = line.partition(":")
                if name in ("MemTotal", "MemAvailable"):
                    figures[name] = int(rest.split()[0]) * 1024
    except OSError:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        figures = {"MemTotal": pages}
    return figures


def cgroup_limit(root: str = "/sys/fs/cgroup", own: str = "/proc/self/cgroup") -> int | None:
    """The lowest memory limit of the groups this process is in, from its own up to the root."""
    lowest = _lowest_group(root, own)
    return None if lowest is None else lowest[0]


def cgroup_use(
    root: str = "/sys/fs/cgroup", own: str = "/proc/self/cgroup"
) -> tuple[int, int] | None:
    """The lowest limit, and what all processes of that group use of it; None without a limit.

    Pages of files that were not touched of late are left out: the kernel takes them back first.
    """
    lowest = _lowest_group(root, own)
    if lowest is None:
        return None
    limit, path = lowest
    folder, name = os.path.split(path)
    is_second = name == "memory.max"
    used = _number(os.path.join(folder, "memory.current" if is_second else "memory.usage_in_bytes"))
    if used is None:
        return None
    cache = "inactive_file" if is_second else "total_inactive_file"
    try:
        with open(os.path.join(folder, "memory.stat"), encoding="ascii") as file:
            for line in file:
                key, _, count = line.partition(" ")
                if key == cache:
                    used -= int(count)
    except (OSError, ValueError):
        pass
    return limit, max(0, used)


def _lowest_group(root: str, own: str) -> tuple[int, str] | None:
    lowest = None
    for lowest_folder, name in _groups(root, own):
        folder = lowest_folder
        while folder.startswith(root):
            path = os.path.join(folder, name)
            limit = _number(path)
            if limit is not None and limit < NO_LIMIT and (lowest is None or limit < lowest[0]):
                lowest = limit, path
            if folder == root:
                break
            folder = os.path.dirname(folder)
    return lowest


def address_space_limit() -> int | None:
    return _own_limit("RLIMIT_AS")


def data_limit() -> int | None:
    return _own_limit("RLIMIT_DATA")


def _own_limit(name: str) -> int | None:
    try:
        import resource

        soft = resource.getrlimit(getattr(resource, name))[0]
        return None if soft == resource.RLIM_INFINITY or soft <= 0 else soft
    except (ImportError, OSError, ValueError):
        return None


def stated_limit(environment: Mapping[str, str] = os.environ) -> int | None:
    """PLIMSOLL_MEMORY_BYTES, as the supervisor sets it; anything but a size is ignored."""
    text = environment.get("PLIMSOLL_MEMORY_BYTES", "")
    return int(text) if text.isdigit() and int(text) > 0 else None


def _groups(root: str, own: str) -> Iterator[tuple[str, str]]:
    try:
        with open(own, encoding="utf-8", errors="replace") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return
    for line in lines:
        if len(line) != 3:
            continue
        _, controllers, path = line
        if controllers == "":
            yield os.path.normpath(root + path), "memory.max"
        elif "memory" in controllers.split(","):
            yield os.path.normpath(f"{root}/memory{path}"), "memory.limit_in_bytes"
    # In a container the path may be the host's; the group at the root of the mount is then ours.
    yield root, "memory.max"
    yield f"{root}/memory", "memory.limit_in_bytes"


def _number(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            text = file.read(64).strip()
        return int(text) if text.isdigit() else None
    except (OSError, ValueError):
        return None


# A limit on the host's memory as an error that can be caught, before the kernel kills the process.

# Stacks, libraries and the page cache of the process count too; the killer must not come first.
MARGIN = 0.97

# The soft limit that was set here; it is ours to change.
_ours: int | None = None


def fail_before_the_kernel_does() -> int | None:
    """Sets a soft limit on this process' data where a cgroup or PLIMSOLL_MEMORY_BYTES limits it.

    An allocation beyond it then fails in the step, where it is recovered; beyond a cgroup's limit the
    kernel kills. Never raises a limit of others, and answers the bytes of data that are allowed now, or None.
    """
    global _ours
    limits = [limit for limit in (cgroup_limit(), stated_limit()) if limit is not None]
    status = process_status()
    if not limits or "VmData" not in status:
        return None
    room = int(min(limits) * MARGIN) - resident_bytes()
    if room <= 0:
        return None
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        allowed = status["VmData"] + room
        if soft not in (resource.RLIM_INFINITY, _ours) and soft <= allowed:
            return None
        if hard != resource.RLIM_INFINITY:
            allowed = min(allowed, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))
        _ours = allowed
        return allowed
    except (ImportError, OSError, ValueError):
        return None


def give_back_heap() -> None:
    """Gives back what the heap keeps of freed memory: the kernel counts it as in use, so that sizes cannot be told."""
    give_back_caches(collect=False)
    if _ours is not None:
        # Addresses that the heap keeps count as data though no memory is behind them.
        fail_before_the_kernel_does()
