"""Sums of decision trees that were fitted to measurements: reads them from their file and evaluates them.

A tree is a number, or a question `[feature, threshold, tree up to it, tree above it]`. The numbers of all trees of a
forest add up to 100 times the logarithm of the odds that a kernel is taken.

The first line of a file tells its features, its forests with their scores, and the versions, the card and the
measurements that they were fitted to. Each further line holds the trees of one forest.
`python/tools/fit_kernels.py` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import exp, isfinite
from typing import Any, Union

from .files import Damaged, content_of, is_list_of, parsed, shipped

FORMAT = "plimsoll.forests/1"
# Ours have 37 features, 9 forests and 121 trees with 24 leaves at most.
_MAX_FEATURES, _MAX_FORESTS, _MAX_TREES, _MAX_DEPTH = 1000, 1000, 10_000, 100
# The exponential of a hundredth of a larger sum is no number.
_LARGEST_SUM = 70_000

Tree = Union[int, list]


def chance(trees: Sequence[Tree], values: Sequence[float]) -> float:
    """How likely it is that the kernel is taken."""
    total = 0
    for tree in trees:
        node: Any = tree
        while type(node) is list:
            feature, threshold, low, high = node
            node = low if values[feature] <= threshold else high
        total += node
    return 1 / (1 + exp(-total / 100))


class Table:
    """The forests of one file, by name. Each is parsed and checked at its first use."""

    def __init__(self, path: str):
        self.path = path
        header, *lines = content_of(path).splitlines() or [b""]
        self.about: dict[str, Any] = parsed(header, path)
        if not isinstance(self.about, dict) or self.about.get("format") != FORMAT:
            raise Damaged(path, f'its first line does not say "format": "{FORMAT}"')
        self.features: list[str] = self.about.get("features", [])
        if not is_list_of(str, self.features, _MAX_FEATURES):
            raise Damaged(path, "it names no features")
        forests: Any = self.about.get("forests")
        if not is_list_of(dict, forests, _MAX_FORESTS) or len(lines) != len(forests):
            raise Damaged(path, "it does not have a line for each forest")
        self._lines = {forest.get("name"): line for forest, line in zip(forests, lines)}
        self._checked: dict[str, list[Tree]] = {}

    def trees(self, name: str) -> list[Tree] | None:
        """The trees of a forest, or None where the file has none of this name."""
        if name not in self._checked and name in self._lines:
            self._checked[name] = self._parsed(name)
        return self._checked.get(name)

    def chance(self, name: str, features: Mapping[str, float]) -> float | None:
        """How likely it is that the kernel is taken, or None where the file has no forest of this name."""
        trees = self.trees(name)
        if trees is None:
            return None
        try:
            # Floats are compared faster than whole numbers.
            values = [float(features[feature]) for feature in self.features]
        except KeyError as unknown:
            raise Damaged(self.path, f"it asks for a feature {unknown}, which is unknown") from None
        return chance(trees, values)

    def _parsed(self, name: str) -> list[Tree]:
        trees: Any = parsed(self._lines[name], self.path)
        if not is_list_of((int, list), trees, _MAX_TREES):
            raise Damaged(self.path, f'the forest "{name}" has no trees')
        largest = _LARGEST_SUM // len(trees)
        rest = trees
        for _ in range(_MAX_DEPTH):
            rest = [child for node in rest for child in self._answers(node, largest)]
            if not rest:
                return trees
        raise Damaged(self.path, f'the forest "{name}" has trees deeper than {_MAX_DEPTH}')

    def _answers(self, node: Any, largest: int) -> Sequence[Any]:
        """The two answers to a question; none below a number."""
        if type(node) is int and -largest <= node <= largest:
            return ()
        if type(node) is list and len(node) == 4:
            feature, threshold, *answers = node
            known = type(feature) is int and 0 <= feature < len(self.features)
            if known and type(threshold) is float and isfinite(threshold):
                return answers
        raise Damaged(self.path, f"{str(node)[:80]} is neither a question nor a number")


@cache
def table(name: str) -> Table:
    """A table that ships with this package; its file is read at the first use."""
    return Table(shipped(f"{name}.json.gz"))
