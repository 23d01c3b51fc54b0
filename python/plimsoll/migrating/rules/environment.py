"""Settings for debugging that were left in a program: `os.environ["CUDA_LAUNCH_BLOCKING"] = "1"`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..code import Code, Finding
from ..statements import removal

RULE = "debug-environment"
# Where a production job sets none of them: each slows it down or blinds it.
_SETTERS = ("os.environ.setdefault", "os.putenv", "os.environ.__setitem__")


def find(code: Code, debug_settings: dict[str, list[str] | None]) -> Iterator[Finding]:
    """`debug_settings` has the values of a variable that are for debugging; None stands for any."""
    for node in ast.walk(code.tree):
        if not isinstance(node, (ast.Assign, ast.Expr)):
            continue
        name, value = _setting(code, node)
        if name not in debug_settings:
            continue
        values = debug_settings[name]
        if values is not None and value not in values:
            continue
        conditional = any(isinstance(parent, ast.If) for parent in code.above(node))
        taken = None if conditional else removal(code, node)
        message = f"{name}={value} is for debugging"
        if taken is None:
            yield Finding(RULE, node.lineno, f"{message}; look whether it is meant so")
        else:
            message += (
                "; in production it costs time. plimsoll env --mode debug sets it when needed"
            )
            yield Finding(RULE, node.lineno, message, (taken,))


def _setting(code: Code, node: ast.Assign | ast.Expr) -> tuple[str, str]:
    key: ast.expr | None = None
    value: ast.expr | None = None
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Subscript) and _is_own(code, target):
            key, value = target.slice, node.value
    elif isinstance(node.value, ast.Call) and code.full_name(node.value.func) in _SETTERS:
        key, value = node.value.args if len(node.value.args) == 2 else (None, None)
    if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
        return str(key.value), str(value.value)
    return "", ""


def _is_own(code: Code, target: ast.Subscript) -> bool:
    return code.full_name(target.value) == "os.environ"
