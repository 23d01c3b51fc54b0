"""Processes that fork faster than the process table can be read; their number and time are limited.

Usage: fork-bomb.py KIND SECONDS MARK: KIND is chain, tree or hidden; MARK only names it in the list of
processes. Every process ends by itself after SECONDS.
"""

import os
import sys
import time

kind, seconds, mark = sys.argv[1], float(sys.argv[2]), sys.argv[3]
end = time.monotonic() + seconds
max_children = 60


def leave_parents():
    """In a session of its own, with no environment, orphaned."""
    if os.fork() > 0:
        os._exit(0)
    os.setsid()
    if os.fork() > 0:
        os._exit(0)


def chain():
    """Each forks one and ends: a process id lives for a fraction of a millisecond."""
    while time.monotonic() < end:
        if os.fork() > 0:
            os._exit(0)


def tree():
    """Many live at once, and each that dies is replaced."""
    children = 0
    while time.monotonic() < end:
        if children < max_children:
            if os.fork() == 0:
                time.sleep(min(0.2, max(0, end - time.monotonic())))
                os._exit(0)
            children += 1
        else:
            os.wait()
            children -= 1


if kind == "hidden":
    if "PLIMSOLL_RUN_ID" in os.environ:
        program = [sys.executable, sys.argv[0], kind, str(seconds), mark]
        leave_parents()
        os.execve(sys.executable, program, {"PATH": os.environ.get("PATH", "")})
    while time.monotonic() < end:
        time.sleep(0.05)
elif kind == "tree":
    tree()
else:
    for _ in range(4):
        if os.fork() == 0:
            chain()
            os._exit(0)
    time.sleep(seconds)
