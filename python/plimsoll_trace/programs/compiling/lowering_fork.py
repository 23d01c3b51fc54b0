"""The code of graphs for sizes that will come, which a fork of this process writes on a second core.

It can only help: code is found by the graph that it is for, so that what was written for a size that never comes is
never used. Where the fork fails, dies or hangs, graphs are lowered here.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import struct
import warnings
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from typing import Any

import torch

from .. import start
from . import beside

# A fork that did not run at all for so long hangs.
_PATIENCE_MS = 10_000
# Where the next thing that the fork reports lies among all of them.
_NOTE = struct.Struct("<QQ")
# What the fork does for one size.
Work = Callable[[], Any]


class Coming:
    def __init__(self, observer: Any) -> None:
        self._observer = observer
        self._process: _Process | None = None
        # The sizes that the fork has not begun, and the one that it works on. The work itself is known to the fork
        # only: it would hold on to the program's modules.
        self._later: set[Hashable] = set()
        self._doing: Hashable = None
        self._asked: Hashable = None
        self._planned: set[Hashable] = set()

    @property
    def works(self) -> bool:
        return self._process is not None

    def is_new(self, function: Hashable) -> bool:
        """Whether none that is like it was asked about."""
        known = function in self._planned
        self._planned.add(function)
        return not known

    def begin(self, plan: dict[Hashable, Work]) -> None:
        """plan: what is to be done for each size, by its name; all of it is done in the fork."""
        if plan and self._process is None and beside.can_fork() and hasattr(os, "memfd_create"):
            self._later, self._doing = set(plan), None
            self._process = _start(partial(self._work, plan))

    def meets(self, name: Hashable) -> None:
        """The program has come to this size."""
        while self._take(0):
            pass
        self._asked = name
        if name in self._later:
            # It works on one that was left out, and would then do this one again.
            self.end()

    def find(self, form: str | None) -> None:
        """Waits for the code of a graph, if the fork is about to write it."""
        codes = self._observer.codes
        self.go_on()
        while self._process is not None and form is not None and form not in codes:
            if not self._take(0) and (self._doing != self._asked or not self._take(_PATIENCE_MS)):
                return

    def pause(self) -> None:
        """While all cores have more urgent work."""
        if self._process is not None and len(os.sched_getaffinity(0)) < 3:
            self._process.send(signal.SIGSTOP)

    def go_on(self) -> None:
        if self._process is not None:
            self._process.send(signal.SIGCONT)

    def end(self) -> None:
        if self._process is not None:
            self._process.end()
        self._process, self._later, self._doing = None, set(), None

    def _take(self, patience: int) -> bool:
        """Whether the fork reported something."""
        if self._process is None:
            return False
        reported = self._process.reported(patience)
        if reported is None:
            self.end()
        for name, written in reported or ():
            if written is None:
                self._doing = name
                self._later.discard(name)
            else:
                self._observer.codes.setdefault(name, written)
        return bool(reported)

    def _work(self, plan: dict[Hashable, Work], report: Callable[[Any], None]) -> None:
        """In the fork."""
        self._process = None
        beside.alone = True
        # Nothing of it is work of the program's.
        self._observer.on_op = None
        self._observer.codes = _Reported(self._observer.codes, report)
        for name, work in plan.items():
            report((name, None))
            work()


class _Reported(dict):
    """Reports each code when it is written."""

    def __init__(self, known: dict, report: Callable[[Any], None]) -> None:
        super().__init__(known)
        self._report = report

    def __setitem__(self, form: Any, written: Any) -> None:
        super().__setitem__(form, written)
        self._report((form, written))


class _Process:
    """The fork, as its parent sees it. What it reports lies in memory of both: a pipe would be full soon."""

    def __init__(self, pid: int, reads: int, memory: int) -> None:
        self._pid, self._reads, self._memory = pid, reads, memory
        self._parent = os.getpid()

    def send(self, number: int) -> None:
        if os.getpid() == self._parent:
            with suppress(OSError):
                os.kill(self._pid, number)

    def reported(self, patience: int) -> list[Any] | None:
        """The next thing that it reported, in a list; an empty one where there is none and `patience` is 0. None where
        it is over, or did not run for so many milliseconds."""
        poll = select.poll()
        poll.register(self._reads, select.POLLIN | select.POLLHUP)
        ran = -1
        try:
            while not poll.poll(patience):
                if not patience:
                    return []
                before, ran = ran, beside.spent(self._pid)
                if ran == before:
                    return None
            note = os.read(self._reads, _NOTE.size)
            if len(note) < _NOTE.size:
                return None
            place, length = _NOTE.unpack(note)
            return [pickle.loads(os.pread(self._memory, length, place))]
        except Exception:
            return None

    def end(self) -> None:
        if os.getpid() == self._parent:
            os.close(self._reads)
            os.close(self._memory)
            start.end(self._pid)


def _start(work: Callable[[Callable[[Any], None]], None]) -> _Process | None:
    parent = os.getpid()
    memory = os.memfd_create("codes")
    reads, writes = os.pipe()
    try:
        with warnings.catch_warnings():
            # Newer Pythons warn of threads. The fork waits for none of them.
            warnings.simplefilter("ignore")
            pid = os.fork()
    except OSError:
        for file in (memory, reads, writes):
            os.close(file)
        return None
    if pid == 0:
        _run(work, parent, writes, memory)
    os.close(writes)
    return _Process(pid, reads, memory)


def _run(
    work: Callable[[Callable[[Any], None]], None], parent: int, writes: int, memory: int
) -> None:
    """In the fork: never returns."""
    place = 0

    def report(what: Any) -> None:
        nonlocal place
        words = pickle.dumps(what)
        begins, end = place, place + len(words)
        while place < end:
            place += os.pwrite(memory, words[place - begins :], place)
        os.write(writes, _NOTE.pack(begins, len(words)))

    try:
        start.belong_to(parent)
        # What the program's functions print was not asked for.
        nothing = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nothing, stream)
        torch.set_num_threads(1)
        work(report)
    except BaseException:
        # The parent finds no code, and lowers its graphs itself.
        return
    finally:
        os._exit(0)
