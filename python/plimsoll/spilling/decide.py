"""The cheapest way into a limit: a pure rule over measured figures.

The supervisor decides by the same rule; test/fixtures/spill-rules.json holds the cases that both of them read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# The rest is lost between blocks of the allocator.
USABLE = 0.94
# Of a step; its backward takes the other two thirds.
FORWARD = 1 / 3
# Copies that take longer than this share of the time that they run beside are waited for.
HIDDEN = 0.8
# Blocks that differ by less than this in seconds per byte cost the same: order decides among them.
ALIKE = 1.25
# The bytes of one part of a loss over a vocabulary.
LOSS_PART_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Block:
    """A part of the model that can be computed again: what that frees, and what it takes."""

    name: str
    bytes: int
    seconds: float


@dataclass(frozen=True)
class Measured:
    """One step, as it was seen. Blocks stand in the order of the forward."""

    blocks: tuple[Block, ...]
    # What autograd saves outside of all blocks.
    other_bytes: int
    # Weights, gradients, optimizer states.
    fixed_bytes: int
    # The part of `fixed_bytes` that only the optimizer's step uses.
    optimizer_bytes: int
    # What a step needs for a moment, beside what stays.
    temporary_bytes: int
    # The part of `temporary_bytes` that a loss in parts does not need.
    loss_bytes: int
    out_bytes_per_second: float
    back_bytes_per_second: float
    step_seconds: float
    # Room for spilled bytes in the host's memory.
    host_bytes: int


@dataclass(frozen=True)
class Plan:
    """`least_bytes` is a limit that this step surely fits into."""

    fits: bool
    step_seconds: float
    least_bytes: int
    recompute: tuple[str, ...] = ()
    spill_bytes: int = 0
    loss_parts: int = 1
    optimizer_to_host: bool = False


@dataclass
class _Best:
    seconds: float = math.inf
    recompute: list[Block] = field(default_factory=list)
    spill_bytes: int = 0
    to_host: bool = False


def decide(measured: Measured, limit_bytes: int) -> Plan:
    """Keeps all that fits; computes again what that is cheapest for; spills the rest."""
    usable = math.floor(limit_bytes * USABLE)
    saved = sum(block.bytes for block in measured.blocks) + measured.other_bytes
    least = least_bytes(measured)
    if measured.fixed_bytes + measured.temporary_bytes + saved <= usable:
        return Plan(True, measured.step_seconds, least)
    temporary = measured.temporary_bytes - measured.loss_bytes
    parts = max(1, math.ceil(measured.loss_bytes / LOSS_PART_BYTES))
    best = _Best()
    ordered = by_cost(measured.blocks)
    for to_host in (False, True):
        fixed = measured.fixed_bytes - (measured.optimizer_bytes if to_host else 0)
        over = fixed + temporary + saved - usable
        for count in range(len(measured.blocks) + 1):
            chosen = chosen_blocks(ordered, count, over)
            _try(measured, best, chosen, over, to_host)
    if best.seconds == math.inf or measured.fixed_bytes > usable:
        return Plan(False, measured.step_seconds, least, loss_parts=parts)
    names = {id(block) for block in best.recompute}
    recompute = tuple(block.name for block in measured.blocks if id(block) in names)
    return Plan(True, best.seconds, least, recompute, best.spill_bytes, parts, best.to_host)


def _try(measured: Measured, best: _Best, chosen: list[Block], over: int, to_host: bool) -> None:
    freed = sum(block.bytes for block in chosen)
    spill = max(0, over - freed + working_bytes(measured.blocks, chosen))
    saved = sum(block.bytes for block in measured.blocks) + measured.other_bytes - freed
    moved = measured.optimizer_bytes if to_host else 0
    if spill > saved or spill + moved > measured.host_bytes:
        return
    again = sum(block.seconds for block in chosen)
    forward = measured.step_seconds * FORWARD
    backward = measured.step_seconds - forward + again
    out, back = measured.out_bytes_per_second, measured.back_bytes_per_second
    waits = max(0.0, spill / out - HIDDEN * forward) + max(0.0, spill / back - HIDDEN * backward)
    seconds = measured.step_seconds + again + waits + moved / out + moved / back
    if seconds < best.seconds:
        best.seconds, best.recompute, best.spill_bytes = seconds, chosen, spill
        best.to_host = to_host


def by_cost(blocks: tuple[Block, ...]) -> list[list[Block]]:
    """Groups of blocks that cost alike for each byte, the cheapest first; inside one, in the order of the forward."""
    useful = [block for block in blocks if block.bytes > 0]
    place = {id(block): index for index, block in enumerate(useful)}
    ranked = sorted(useful, key=lambda block: (block.seconds / block.bytes, place[id(block)]))
    groups: list[list[Block]] = []
    for block in ranked:
        first = groups[-1][0] if groups else None
        if first and block.seconds / block.bytes <= ALIKE * first.seconds / first.bytes:
            groups[-1].append(block)
        else:
            groups.append([block])
    return [sorted(group, key=lambda block: place[id(block)]) for group in groups]


def chosen_blocks(groups: list[list[Block]], count: int, over: int) -> list[Block]:
    """The cheapest `count` blocks. Of those that cost alike, the first are left to be spilled and the last to be kept:
    the copies then start early, and the room for their way back comes early, too.
    """
    chosen: list[Block] = []
    for group in groups:
        rest = count - len(chosen)
        if rest >= len(group):
            chosen += group
            continue
        if rest > 0:
            likely = sum(block.bytes for block in chosen) + sum(b.bytes for b in group[:rest])
            start, before = 0, 0
            while before < over - likely and start < len(group) - rest - 1:
                before += group[start].bytes
                start += 1
            chosen += group[start : start + rest]
        break
    return chosen


def working_bytes(blocks: tuple[Block, ...], chosen: list[Block]) -> int:
    """What blocks that are computed again hold beyond what later blocks have given back by then."""
    names = {id(block) for block in chosen}
    most, given_back = 0, 0
    for block in reversed(blocks):
        if id(block) in names:
            most = max(most, block.bytes - given_back)
        else:
            given_back += block.bytes
    return most


def least_bytes(measured: Measured) -> int:
    """The smaller of two: all spilled, or all blocks computed again and the rest spilled where the host has room."""
    largest = max((block.bytes for block in measured.blocks), default=0)
    saved = sum(block.bytes for block in measured.blocks) + measured.other_bytes
    temporary = measured.temporary_bytes - measured.loss_bytes
    needs = []
    for moved in (0, measured.optimizer_bytes):
        room = measured.host_bytes - moved
        if room >= 0:
            kept = min(max(0, saved - room), largest + max(0, measured.other_bytes - room))
            needs.append(measured.fixed_bytes - moved + temporary + kept)
    return math.ceil(max(measured.fixed_bytes, min(needs)) / USABLE)


def measured_from(message: Mapping[str, Any]) -> Measured:
    """From the names that messages and cases use."""
    blocks = tuple(Block(b["name"], b["bytes"], b["seconds"]) for b in message["blocks"])
    return Measured(
        blocks,
        message["otherBytes"],
        message["fixedBytes"],
        message["optimizerBytes"],
        message["temporaryBytes"],
        message["lossBytes"],
        message["outBytesPerSecond"],
        message["backBytesPerSecond"],
        message["stepSeconds"],
        message["hostBytes"],
    )


def measured_as_json(measured: Measured) -> dict[str, Any]:
    return {
        "blocks": [
            {"name": b.name, "bytes": b.bytes, "seconds": b.seconds} for b in measured.blocks
        ],
        "otherBytes": measured.other_bytes,
        "fixedBytes": measured.fixed_bytes,
        "optimizerBytes": measured.optimizer_bytes,
        "temporaryBytes": measured.temporary_bytes,
        "lossBytes": measured.loss_bytes,
        "outBytesPerSecond": measured.out_bytes_per_second,
        "backBytesPerSecond": measured.back_bytes_per_second,
        "stepSeconds": measured.step_seconds,
        "hostBytes": measured.host_bytes,
    }


def plan_from(message: Mapping[str, Any]) -> Plan:
    return Plan(
        bool(message["fits"]),
        float(message["stepSeconds"]),
        int(message["leastBytes"]),
        tuple(str(name) for name in message["recompute"]),
        int(message["spillBytes"]),
        int(message["lossParts"]),
        bool(message["optimizerToHost"]),
    )


def plan_as_json(plan: Plan) -> dict[str, Any]:
    return {
        "fits": plan.fits,
        "stepSeconds": plan.step_seconds,
        "leastBytes": plan.least_bytes,
        "recompute": list(plan.recompute),
        "spillBytes": plan.spill_bytes,
        "lossParts": plan.loss_parts,
        "optimizerToHost": plan.optimizer_to_host,
    }
