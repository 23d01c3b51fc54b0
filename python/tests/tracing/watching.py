"""Helpers of the tests: ops watched as a trace watches them."""

from __future__ import annotations

from contextlib import contextmanager

from plimsoll.tracing import ledger as kinds
from plimsoll.tracing.gpu import H200
from plimsoll.tracing.ledger import Ledger
from plimsoll.tracing.module_names import ModuleNames
from plimsoll.tracing.observer import Observer
from plimsoll.tracing.standins.environment import cuda_like


@contextmanager
def watched(libraries_open=True, gpu=H200):
    """An observer at work; by default cuBLAS has its workspaces already, as after a warm-up."""
    names = ModuleNames()
    observer = Observer(Ledger(), gpu, names.current)
    if libraries_open:
        for backward in (False, True):
            for library in ("cublas", "cublaslt"):
                observer.workspaces[(library, backward)] = 0
    with cuda_like(observer, names), observer:
        observer.category = kinds.ACTIVATION
        yield observer


class Asked:
    """Reads what was asked for since it was last read."""

    def __init__(self, observer):
        self.events = observer.ledger.events
        self.read = len(self.events)

    def sizes(self):
        new = self.events[self.read :]
        self.read = len(self.events)
        return [event[2] for event in new if event[0] == "a"]
