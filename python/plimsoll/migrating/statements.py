"""Whole statements: taken out of a file without leaving an empty block."""

from __future__ import annotations

import ast

from .code import Code, Edit


def removal(code: Code, statement: ast.stmt) -> Edit | None:
    """Takes a statement out with its lines; None where it shares a line with something else."""
    start, end = code.span(statement)
    line_start = code.starts[statement.lineno - 1]
    last = statement.end_lineno or statement.lineno
    line_end = code.starts[last] if last < len(code.starts) else len(code.data)
    before = code.data[line_start:start]
    after = code.data[end:line_end].strip()
    if before.strip() or (after and not after.startswith(b"#")):
        return None
    if not _stays_whole(code, statement):
        return Edit(start, end, "pass")
    return Edit(line_start, line_end, "")


def _stays_whole(code: Code, statement: ast.stmt) -> bool:
    """Whether its block has another statement; the last of a block becomes `pass`."""
    parent = code.parents[statement]
    if isinstance(parent, ast.Module):
        return True
    for block in ("body", "orelse", "finalbody"):
        statements = getattr(parent, block, None)
        if isinstance(statements, list) and statement in statements:
            return len(statements) > 1
    return False
