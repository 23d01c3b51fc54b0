"""PyTorch's own optimizers after their first step: a few counters tell whether a step has begun."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def is_of_torch(optimizer: Any) -> bool:
    return f"{type(optimizer).__module__}.".startswith("torch.optim.")


def began(state: Any) -> bool:
    """Whether the state of a parameter, made in a step, has been counted yet."""
    step = state.get("step", 0)
    return bool(step._version > 0 if hasattr(step, "_version") else step > 0)


class Counted:
    """What such an optimizer held before its step.

    It counts the step of a parameter before it changes anything else of it. Within a group it goes through parameters
    of one device and type together, those in their order; which of them come first is not said. So the first counter
    of each device and type tells whether a step has begun, where all states would take a hundred times as long to
    look at.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._is_known = is_of_torch(optimizer)
        self._alike: list[list[Any]] = []
        self._sizes: list[int] = []
        self.forget()

    def forget(self) -> None:
        self._known = 0
        self._counters: list[tuple[Any, int]] = []

    def mark(self) -> bool:
        """False without such counters: before the first step, where they are plain numbers, in others' optimizers."""
        state = self._optimizer.state
        if not self._is_known or not state:
            return False
        firsts = [_first(alike) for alike in self._parameters()]
        try:
            counters = [state[one]["step"] for one in firsts if one in state]
            self._counters = [(one, one._version) for one in counters]
        except (AttributeError, KeyError, TypeError):
            return False
        self._known = len(state)
        return bool(counters)

    def _parameters(self) -> list[list[Any]]:
        """Parameters by group, device and type; made again when parameters were added."""
        groups = [group["params"] for group in self._optimizer.param_groups]
        sizes = list(map(len, groups))
        if sizes != self._sizes:
            self._alike = [alike for group in groups for alike in _by_kind(group)]
            self._sizes = sizes
        return self._alike

    def changes(self) -> int:
        """How many groups and new states show that the step had begun."""
        moved = sum(one._version != before for one, before in self._counters)
        return moved + sum(began(self._optimizer.state[one]) for one in self._made())

    def put_states_back(self) -> None:
        """Takes away what the step began to make: states of parameters that had none."""
        for parameter in self._made():
            del self._optimizer.state[parameter]

    def _made(self) -> list[Any]:
        """States are added at the end, and those that are there stay as they are made."""
        return list(self._optimizer.state)[self._known :]


def _by_kind(parameters: list[Any]) -> Iterable[list[Any]]:
    kinds: dict[Any, list[Any]] = {}
    for one in parameters:
        kinds.setdefault((one.device, one.dtype), []).append(one)
    return kinds.values()


def _first(parameters: list[Any]) -> Any:
    """The first that the step will change."""
    return next((one for one in parameters if one.grad is not None), None)
