"""Work that a fork of this process does on a second core, while this one goes on.

It can only help: where the fork fails, dies or hangs, nothing comes back, and the work is done here.
"""

from __future__ import annotations

import os
import pickle
import select
import sys
import warnings
from collections.abc import Sequence
from typing import Any, Callable

import torch

from .. import start

# A fork that did not run at all for so long hangs: it waits for a thread that did not come along.
_PATIENCE_MS = 10_000
_CHUNK = 1 << 20
# Whether this process is a fork itself, and does all of its work alone.
alone = False


def can_fork() -> bool:
    """Not where there is one core, or where forks are not safe."""
    return not alone and sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1


def begin(work: Callable[[], Any]) -> Beside | None:
    """What `work` returns must be plain. None where it cannot fork."""
    if not can_fork():
        return None
    parent = os.getpid()
    reads, writes = os.pipe()
    try:
        with warnings.catch_warnings():
            # Newer Pythons warn of threads. The fork waits for none of them.
            warnings.simplefilter("ignore")
            pid = os.fork()
    except OSError:
        os.close(reads)
        os.close(writes)
        return None
    if pid == 0:
        _work(work, parent, writes)
    os.close(writes)
    return Beside(pid, reads)


class Beside:
    """The fork, as its parent sees it."""

    def __init__(self, pid: int, reads: int) -> None:
        self._pid = pid
        self._reads: int | None = reads

    def result(self) -> Any:
        """Waits for it. None where there is none: the work has to be done here."""
        if self._reads is None:
            return None
        answer, ran = b"", -1
        poll = select.poll()
        poll.register(self._reads, select.POLLIN | select.POLLHUP)
        try:
            while True:
                if not poll.poll(_PATIENCE_MS):
                    before, ran = ran, spent(self._pid)
                    if ran == before:
                        return None
                    continue
                part = os.read(self._reads, _CHUNK)
                if not part:
                    return pickle.loads(answer)
                answer += part
        except Exception:
            return None
        finally:
            self.end()

    def end(self) -> None:
        """Leaves nothing running. A fork that is done ends as well by itself."""
        if self._reads is None:
            return
        os.close(self._reads)
        self._reads = None
        start.end(self._pid)


def spent(pid: int) -> int:
    """Ticks that a process ran for."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        # The name before may hold anything.
        facts = file.read().rpartition(")")[2].split()
    return int(facts[11]) + int(facts[12])


def _work(work: Callable[[], Any], parent: int, writes: int) -> None:
    """In the fork: never returns."""
    try:
        start.belong_to(parent)
        # The threads that PyTorch computes with did not come along.
        torch.set_num_threads(1)
        answer = pickle.dumps(work())
        while answer:
            answer = answer[os.write(writes, answer) :]
    except BaseException:
        # The parent finds no answer, does the work itself, and meets the same fault.
        return
    finally:
        os._exit(0)


# The backward graph of a function, lowered on a second core while this one lowers its forward graph.
#
# It depends on forward in one thing: how forward lays out the tensors that it keeps. The fork starts with a guess. If
# forward turns out to use another layout, that fork is ended and a new one is started.


class Ahead:
    def __init__(self, write: Callable[[Any, list], str | None]) -> None:
        # Gets the graph and its inputs; gives its code, or None where another process cannot give it.
        self._write = write
        self._graph: Any = None
        self._form: Any = None
        self._beside: Beside | None = None

    def guess(self, graph: Any) -> None:
        """The backward graph: it is final when forward is lowered."""
        self._graph = graph

    def begin(self, strides: Sequence[Any] = ()) -> None:
        """`strides`: of what forward keeps, which are the first inputs of backward; none where not known yet."""
        if self._graph is None:
            return
        inputs = [node.meta.get("val") for node in self._graph.graph.find_nodes(op="placeholder")]
        # What is not known until it runs belongs to no other process.
        if not all(isinstance(one, torch.Tensor) for one in inputs):
            return
        inputs = [_laid_out(one, place, strides) for place, one in enumerate(inputs)]
        form = _form(inputs)
        if self._beside is not None:
            if form == self._form:
                return
            self._beside.end()
        self._form = form
        self._beside = begin(lambda: self._write(self._graph, inputs))

    def code(self, inputs: list) -> str | None:
        """None where it has to be lowered here."""
        if self._beside is None or _form(inputs) != self._form:
            return None
        return self._beside.result()

    def end(self) -> None:
        if self._beside is not None:
            self._beside.end()
        self._graph = self._beside = None


def _laid_out(tensor: Any, place: int, strides: Sequence[Any]) -> Any:
    found = strides[place] if place < len(strides) else None
    if found is None or tuple(tensor.stride()) == tuple(found):
        return tensor
    return tensor.as_strided(tensor.size(), found)


def _form(inputs: list) -> Any:
    return [
        (one.shape, one.stride(), one.dtype, one.device) if isinstance(one, torch.Tensor) else None
        for one in inputs
    ]
