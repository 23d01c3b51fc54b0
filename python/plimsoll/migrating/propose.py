"""What could change in one file: findings, and the new text with all that can be changed safely."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace

from . import rules
from .code import Code, Edit, Finding, NotUnderstood, read_code


@dataclass(frozen=True)
class Proposal:
    findings: tuple[Finding, ...]
    #: The new bytes; the same as before where nothing can be changed safely.
    data: bytes


# A file with none of these words has nothing to change, and need not be parsed.
_WORDS = re.compile(
    rb"environ|putenv|amp|empty_cache|BitsAndBytesConfig|out of memory|OutOfMemory|DataLoader",
    re.IGNORECASE,
)


def propose(data: bytes, debug_settings: dict[str, list[str] | None]) -> Proposal:
    """Nothing outside of a finding changes, but for an import that the new code needs.

    Raises `NotUnderstood` for a file that Python cannot parse.
    """
    if not _WORDS.search(data):
        return Proposal((), data)
    code = read_code(data)
    found = [
        *rules.find_environment(code, debug_settings),
        *rules.find_quantization(code),
        *rules.find_retries(code),
        *rules.find_mixed_precision(code),
        *rules.find_caches(code),
        *rules.find_batch_size(code),
    ]
    found.sort(key=lambda finding: (finding.line, finding.rule))
    chosen, edits = _without_overlap(found)
    needed = sorted({name for finding in chosen for name in finding.needs if finding.edits})
    edits += [edit for name in needed for edit in _import_edit(code, name)]
    changed = _applied(data, edits)
    if changed == data:
        return Proposal(tuple(chosen), data)
    try:
        ast.parse(changed)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        left = tuple(
            replace(finding, edits=(), message=f"{finding.message}; change it by hand")
            for finding in chosen
        )
        return Proposal(left, data)
    return Proposal(tuple(chosen), changed)


def _without_overlap(found: list[Finding]) -> tuple[list[Finding], list[Edit]]:
    taken: list[Edit] = []
    chosen = []
    for finding in found:
        clashes = any(
            edit.start < other.end and other.start < edit.end
            for edit in finding.edits
            for other in taken
        )
        if clashes:
            text = f"{finding.message}; run it again after the other change there"
            chosen.append(replace(finding, edits=(), message=text))
            continue
        taken += finding.edits
        chosen.append(finding)
    return chosen, taken


def _import_edit(code: Code, module: str) -> list[Edit]:
    """An import after the last of those at the top of the file."""
    if code.names.get(module) == module:
        return []
    last: ast.stmt | None = None
    for statement in code.tree.body:
        doc = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not doc and not isinstance(statement, (ast.Import, ast.ImportFrom)):
            break
        last = statement
    if last is None:
        return [Edit(0, 0, f"import {module}\n")]
    line = last.end_lineno or last.lineno
    at = code.starts[line] if line < len(code.starts) else len(code.data)
    ending = "\r\n" if b"\r\n" in code.data[: at or 1] else "\n"
    before = "" if code.data[:at].endswith((b"\n", b"\r")) else ending
    return [Edit(at, at, f"{before}import {module}{ending}")]


def _applied(data: bytes, edits: list[Edit]) -> bytes:
    # Of two at one place the first in the list comes first in the text; one may be an import beside a line that goes.
    parts, at = [], 0
    for edit in sorted(edits, key=lambda edit: edit.start):
        parts += [data[at : edit.start], edit.text.encode()]
        at = max(at, edit.end)
    return b"".join([*parts, data[at:]])


__all__ = ["NotUnderstood", "Proposal", "propose"]
