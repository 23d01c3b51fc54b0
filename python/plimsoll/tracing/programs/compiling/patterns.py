"""Patterns that Inductor looks for in a graph: those with an operation that the graph has nowhere are not tried.

It knows a hundred ways to write attention, and tries each of them at each division, transposition and view.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Callable
from unittest import mock

from torch._inductor import pattern_matcher
from torch._inductor.pattern_matcher import (
    FailedMatch,
    MultiOutputPattern,
    PatternExpr,
    PatternMatcherPass,
)

_FUNCTION = "call_function"
_NOWHERE = FailedMatch("an operation that the graph has nowhere")


@contextmanager
def possible_patterns() -> Iterator[None]:
    known = _Known()
    apply = PatternMatcherPass.apply

    def from_the_start(self: Any, graph: Any) -> int:
        # Between two passes, nodes are changed in place.
        known.state = None
        return apply(self, graph)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(PatternMatcherPass, "apply", from_the_start))
        # The second has a way to begin of its own.
        for kind in (PatternExpr, MultiOutputPattern):
            begin = _only_possible(kind.match, known)
            stack.enter_context(mock.patch.object(kind, "match", begin))
        yield


class _Known:
    def __init__(self) -> None:
        self._groups: dict[Any, set[frozenset]] = {}
        self._possible: dict[Any, bool] = {}
        # The graph that these hold for, and how many nodes were made in it: new ones may make patterns possible.
        self.state: tuple[Any, int, int] | None = None

    def is_possible(self, pattern: Any, graph: Any) -> bool:
        table = graph._find_nodes_lookup_table.table
        now = (graph, len(graph._graph_namespace._used_names), len(table))
        if now != self.state:
            self.state = now
            self._possible.clear()
        if pattern not in self._possible:
            if pattern not in self._groups:
                self._groups[pattern] = needed(pattern)
            groups = self._groups[pattern]
            self._possible[pattern] = all(_has_one(table, group) for group in groups)
        return self._possible[pattern]


def _only_possible(match: Callable, known: _Known) -> Callable:
    def only_possible(self: Any, node: Any) -> Any:
        return match(self, node) if known.is_possible(self, node.graph) else _NOWHERE

    return only_possible


def _has_one(table: dict, group: frozenset) -> bool:
    return any(table.get((_FUNCTION, target)) for target in group)


def needed(pattern: Any) -> set[frozenset]:
    """Operations that a graph with this pattern has: at least one of each group."""
    groups, seen, parts = set(), set(), [pattern]
    while parts:
        part = parts.pop()
        # Parts are shared, as the queries of attention are.
        if not isinstance(part, PatternExpr) or part in seen:
            continue
        seen.add(part)
        if isinstance(part, MultiOutputPattern):
            parts.extend(part.outputs)
        elif isinstance(part, pattern_matcher.ListOf):
            parts.append(part.pattern)
        elif isinstance(part, pattern_matcher.RepeatedExpr):
            parts.append(part.inner_pattern)
        elif isinstance(part, pattern_matcher._TargetExpr):
            if part.op == _FUNCTION:
                groups.add(frozenset(part.fns_set))
            parts.extend(getattr(part, "flat_args_kwargs", ((),))[0])
    return groups
