"""The share of a card, as `num_gpus` of Ray."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ..arguments import BadType, shown
from ..asking.command import ask
from ..asking.estimate import estimate


class Share(float):
    """A number for `num_gpus`, with what it rests on."""

    key: str
    need_bytes: int
    basis: str

    def __new__(cls, value: float, key: str, need_bytes: int, basis: str) -> Share:
        share = super().__new__(cls, value)
        share.key = key
        share.need_bytes = need_bytes
        share.basis = basis
        return share

    def __reduce__(self) -> tuple[Any, ...]:
        # Tasks of Ray get it as a pickle.
        return Share, (float(self), self.key, self.need_bytes, self.basis)


def gpus(
    model: str | None = None,
    *,
    gpu: str,
    parameters: str | int | None = None,
    mode: str = "train",
    batch: int | None = None,
    seq: int | None = None,
    image: int | None = None,
    precision: str | None = None,
    optimizer: str | None = None,
    checkpointing: bool = False,
    lora: int | None = None,
    quantization: str | None = None,
    method: str | None = None,
    hub: bool = False,
) -> Share:
    """What `@ray.remote(num_gpus=...)` or `ScalingConfig(resources_per_worker={"GPU": ...})` should reserve.

        share = plimsoll.ray.gpus("gpt2", batch=8, gpu="a100-80gb")  # 0.0928

    It is the estimate of the workload over the memory of the card; after `report` or `callback` told what a run took,
    it is that, with a margin. A workload that the card cannot hold is a `Failure`, `does-not-fit`. In a cluster with
    several kinds of card, give the task the same `accelerator_type`.
    """
    if not isinstance(gpu, str):
        raise BadType(
            f"gpu must be the name of a card, not {shown(gpu)}", 'pass one such as "a100-80gb"'
        )
    if model is not None and not isinstance(model, str):
        # What was measured is kept by the name.
        fact = f"model must be the name or the folder of a model, not {shown(model)}"
        raise BadType(fact, 'pass one such as "gpt2"')
    workload: dict[str, Any] = {
        "parameters": parameters,
        "mode": mode,
        "batch": batch,
        "seq": seq,
        "image": image,
        "precision": precision,
        "optimizer": optimizer,
        "checkpointing": checkpointing,
        "lora": lora,
        "quantization": quantization,
        "gpu": gpu,
    }
    answer = estimate(model, method=method, hub=hub, **workload)
    text = json.dumps({"model": model, **workload}, sort_keys=True)
    key = f"ray-{hashlib.sha256(text.encode()).hexdigest()[:32]}"
    capacity = answer["gpu"]["capacityBytes"]
    # The upper end of the interval, as the queue reserves it; a card that just holds it is enough.
    needed = max(
        answer["peak"]["leastCapacityBytes"], min(answer["interval"]["highBytes"], capacity)
    )
    found = ask(["share", f"--key={key}", f"--capacity={capacity}", f"--estimated={needed}"])
    return Share(found["numGpus"], key, found["needBytes"], found["basis"])
