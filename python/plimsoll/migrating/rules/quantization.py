"""`BitsAndBytesConfig` written out where a preset of plimsoll says the same."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..code import Code, Finding

RULE = "quantization"
_CONFIG = "transformers.BitsAndBytesConfig"
_AUTO = "transformers.AutoModelForCausalLM.from_pretrained"
# Arguments of from_pretrained that a preset decides itself.
_DECIDED = ("quantization_config", "device_map", "torch_dtype", "dtype", "low_cpu_mem_usage")


def find(code: Code) -> Iterator[Finding]:
    for call in code.calls():
        if code.full_name(call.func) != _CONFIG:
            continue
        preset = _preset(call)
        if not preset:
            message = "a BitsAndBytesConfig of its own; plimsoll plan --save keeps one choice for each model"
            yield Finding(RULE, call.lineno, message)
            continue
        load = code.parents.get(code.parents.get(call, call))
        direct = isinstance(load, ast.Call) and code.full_name(load.func) == _AUTO
        if isinstance(load, ast.Call) and direct and _is_plain(load):
            source = code.text(load.args[0])
            edit = code.replace(load, f'plimsoll.load({source}, preset="{preset}")')
            message = f'this is plimsoll\'s preset "{preset}"; plimsoll.load falls back when it does not fit'
            yield Finding(RULE, load.lineno, message, (edit,), ("plimsoll",))
        else:
            message = (
                f'this is plimsoll\'s preset "{preset}": plimsoll.load(..., preset="{preset}")'
            )
            yield Finding(RULE, call.lineno, message)


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
