"""`torch.cuda.empty_cache()` in a loop: it waits for the GPU, and the next step asks for the same memory again."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..code import Code, Finding
from ..statements import removal

RULE = "empty-cache"


def find(code: Code) -> Iterator[Finding]:
    for call in code.calls():
        if code.full_name(call.func) != "torch.cuda.empty_cache":
            continue
        statement = code.parents[call]
        around = list(code.above(call))
        loop = next((node for node in around if isinstance(node, (ast.For, ast.While))), None)
        inside = around[: around.index(loop)] if loop else around
        ends_at_function = any(
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) for node in inside
        )
        if loop is None or ends_at_function:
            continue
        message = "empty_cache in a loop waits for the GPU and gives back what the next step asks for again"
        plain = isinstance(statement, ast.Expr) and all(
            isinstance(node, (ast.Expr, ast.With)) for node in inside
        )
        taken = removal(code, statement) if plain and isinstance(statement, ast.Expr) else None
        if taken is None:
            yield Finding(
                RULE, call.lineno, f"{message}; it has a condition, so look at it yourself"
            )
        else:
            yield Finding(RULE, call.lineno, message, (taken,))
