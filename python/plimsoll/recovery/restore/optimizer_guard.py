"""`optimizer.step()` that fails half-way: noticed, and rolled back where a copy was kept."""

from __future__ import annotations

import logging
import weakref
from itertools import chain
from typing import Any, Callable

from ...arguments import one_of
from ...failure import JOB_FAILED, Failure
from ...memory.gauge import HostGauge
from .counted import Counted, began

log = logging.getLogger("plimsoll")

WAYS = ("first", "always", "never")
# An optimizer's states and the temporary copies of its step take less than this many times its parameters.
ROOMY = 6
# A copy may fill the host to half of what it has left: more, and the kernel could end the job for it.
HOST_SHARE = 0.5

_guarded: weakref.WeakSet[Any] = weakref.WeakSet()


def is_guarded(optimizer: Any) -> bool:
    """Whether a guard of ours looks after this optimizer's step."""
    return optimizer in _guarded


class OptimizerGuard:
    """Watches one optimizer's step.

    `first` keeps a copy on the host during the first step only: that one makes the optimizer's
    states and is by far the likeliest to run out of memory. `always` copies before each step.
    """

    def __init__(
        self, optimizer: Any, backup: str = "first", room: Callable[[], int] | None = None
    ) -> None:
        one_of("backup", backup, WAYS)
        self._optimizer = optimizer
        self._backup = backup
        self._room = room
        self._all = Before(optimizer)
        self._counted = Counted(optimizer)
        self._before: Before | Counted = self._all
        self._copies: list[tuple[Any, Any]] | None = None
        self._stepped = False
        self._broken: str | None = None
        if type(optimizer).__weakrefoffset__:
            _guarded.add(optimizer)

    def check(self) -> None:
        """Refuses every step after one that was left half done: the model is broken until it is loaded again."""
        if self._broken is None:
            return
        raise Failure(
            "half-done-step",
            self._broken,
            "load the last checkpoint and make a new step, with backup='always' so that a step can be rolled back",
            status=JOB_FAILED,
        )

    def before_step(self) -> None:
        self._copies = None
        if self._backup != "always" and self._counted.mark():
            self._before = self._counted
            return
        self._before = self._all
        self._all.mark()
        first = self._backup == "first" and not self._all.parameters and not self._stepped
        if self._backup == "always" or (first and not self._is_roomy(self._all.tensors())):
            self._copies = self._copied(self._all.tensors())

    def after_step(self) -> None:
        self._before.forget()
        self._copies = None
        self._stepped = True

    def roll_back(self) -> None:
        """Puts all back as before the step, or refuses: a step must never be applied in part."""
        changed = self._before.changes()
        if self._copies is not None:
            self._write_copies()
        elif changed:
            self._broken = (
                f"optimizer.step() ran out of memory after it had changed {changed} or more of its "
                "parameters and states; going on would train a broken model"
            )
            self.check()
        self._before.put_states_back()

    def _is_roomy(self, tensors: list[Any]) -> bool:
        """Whether so much is free that the first step cannot run out of memory: no copy is needed then."""
        needed = ROOMY * sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        return self._room is not None and self._room() >= needed

    def _copied(self, tensors: list[Any]) -> list[tuple[Any, Any]] | None:
        needed = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        host = HostGauge()
        if needed > HOST_SHARE * (host.capacity_bytes() - host.used_bytes()):
            log.warning("plimsoll: the optimizer's step is not backed up: the host is too full")
            return None
        try:
            return [(tensor, tensor.detach().to("cpu", copy=True)) for tensor in tensors]
        except (MemoryError, RuntimeError) as error:
            log.warning("plimsoll: no room on the host to back up the optimizer's step (%s)", error)
            return None

    def _write_copies(self) -> None:
        import torch

        with torch.no_grad():
            for tensor, copy in self._copies or []:
                tensor.copy_(copy)


class Before:
    """All that an optimizer held before its step, in a few flat lists.

    A dict for each parameter would cost several times as much, and wake Python's collector.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self.forget()

    def forget(self) -> None:
        self.parameters: list[Any] = []
        self._watched: list[Any] = []
        self._versions: list[int] = []
        self._lengths: list[int] = []
        self._keys: list[str] = []
        self._values: list[Any] = []
        self._own: dict[Any, Any] = {}

    def mark(self) -> None:
        state = self._optimizer.state
        states = [one for one in state.values() if isinstance(one, dict)]
        self.parameters = list(state)
        if len(states) < len(state):
            # Beside the states of parameters some keep numbers of their own.
            self._own = {key: one for key, one in state.items() if not isinstance(one, dict)}
            self.parameters = [key for key, one in state.items() if isinstance(one, dict)]
        self._lengths = list(map(len, states))
        self._keys = list(chain.from_iterable(states))
        self._values = list(chain.from_iterable(one.values() for one in states))
        if not all(hasattr(kind, "_version") for kind in set(map(type, self._values))):
            # Lists, as LBFGS keeps them of the past, change in place.
            self._values = [list(one) if isinstance(one, list) else one for one in self._values]
        self._watched = self.tensors()
        self._versions = [tensor._version for tensor in self._watched]

    def _parameters(self) -> list[Any]:
        return [p for group in self._optimizer.param_groups for p in group["params"]]

    def tensors(self) -> list[Any]:
        """All that a step changes and that is there before it."""
        lists = [one for one in self._values if isinstance(one, list)]
        values = chain(self._values, *lists)
        return self._parameters() + [one for one in values if hasattr(type(one), "_version")]

    def changes(self) -> int:
        """How much of what was there, or was made since, shows that the step had begun.

        Fused kernels leave the versions of parameters as they are, but count their steps first.
        """
        states, now = self._states(), self._optimizer.state
        numbers = [
            now.get(parameter, {}).get(key) != value
            for parameter, state in states.items()
            for key, value in state.items()
            if isinstance(value, (int, float))
        ]
        numbers += [
            now.get(key) != one for key, one in self._own.items() if isinstance(one, (int, float))
        ]
        begun = (
            began(state)
            for parameter, state in now.items()
            if parameter not in states and isinstance(state, dict)
        )
        versions = (
            tensor._version != version for tensor, version in zip(self._watched, self._versions)
        )
        return sum(versions) + sum(numbers) + sum(begun)

    def put_states_back(self) -> None:
        """States that the step began to make are made again; some have only a part of their keys."""
        states, now = self._states(), self._optimizer.state
        now.clear()
        now.update({**states, **self._own})

    def _states(self) -> dict[Any, dict[str, Any]]:
        """Each parameter's states as they were; lists in them are copies that may be handed out."""
        values = (list(one) if isinstance(one, list) else one for one in self._values)
        pairs = zip(self._keys, values)
        return {
            parameter: dict(next(pairs) for _ in range(length))
            for parameter, length in zip(self.parameters, self._lengths)
        }
