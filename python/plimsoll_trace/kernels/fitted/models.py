"""Models that were fitted to recorded kernels, and the files that hold them."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from math import exp, isfinite
from typing import Any, Callable, NamedTuple, Union

from plimsoll.failure import Failure

# Reads the files of this folder as if a stranger had written them.

_FOLDER = os.path.dirname(os.path.abspath(__file__))
# Python's own: while a trace runs, `open` shows the files as the traced program has left them.
_open = open
# The largest of ours has 120 kB, and 400 kB unpacked.
_MAX_PACKED, _MAX_BYTES = 4 << 20, 32 << 20
_GZIP = 31


class Damaged(Failure):
    def __init__(self, path: str, why: str):
        fact = f"the file {os.path.basename(path)} cannot be used: {why}"
        super().__init__("damaged-file", fact, "install plimsoll again", path)


def shipped(name: str) -> str:
    """The path of a file that ships with this package."""
    return os.path.join(_FOLDER, name)


def content_of(path: str) -> bytes:
    """The bytes of a file, unpacked where gzip packed it."""
    try:
        with _open(path, "rb") as file:
            data = file.read(_MAX_PACKED + 1)
    except OSError as error:
        raise Damaged(path, error.strerror or str(error)) from None
    if len(data) > _MAX_PACKED:
        raise Damaged(path, f"it has more than {_MAX_PACKED} bytes")
    return _unpacked(data, path) if path.endswith(".gz") else data


def _unpacked(data: bytes, path: str) -> bytes:
    unpacker = zlib.decompressobj(_GZIP)
    try:
        content = unpacker.decompress(data, _MAX_BYTES)
    except zlib.error as error:
        raise Damaged(path, str(error)) from None
    # gzip's checksum stands at the end.
    if not unpacker.eof:
        raise Damaged(path, f"it is cut off, or has more than {_MAX_BYTES} bytes unpacked")
    return content


def parsed(data: bytes, path: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Damaged(path, f"it is not JSON: {error}") from None


def is_list_of(kind: Any, value: Any, most: int) -> bool:
    return (
        isinstance(value, list)
        and 0 < len(value) <= most
        and all(isinstance(item, kind) for item in value)
    )


# Sums of decision trees that were fitted to measurements: reads them from their file and evaluates them.
#
# A tree is a number, or a question `[feature, threshold, tree up to it, tree above it]`. The numbers of all trees of a
# forest add up to 100 times the logarithm of the odds that a kernel is taken.
#
# The first line of a file tells its features, its forests with their scores, and the versions, the card and the
# measurements that they were fitted to. Each further line holds the trees of one forest.
# `python/tools/fit_kernels.py` writes it.

FORESTS_FORMAT = "plimsoll.forests/1"
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
        if not isinstance(self.about, dict) or self.about.get("format") != FORESTS_FORMAT:
            raise Damaged(path, f'its first line does not say "format": "{FORESTS_FORMAT}"')
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


# Kinds of convolutions that few layers were measured of: rows that decide where no trees were fitted, or limit them.
#
# `rules.json` holds a row for each, with the number of layers that it came from and how many of them took its kernel.
# Of the rows of a group the first decides whose conditions all hold.

RULES_FORMAT = "plimsoll.rules/1"
# Ours are 15, with at most 11 conditions.
_MAX_RULES, _MAX_CONDITIONS = 1000, 100
_GRADIENTS = ("forward", "grad_input", "grad_weight")
# A rule says how likely its kernel is taken, or corrects what the trees say.
_TREES = "trees"

Fact = Union[str, bool, float]


class Rule(NamedTuple):
    name: str
    group: str
    which: list[str]
    # A value of a fact, or the least and the most that it may be; null is no limit.
    when: dict[str, Any]
    # "ranked" where none is taken of those that are left out; "trees" where they say how likely it is.
    kernel: str
    # How likely the kernel is taken; with "trees" the least or the most that they are believed.
    chance: float
    least: float
    most: float
    # Trees that are at least so sure are believed.
    sure: float
    # How many layers were measured, of which so many took the kernel.
    layers: int
    taken: int

    @property
    def corrects_trees(self) -> bool:
        return self.kernel == _TREES

    def corrected(self, likely: float) -> float:
        return likely if likely >= self.sure else min(max(likely, self.least), self.most)

    def holds(self, which: str, fact: Callable[[str], Fact]) -> bool:
        return which in self.which and all(
            _fits(fact(name), wanted) for name, wanted in self.when.items()
        )


def _fits(value: Any, wanted: Any) -> bool:
    if not isinstance(wanted, list):
        return value == wanted
    least, most = wanted
    return (least is None or value >= least) and (most is None or value <= most)


def first(group: str, which: str, fact: Callable[[str], Fact]) -> Rule | None:
    """The rule of a group that decides; facts are asked for by name."""
    return next((rule for rule in rule_table().get(group, ()) if rule.holds(which, fact)), None)


@cache
def rule_table() -> dict[str, list[Rule]]:
    """The rules that ship with this package, by group; their file is read at the first use."""
    return read(shipped("rules.json"))


def read(path: str) -> dict[str, list[Rule]]:
    document = parsed(content_of(path), path)
    if not isinstance(document, dict) or document.get("format") != RULES_FORMAT:
        raise Damaged(path, f'it does not say "format": "{RULES_FORMAT}"')
    if not is_list_of(dict, document.get("rules"), _MAX_RULES):
        raise Damaged(path, "it has no rules")
    found: dict[str, list[Rule]] = {}
    for row in document["rules"]:
        rule = _rule(row, path)
        found.setdefault(rule.group, []).append(rule)
    return found


def _rule(row: dict[str, Any], path: str) -> Rule:
    texts = [row.get(key) for key in ("name", "group", "kernel")]
    chances = [row.get(key, default) for key, default in _CHANCES.items()]
    counts = [row.get(key) for key in ("layers", "taken")]
    which, when = row.get("which"), row.get("when")
    sound = (
        all(type(text) is str for text in texts)
        and all(type(chance) in (int, float) and 0 <= chance <= 1 for chance in chances)
        and all(type(count) is int and count >= 0 for count in counts)
        and is_list_of(str, which, len(_GRADIENTS))
        and set(which) <= set(_GRADIENTS)  # type: ignore[arg-type]
        and isinstance(when, dict)
        and len(when) <= _MAX_CONDITIONS
        and all(map(_is_condition, when.values()))
    )
    if not sound:
        raise Damaged(path, f"the rule {str(texts[0])[:80]!r} is not whole")
    name, group, kernel = texts
    return Rule(name, group, which, when, kernel, *chances, *counts)  # type: ignore[arg-type]


# What a row without these says.
_CHANCES = {"chance": 0, "least": 0, "most": 1, "sure": 1}


def _is_condition(wanted: Any) -> bool:
    if isinstance(wanted, list):
        return len(wanted) == 2 and all(end is None or type(end) in (int, float) for end in wanted)
    return type(wanted) in (str, bool, int, float)
