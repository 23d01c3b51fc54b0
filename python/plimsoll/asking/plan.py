"""`plimsoll.plan` and `plimsoll.fits`: settings that fit, and whether these do."""

from __future__ import annotations

import sys
from typing import Any, Callable

from ..arguments import bytes_of, named, text, truth
from .answers import Plan
from .command import ask
from .estimate import NAMES, checked, estimate


@named(NAMES)
def plan(
    model: str,
    *,
    memory: str | int | None = None,
    mode: str = "train",
    batch: int | None = None,
    seq: int | None = None,
    image: int | None = None,
    precision: str | None = None,
    optimizer: str | None = None,
    checkpointing: bool | None = None,
    lora: int | None = None,
    quantization: str | None = None,
    gpu: str | None = None,
    gpus: int | None = None,
    max_batch: bool = False,
    method: str | None = None,
) -> Plan:
    """Settings with which a model fits: the answer of `plimsoll plan --json`.

        found = plimsoll.plan("llama-3-8b", memory="24GiB", batch=16, seq=2048)
        found.fits, found.settings.precision, found.alternatives

    `memory` is what the device offers, with its CUDA context; without it `gpu`, or the card of this machine, says how
    much there is. Settings that are left out are chosen. `max_batch=True` keeps all others and finds the largest batch.
    """
    given = checked(
        mode,
        batch=batch,
        seq=seq,
        image=image,
        lora=lora,
        gpus=gpus,
        precision=precision,
        optimizer=optimizer,
        quantization=quantization,
        gpu=gpu,
        method=method,
    )
    text("model", model, "llama-3-8b")
    words = ["plan", f"--mode={mode}", f"--python={sys.executable}"]
    if memory is not None:
        words.append(f"--memory={bytes_of('memory', memory)}")
    words += [f"--{name}={value}" for name, value in given.items()]
    if checkpointing is not None:
        wanted = truth("checkpointing", checkpointing)
        words.append("--checkpointing" if wanted else "--no-checkpointing")
    if truth("max_batch", max_batch):
        words.append("--max-batch")
    return Plan(ask([*words, "--", model]))


@named({**NAMES, "gpu": "card"})
def fits(
    model: Any,
    batch: Any = None,
    optimizer: str | None = None,
    card: str | None = None,
    *,
    memory: str | int | None = None,
    mode: str = "train",
    seq: int | None = None,
    image: int | None = None,
    precision: str | None = None,
    checkpointing: bool = False,
    lora: int | None = None,
    quantization: str | None = None,
    loss: Callable[[Any], Any] | None = None,
    method: str | None = None,
) -> bool:
    """Whether a workload surely fits a card, or a device of this much memory.

        plimsoll.fits("llama-3-8b", batch=1, optimizer="adamw-8bit", card="a100-80gb", seq=2048)

    The arguments are those of `plimsoll.estimate`, which also says how much is missing.
    """
    room = None if memory is None else bytes_of("memory", memory)
    found = estimate(
        model,
        batch=batch,
        optimizer=optimizer,
        gpu=None if card is None else text("card", card, "4090"),
        mode=mode,
        seq=seq,
        image=image,
        precision=precision,
        checkpointing=checkpointing,
        lora=lora,
        quantization=quantization,
        loss=loss,
        method=method,
    )
    return found.fits(room)
