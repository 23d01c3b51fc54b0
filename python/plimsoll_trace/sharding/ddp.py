"""`DistributedDataParallel` on the meta device: its reducer, in C++, asks for the buckets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .. import ledger as kinds
from ..standins.patches import Patches
from .parallel import Parallel
from .world import labelled


def prepare(patches: Patches, observer: Any) -> None:
    from torch.nn.parallel import distributed

    for name in ("_verify_param_shape_across_processes", "_sync_module_states"):
        patches.set(distributed, name, lambda *_, **__: None)
    # Buckets are rebuilt before the second forward pass; inputs are moved to the GPU there, too.
    wrapper = distributed.DistributedDataParallel
    patches.set(wrapper, "_pre_forward", in_buckets(observer, wrapper._pre_forward))
    patches.set(distributed, "_to_kwargs", labelled(observer, kinds.BATCH, distributed._to_kwargs))


def wrap(model: Any, parallel: Parallel, observer: Any) -> Any:
    make = in_buckets(observer, torch.nn.parallel.DistributedDataParallel)
    wrapped = make(
        model,
        bucket_cap_mb=parallel.bucket_mb,
        gradient_as_bucket_view=parallel.bucket_view,
    )
    wrapped.register_comm_hook(None, reduced)
    return wrapped


def in_buckets(observer: Any, make: Callable) -> Callable:
    """What DDP asks for while it is made is its first bucket."""
    return labelled(observer, kinds.BUCKET, make)


# DDP refuses a hook whose argument is annotated otherwise than with its own class.
def reduced(state, bucket):
    future: Any = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future
