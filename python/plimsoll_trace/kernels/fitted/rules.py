"""Kinds of convolutions that few layers were measured of: rows that decide where no trees were fitted, or limit them.

`rules.json` holds a row for each, with the number of layers that it came from and how many of them took its kernel.
Of the rows of a group the first decides whose conditions all hold.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Callable, NamedTuple, Union

from .files import Damaged, content_of, is_list_of, parsed, shipped

FORMAT = "plimsoll.rules/1"
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
    return next((rule for rule in table().get(group, ()) if rule.holds(which, fact)), None)


@cache
def table() -> dict[str, list[Rule]]:
    """The rules that ship with this package, by group; their file is read at the first use."""
    return read(shipped("rules.json"))


def read(path: str) -> dict[str, list[Rule]]:
    document = parsed(content_of(path), path)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Damaged(path, f'it does not say "format": "{FORMAT}"')
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
