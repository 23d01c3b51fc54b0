"""`DistributedDataParallel` on the meta device: its reducer, in C++, asks for the buckets."""

from __future__ import annotations

from typing import Any

import torch

from .. import ledger as kinds
from ..standins.patches import Patches
from .labels import labelled
from .parallel import Parallel


def prepare(patches: Patches) -> None:
    from torch.nn.parallel import distributed

    for name in ("_verify_param_shape_across_processes", "_sync_module_states"):
        patches.set(distributed, name, lambda *_, **__: None)


def wrap(model: Any, parallel: Parallel, observer: Any) -> Any:
    make = labelled(observer, kinds.BUCKET, torch.nn.parallel.DistributedDataParallel)
    wrapped = make(
        model,
        bucket_cap_mb=parallel.bucket_mb,
        gradient_as_bucket_view=parallel.bucket_view,
    )
    # DDP refuses a hook whose argument is annotated otherwise than with its own class.
    wrapped.register_comm_hook(None, lambda state, bucket: _reduced(bucket))
    return wrapped


def _reduced(bucket: Any) -> Any:
    future: Any = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future
