"""The rules of `plimsoll migrate`: each finds one kind of statement and says what could change."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .code import Code, Edit, Finding, removal

# Batch sizes written into the program, which no one outside can lower when memory is short.

_BATCH_SIZE = "fixed-batch"
_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")


def find_batch_size(code: Code) -> Iterator[Finding]:
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
                yield Finding(_BATCH_SIZE, size.lineno, message)


# `torch.cuda.empty_cache()` in a loop: it waits for the GPU, and the next step asks for the same memory again.

_CACHES = "empty-cache"


def find_caches(code: Code) -> Iterator[Finding]:
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
                _CACHES, call.lineno, f"{message}; it has a condition, so look at it yourself"
            )
        else:
            yield Finding(_CACHES, call.lineno, message, (taken,))


# Settings for debugging that were left in a program: `os.environ["CUDA_LAUNCH_BLOCKING"] = "1"`.

_ENVIRONMENT = "debug-environment"
# Where a production job sets none of them: each slows it down or blinds it.
_SETTERS = ("os.environ.setdefault", "os.putenv", "os.environ.__setitem__")


def find_environment(code: Code, debug_settings: dict[str, list[str] | None]) -> Iterator[Finding]:
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
            yield Finding(_ENVIRONMENT, node.lineno, f"{message}; look whether it is meant so")
        else:
            message += (
                "; in production it costs time. plimsoll env --mode debug sets it when needed"
            )
            yield Finding(_ENVIRONMENT, node.lineno, message, (taken,))


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


# `torch.cuda.amp`, which PyTorch deprecated for `torch.amp`, and `apex.amp`, which it replaced.

_MIXED_PRECISION = "mixed-precision"
_OLD = "torch.cuda.amp"
_KNOWN = ("autocast", "GradScaler")
_APEX = ("apex.amp.initialize", "apex.amp.scale_loss", "apex.amp.master_params")


def find_mixed_precision(code: Code) -> Iterator[Finding]:
    if b"amp" not in code.data:
        return
    for call in code.calls():
        name = code.full_name(call.func)
        if name in _APEX:
            message = (
                f"{name} is replaced by torch.amp.autocast and GradScaler; change the loop by hand"
            )
            yield Finding(_MIXED_PRECISION, call.lineno, message)
    imports = list(_imports(code))
    calls = [call for call in code.calls() if _of(code, call.func)]
    reason = _not_understood(code, imports, calls)
    if reason:
        lines = [*(statement.lineno for statement, _ in imports), *(call.lineno for call in calls)]
        for line in lines:
            yield Finding(_MIXED_PRECISION, line, f"{_OLD} is deprecated; {reason}")
        return
    for statement, edit in imports:
        yield Finding(
            _MIXED_PRECISION,
            statement.lineno,
            f"{_OLD} is deprecated: torch.amp takes the device",
            (edit,),
        )
    for call in calls:
        edits = tuple(_call_edits(code, call))
        message = f"{_OLD}.{_of(code, call.func)} is deprecated: torch.amp takes the device"
        yield Finding(_MIXED_PRECISION, call.lineno, message, edits)


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


# `BitsAndBytesConfig` written out where a preset of plimsoll says the same.

_QUANTIZATION = "quantization"
_CONFIG = "transformers.BitsAndBytesConfig"
_AUTO = "transformers.AutoModelForCausalLM.from_pretrained"
# Arguments of from_pretrained that a preset decides itself.
_DECIDED = ("quantization_config", "device_map", "torch_dtype", "dtype", "low_cpu_mem_usage")


def find_quantization(code: Code) -> Iterator[Finding]:
    for call in code.calls():
        if code.full_name(call.func) != _CONFIG:
            continue
        preset = _preset(call)
        if not preset:
            message = "a BitsAndBytesConfig of its own; plimsoll plan --save keeps one choice for each model"
            yield Finding(_QUANTIZATION, call.lineno, message)
            continue
        load = code.parents.get(code.parents.get(call, call))
        direct = isinstance(load, ast.Call) and code.full_name(load.func) == _AUTO
        if isinstance(load, ast.Call) and direct and _is_plain(load):
            source = code.text(load.args[0])
            edit = code.replace(load, f'plimsoll.load({source}, preset="{preset}")')
            message = f'this is plimsoll\'s preset "{preset}"; plimsoll.load falls back when it does not fit'
            yield Finding(_QUANTIZATION, load.lineno, message, (edit,), ("plimsoll",))
        else:
            message = (
                f'this is plimsoll\'s preset "{preset}": plimsoll.load(..., preset="{preset}")'
            )
            yield Finding(_QUANTIZATION, call.lineno, message)


def _is_plain(load: ast.Call) -> bool:
    names = [keyword.arg for keyword in load.keywords]
    return len(load.args) == 1 and all(name in _DECIDED for name in names)


def _preset(call: ast.Call) -> str:
    """The preset with exactly these settings; nothing where a value is not written out."""
    if call.args:
        return ""
    given: dict[str, object] = {}
    for keyword in call.keywords:
        if keyword.arg is None:
            return ""
        if keyword.arg == "bnb_4bit_compute_dtype":
            continue
        if not isinstance(keyword.value, ast.Constant):
            return ""
        given[keyword.arg] = keyword.value.value
    given = {name: value for name, value in given.items() if value is not False}
    if given == {"load_in_8bit": True}:
        return "int8"
    if (
        given.pop("bnb_4bit_quant_type", "fp4") != "nf4"
        or given.pop("load_in_4bit", None) is not True
    ):
        return ""
    if not given:
        return "int4"
    return "int4_double" if given == {"bnb_4bit_use_double_quant": True} else ""


# Out-of-memory handled by hand: told by the words of an error, or by an exception of one library.

_RETRIES = "out-of-memory"
_EXCEPTIONS = ("torch.cuda.OutOfMemoryError", "torch.OutOfMemoryError")
_RETRY = "plimsoll.recovering repeats the step with smaller microbatches and the same gradients"


def find_retries(code: Code) -> Iterator[Finding]:
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Compare) and (error := _matched_by_words(code, node)):
            message = (
                "the words of one library were looked for; plimsoll.recognise knows those of all"
            )
            edit = code.replace(node, f"(plimsoll.recognise({error}) is not None)")
            yield Finding(_RETRIES, node.lineno, message, (edit,), ("plimsoll",))
        elif isinstance(node, ast.ExceptHandler) and node.type is not None:
            kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            if any(code.full_name(kind) in _EXCEPTIONS for kind in kinds):
                yield Finding(_RETRIES, node.lineno, f"out-of-memory is handled by hand; {_RETRY}")


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
