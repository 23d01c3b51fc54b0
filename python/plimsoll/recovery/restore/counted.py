"""PyTorch's own optimizers after their first step: a few counters tell whether a step has begun."""

from __future__ import annotations

from typing import Any


def is_of_torch(optimizer: Any) -> bool:
    return f"{type(optimizer).__module__}.".startswith("torch.optim.")


def began(state: Any) -> bool:
    """Whether the state of a parameter, made in a step, has been counted yet."""
    step = state.get("step", 0)
    return bool(step._version > 0 if hasattr(step, "_version") else step > 0)


class Counted:
    """What such an optimizer held before its step.

    It counts the step of a parameter before it changes anything else of it, and goes through its parameters in their
    order. So the first counter of each group tells whether a step has begun, where all states would take a hundred
    times as long to look at.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._is_known = is_of_torch(optimizer)
        self.forget()

    def forget(self) -> None:
        self._known = 0
        self._counters: list[tuple[Any, int]] = []

    def mark(self) -> bool:
        """False where there are no such counters: no states yet, numbers instead of tensors, another optimizer."""
        state = self._optimizer.state
        if not self._is_known or not state:
            return False
        firsts = [_first(group["params"]) for group in self._optimizer.param_groups]
        try:
            counters = [state[one]["step"] for one in firsts if one in state]
            self._counters = [(one, one._version) for one in counters]
        except (AttributeError, KeyError, TypeError):
            return False
        self._known = len(state)
        return bool(counters)

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


def _first(parameters: list[Any]) -> Any:
    """The first that the step will change."""
    return next((one for one in parameters if one.grad is not None), None)
