"""Batch sizes written into the program, which no one outside can lower when memory is short."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..code import Code, Finding

RULE = "fixed-batch"
_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")


def find(code: Code) -> Iterator[Finding]:
    for call in code.calls():
        if code.full_name(call.func) not in _LOADERS:
            continue
        for keyword in call.keywords:
            size = keyword.value
            if keyword.arg != "batch_size" or not isinstance(size, ast.Constant):
                continue
            if isinstance(size.value, int) and size.value > 1:
                message = (
                    f"the batch size {size.value} is fixed; as an option of the program, plimsoll run "
                    f"--batch-size {size.value} -- python ... --batch-size {{batch_size}} --accumulate "
                    "{accumulation} keeps the effective batch when memory is short"
                )
                yield Finding(RULE, size.lineno, message)
