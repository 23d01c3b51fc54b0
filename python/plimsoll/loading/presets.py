"""The presets by which models are loaded; the same table as `plimsoll plan` writes and reads."""

from __future__ import annotations

from typing import Any, NamedTuple


class Preset(NamedTuple):
    bits: int
    bytes_per_parameter: float
    weights: str
    config: dict[str, Any]


_NF4 = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
_DOUBLE = 0.5 + 1 / 64 + 4 / (64 * 256)

PRESETS: dict[str, Preset] = {
    "cpu": Preset(32, 4, "host", {}),
    "fp16": Preset(16, 2, "gpu", {}),
    "int8": Preset(8, 1 + 4 / 1024, "gpu", {"load_in_8bit": True}),
    "int4": Preset(4, 0.5 + 4 / 64, "gpu", {**_NF4, "bnb_4bit_use_double_quant": False}),
    "int4_double": Preset(4, _DOUBLE, "gpu", {**_NF4, "bnb_4bit_use_double_quant": True}),
    "int4_offload": Preset(
        4,
        _DOUBLE,
        "both",
        {**_NF4, "bnb_4bit_use_double_quant": True, "llm_int8_enable_fp32_cpu_offload": True},
    ),
}
# After an out-of-memory the next one is tried: smaller at each step, the host at the end.
LADDER = ["fp16", "int8", "int4", "int4_double", "int4_offload", "cpu"]


def after(preset: str) -> list[str]:
    """This preset and those to fall back to, in order.

    >>> after("int4_double")
    ['int4_double', 'int4_offload', 'cpu']
    """
    return LADDER[LADDER.index(preset) :]


def most_precise(parameters: int, free_bytes: int) -> str:
    """The most precise preset whose weights fit with a tenth to spare; the host where none does."""
    for name in LADDER[:4]:
        if parameters * PRESETS[name].bytes_per_parameter * 1.1 <= free_bytes:
            return name
    return "int4_offload" if free_bytes > 0 else "cpu"
