"""The presets by which models are loaded; the same table as `plimsoll plan` writes and reads.

Both answer test/fixtures/preset-rules.json alike (src/plan/quantization).
"""

from __future__ import annotations

import math
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
WORKING_SHARE = 0.1
# After an out-of-memory the next one is tried: smaller at each step, the host at the end.
LADDER = ["fp16", "int8", "int4", "int4_double", "int4_offload", "cpu"]


def after(preset: str) -> list[str]:
    """This preset and those to fall back to, in order.

    >>> after("int4_double")
    ['int4_double', 'int4_offload', 'cpu']
    """
    return LADDER[LADDER.index(preset) :]


def most_precise(parameters: int, free_bytes: int) -> str:
    """The most precise preset that fits beside the work, as `plimsoll plan` chooses it.

    Layers that do not fit may wait on the host; where not even the rest fits, the host takes all.
    """
    for name in LADDER[:4]:
        if weight_bytes(name, parameters) + working_bytes(parameters) <= free_bytes:
            return name
    fixed = _kept_bytes(parameters) + working_bytes(parameters)
    return "int4_offload" if fixed <= free_bytes else "cpu"


def weight_bytes(preset: str, parameters: int) -> int:
    """Bytes of the weights alone; embeddings, head and norms are never quantized."""
    facts = PRESETS[preset]
    if facts.bits >= 16:
        return math.ceil(parameters * facts.bytes_per_parameter)
    kept = _kept_bytes(parameters)
    return math.ceil(kept + (2 * parameters - kept) * facts.bytes_per_parameter / 2)


def working_bytes(parameters: int) -> int:
    """Activations, KV cache and buffers: a share of the weights in 16 bits, where nothing is known."""
    return math.ceil(2 * parameters * WORKING_SHARE)


def _kept_bytes(parameters: int) -> int:
    kept = min(parameters / 2, 0.05 * parameters + 0.21e9)
    return math.ceil(2 * parameters * min(1.0, kept / parameters)) if parameters else 0
