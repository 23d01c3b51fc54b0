"""`torch.cuda.amp`, which PyTorch deprecated for `torch.amp`, and `apex.amp`, which it replaced."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..code import Code, Edit, Finding

RULE = "mixed-precision"
_OLD = "torch.cuda.amp"
_KNOWN = ("autocast", "GradScaler")
_APEX = ("apex.amp.initialize", "apex.amp.scale_loss", "apex.amp.master_params")


def find(code: Code) -> Iterator[Finding]:
    if b"amp" not in code.data:
        return
    for call in code.calls():
        name = code.full_name(call.func)
        if name in _APEX:
            message = (
                f"{name} is replaced by torch.amp.autocast and GradScaler; change the loop by hand"
            )
            yield Finding(RULE, call.lineno, message)
    imports = list(_imports(code))
    calls = [call for call in code.calls() if _of(code, call.func)]
    reason = _not_understood(code, imports, calls)
    if reason:
        lines = [*(statement.lineno for statement, _ in imports), *(call.lineno for call in calls)]
        for line in lines:
            yield Finding(RULE, line, f"{_OLD} is deprecated; {reason}")
        return
    for statement, edit in imports:
        yield Finding(
            RULE, statement.lineno, f"{_OLD} is deprecated: torch.amp takes the device", (edit,)
        )
    for call in calls:
        edits = tuple(_call_edits(code, call))
        message = f"{_OLD}.{_of(code, call.func)} is deprecated: torch.amp takes the device"
        yield Finding(RULE, call.lineno, message, edits)


def _of(code: Code, node: ast.AST) -> str:
    """`autocast` or `GradScaler`, where a node names that of torch.cuda.amp."""
    full = code.full_name(node)
    return next((name for name in _KNOWN if full == f"{_OLD}.{name}"), "")


def _imports(code: Code) -> Iterator[tuple[ast.stmt, Edit]]:
    """Imports of the old module, and how each becomes one of the new."""
    for node in ast.walk(code.tree):
        text = code.text(node) if isinstance(node, (ast.Import, ast.ImportFrom)) else ""
        if isinstance(node, ast.ImportFrom) and not node.level and node.module == _OLD:
            yield node, code.replace(node, text.replace(_OLD, "torch.amp", 1))
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module == "torch.cuda":
            if any(alias.name == "amp" for alias in node.names):
                yield node, code.replace(node, text.replace("torch.cuda", "torch", 1))
        elif isinstance(node, ast.Import) and any(
            alias.name == _OLD and alias.asname for alias in node.names
        ):
            yield node, code.replace(node, text.replace(_OLD, "torch.amp", 1))


def _not_understood(code: Code, imports: list[tuple[ast.stmt, Edit]], calls: list[ast.Call]) -> str:
    """Why the file is left alone: a use of the old module that has no counterpart of the same form."""
    for statement, _ in imports:
        aliases = statement.names if isinstance(statement, (ast.Import, ast.ImportFrom)) else []
        if isinstance(statement, ast.ImportFrom) and statement.module == _OLD:
            other = next((alias.name for alias in aliases if alias.name not in _KNOWN), "")
            if other:
                return f"{other} must be changed by hand"
        elif len(aliases) != 1:
            return "its import names several modules"
        if any(isinstance(parent, (ast.Try, ast.If)) for parent in code.above(statement)):
            return "its import depends on the version of torch"
    if b"torch.amp" in code.data:
        return "the file has code for several versions of torch"
    called = {id(call.func) for call in calls}
    for node in ast.walk(code.tree):
        full = code.full_name(node)
        if full == f"{_OLD}.autocast" and id(node) not in called:
            return "autocast is used without being called"
        if full.startswith(f"{_OLD}.") and full.count(".") == 3 and not _of(code, node):
            return f"{full} must be changed by hand"
    for call in calls:
        if _of(code, call.func) == "autocast" and (
            len(call.args) > 1 or any(isinstance(arg, ast.Starred) for arg in call.args)
        ):
            return "autocast gets several arguments by their place"
        root = _root(call.func)
        if code.names.get(root.id) == "torch.cuda":
            return "torch.cuda is imported by itself"
    return ""


def _root(node: ast.expr) -> ast.Name:
    while isinstance(node, ast.Attribute):
        node = node.value
    assert isinstance(node, ast.Name)
    return node


def _call_edits(code: Code, call: ast.Call) -> Iterator[Edit]:
    root = _root(call.func)
    name = _of(code, call.func)
    if code.names.get(root.id) == "torch":
        yield code.replace(call.func, f"{root.id}.amp.{name}")
    _, func_end = code.span(call.func)
    opening = code.data.index(b"(", func_end) + 1
    empty = not call.args and not call.keywords
    yield Edit(opening, opening, '"cuda"' if empty else '"cuda", ')
    if name == "autocast" and call.args:
        start, _ = code.span(call.args[0])
        yield Edit(start, start, "enabled=")
