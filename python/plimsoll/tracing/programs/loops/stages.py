"""Trainings in stages: an optimizer whose parameters another has taken over no longer steps.

A program that trains the head of a network first, and then all of it, makes a second optimizer and keeps the first. To
wait for steps of the first would run all batches of each epoch.
"""

from __future__ import annotations

from typing import Any


class Stages:
    def __init__(self) -> None:
        # By the `id` of an optimizer that exists: its parameters, and those that it may have taken over from.
        self._parameters: dict[int, set[int]] = {}
        self._earlier: dict[int, set[int]] = {}
        self._over: set[int] = set()

    def made(self, optimizer: Any, steps_of: dict[int, int]) -> None:
        """steps_of: how many each of the others has made."""
        mine = {id(one) for group in optimizer.param_groups for one in group["params"]}
        others = [key for key, parameters in self._parameters.items() if parameters & mine]
        self._parameters[id(optimizer)] = mine
        self._earlier[id(optimizer)] = {key for key in others if steps_of.get(key)}

    def stepped(self, key: int) -> None:
        """Those it took over from are over, unless one of them steps again: then both are used in turn."""
        self._over |= self._earlier.pop(key, set())
        self._over.discard(key)
        for earlier in self._earlier.values():
            earlier.discard(key)

    def gone(self, key: int) -> None:
        self._parameters.pop(key, None)
        self._earlier.pop(key, None)
        self._over.discard(key)
        for earlier in self._earlier.values():
            earlier.discard(key)

    def is_over(self, key: int) -> bool:
        return key in self._over
