"""`optimizer.step()` that fails half-way: noticed, and rolled back where a copy was kept."""

from __future__ import annotations

import logging
from typing import Any, Callable

from ...arguments import one_of
from ...failure import JOB_FAILED, Failure

log = logging.getLogger("plimsoll")

WAYS = ("first", "always", "never")
# An optimizer's states and the temporary copies of its step take less than this many times its parameters.
ROOMY = 6


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
        self._before: list[tuple[Any, int]] = []
        self._states: dict[Any, dict[str, Any]] = {}
        self._copies: list[tuple[Any, Any]] | None = None
        self._stepped = False
        self._broken: str | None = None

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
        self._states = {p: _kept(state) for p, state in self._optimizer.state.items()}
        tensors = self._tensors()
        self._before = [(tensor, tensor._version) for tensor in tensors]
        first = self._backup == "first" and not self._states and not self._stepped
        wanted = self._backup == "always" or (first and not self._is_roomy(tensors))
        self._copies = self._copied(tensors) if wanted else None

    def after_step(self) -> None:
        self._before, self._states, self._copies = [], {}, None
        self._stepped = True

    def roll_back(self) -> None:
        """Puts all back as before the step, or refuses: a step must never be applied in part."""
        changed = self._changes()
        if self._copies is not None:
            self._write_copies()
        elif changed:
            self._broken = (
                f"optimizer.step() ran out of memory after it had changed {changed} of its "
                f"{len(self._before)} parameters and states; going on would train a broken model"
            )
            self.check()
        # States that this step began to make are made again; some have only a part of their keys.
        for parameter in list(self._optimizer.state):
            if parameter in self._states:
                self._optimizer.state[parameter] = _kept(self._states[parameter])
            else:
                del self._optimizer.state[parameter]

    def _is_roomy(self, tensors: list[Any]) -> bool:
        """Whether so much is free that the first step cannot run out of memory: no copy is needed then."""
        needed = ROOMY * sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        return self._room is not None and self._room() >= needed

    def _changes(self) -> int:
        """How much of what was there, or was made since, shows that the step had begun.

        Fused kernels leave the versions of parameters as they are, but count their steps first.
        """
        now = self._optimizer.state
        numbers = (
            now.get(parameter, {}).get(key) != value
            for parameter, state in self._states.items()
            for key, value in state.items()
            if isinstance(value, (int, float))
        )
        made = (
            state.get("step", 0)
            for parameter, state in now.items()
            if parameter not in self._states
        )
        begun = (one._version > 0 if hasattr(one, "_version") else one > 0 for one in made)
        return (
            sum(tensor._version != version for tensor, version in self._before)
            + sum(numbers)
            + sum(begun)
        )

    def _copied(self, tensors: list[Any]) -> list[tuple[Any, Any]] | None:
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

    def _tensors(self) -> list[Any]:
        found = [p for group in self._optimizer.param_groups for p in group["params"]]
        for state in self._states.values():
            found += [value for value in state.values() if hasattr(value, "_version")]
            # LBFGS keeps what it knows of the past in lists.
            lists = [value for value in state.values() if isinstance(value, list)]
            found += [one for value in lists for one in value if hasattr(one, "_version")]
        return found


def _kept(state: dict[str, Any]) -> dict[str, Any]:
    """A copy that does not change with the state; the tensors in it are the same."""
    return {key: list(value) if isinstance(value, list) else value for key, value in state.items()}
