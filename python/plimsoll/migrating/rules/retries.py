"""Out-of-memory handled by hand: told by the words of an error, or by an exception of one library."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..code import Code, Finding

RULE = "out-of-memory"
_EXCEPTIONS = ("torch.cuda.OutOfMemoryError", "torch.OutOfMemoryError")
_RETRY = "plimsoll.recovering repeats the step with smaller microbatches and the same gradients"


def find(code: Code) -> Iterator[Finding]:
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Compare) and (error := _matched_by_words(code, node)):
            message = (
                "the words of one library were looked for; plimsoll.recognise knows those of all"
            )
            edit = code.replace(node, f"(plimsoll.recognise({error}) is not None)")
            yield Finding(RULE, node.lineno, message, (edit,), ("plimsoll",))
        elif isinstance(node, ast.ExceptHandler) and node.type is not None:
            kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            if any(code.full_name(kind) in _EXCEPTIONS for kind in kinds):
                yield Finding(RULE, node.lineno, f"out-of-memory is handled by hand; {_RETRY}")


def _matched_by_words(code: Code, node: ast.Compare) -> str:
    """The name of the error in `"out of memory" in str(error)`, inside the handler that caught it."""
    if len(node.ops) != 1 or not isinstance(node.ops[0], ast.In):
        return ""
    words, text = node.left, node.comparators[0]
    if not isinstance(words, ast.Constant) or not isinstance(words.value, str):
        return ""
    if "out of memory" not in words.value.lower():
        return ""
    # str(error).lower() as well as str(error).
    while isinstance(text, ast.Call) and isinstance(text.func, ast.Attribute) and not text.args:
        text = text.func.value
    if not (
        isinstance(text, ast.Call)
        and isinstance(text.func, ast.Name)
        and text.func.id == "str"
        and len(text.args) == 1
        and isinstance(text.args[0], ast.Name)
    ):
        return ""
    error = text.args[0].id
    caught = any(
        isinstance(parent, ast.ExceptHandler) and parent.name == error
        for parent in code.above(node)
    )
    return error if caught else ""
