"""Helpers of the tests: ops watched as a trace watches them, and all that kernels take for themselves given back."""

from __future__ import annotations

from contextlib import contextmanager

from plimsoll_trace import ledger as kinds
from plimsoll_trace.gpu import H200
from plimsoll_trace.ledger import Ledger
from plimsoll_trace.module_names import ModuleNames
from plimsoll_trace.observer import Observer
from plimsoll_trace.standins.environment import cuda_like

# All is asked for on the first one.
_STREAM = 0


@contextmanager
def watched(libraries_open=True, gpu=H200):
    """An observer at work; by default cuBLAS has its workspaces already, as after a warm-up."""
    names = ModuleNames()
    observer = Observer(Ledger(), gpu, names.current)
    if libraries_open:
        for backward in (False, True):
            for library in ("cublas", "cublaslt"):
                observer.workspaces[(library, backward, _STREAM)] = 0
    with cuda_like(observer, names), observer:
        observer.category = kinds.ACTIVATION
        yield observer
    held = still_held(observer.ledger.events)
    assert not held, f"kernels gave nothing back of {held}"


def still_held(events):
    """The sizes of what kernels took for themselves and still hold."""
    taken = {
        event[1]: event[2] for event in events if event[0] == "a" and event[5] == kinds.TEMPORARY
    }
    for event in events:
        if event[0] == "f":
            taken.pop(event[1], None)
    return list(taken.values())


def asked_sizes(events):
    """What a record asks for. Scratch memory whose kernel is not sure may be none."""
    place = {"a": 2, "o": 1}
    sizes = (event[place[event[0]]] for event in events if event[0] in place)
    return [size for size in sizes if size > 0]


class Asked:
    """Reads what was asked for since it was last read."""

    def __init__(self, observer):
        self.events = observer.ledger.events
        self.read = len(self.events)

    def sizes(self):
        new = self.events[self.read :]
        self.read = len(self.events)
        return asked_sizes(new)
