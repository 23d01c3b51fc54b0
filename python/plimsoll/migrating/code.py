"""A Python file as it was read: its tree, where each node lies in its bytes, and what its names stand for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

# The byte order mark that some editors write at the beginning of a file.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CODING = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")


class NotUnderstood(Exception):
    """The file is left alone, for this reason."""


@dataclass(frozen=True)
class Edit:
    """Bytes from `start` up to `end` are replaced."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Finding:
    """Something that could be better; without edits it is for a person to decide."""

    rule: str
    line: int
    message: str
    edits: tuple[Edit, ...] = ()
    #: Modules that the new code needs.
    needs: tuple[str, ...] = ()


@dataclass
class Code:
    data: bytes
    tree: ast.Module
    starts: list[int]
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where a node lies, in bytes."""
        start = self.starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = self.starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return start, end

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.data[start:end].decode()

    def replace(self, node: ast.AST, text: str) -> Edit:
        return Edit(*self.span(node), text)

    def full_name(self, node: ast.AST) -> str:
        """What an expression names by the imports of the file, as `torch.cuda.amp.autocast`; else nothing."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, "")
        if isinstance(node, ast.Attribute):
            base = self.full_name(node.value)
            return f"{base}.{node.attr}" if base else ""
        return ""

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, from the inside out."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def calls(self) -> Iterator[ast.Call]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))


def read_code(data: bytes) -> Code:
    """Parses a file; `NotUnderstood` says why it cannot be."""
    for line in data.split(b"\n", 2)[:2]:
        coding = _CODING.match(line)
        if coding and coding[1].lower().replace(b"_", b"-") not in (b"utf-8", b"utf8", b"ascii"):
            raise NotUnderstood(f"its encoding is {coding[1].decode(errors='replace')}, not UTF-8")
    if data.startswith(_BYTE_ORDER_MARK):
        raise NotUnderstood("it begins with a byte order mark")
    if b"\f" in data:
        raise NotUnderstood("it holds form feeds, which shift positions")
    try:
        data.decode()
        tree = ast.parse(data)
    except UnicodeDecodeError as error:
        raise NotUnderstood("it is not UTF-8 text") from error
    except SyntaxError as error:
        raise NotUnderstood(f"line {error.lineno or 1}: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise NotUnderstood(f"Python cannot parse it ({type(error).__name__})") from error
    starts, at = [], 0
    for line in data.splitlines(keepends=True):
        starts.append(at)
        at += len(line)
    code = Code(data, tree, starts or [0])
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            code.parents[child] = node
    code.names = _imported(tree)
    return code


def _imported(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for; one that is bound in two ways stands for nothing."""
    names: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                full = alias.name if alias.asname else alias.name.split(".")[0]
                names.setdefault(alias.asname or full, set()).add(full)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names.setdefault(alias.asname or alias.name, set()).add(
                    f"{node.module}.{alias.name}"
                )
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.setdefault(node.id, set()).add("")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.setdefault(node.name, set()).add("")
        elif isinstance(node, ast.arg):
            names.setdefault(node.arg, set()).add("")
    return {name: full.pop() for name, full in names.items() if len(full) == 1 and "" not in full}


# Whole statements: taken out of a file without leaving an empty block.


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
