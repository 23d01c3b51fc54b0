"""How a job is spread over GPUs."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass

from plimsoll.failure import Failure

WAYS = ("ddp", "fsdp1", "fsdp2", "hsdp", "tp", "zero1", "zero2", "zero3")
STRATEGIES = ("full", "grad-op")
DTYPE_NAMES = ("fp32", "bf16", "fp16")
# More GPUs than any cluster has.
LARGEST_WORLD = 1 << 20


@dataclass(frozen=True)
class Parallel:
    way: str
    gpus: int
    tp: int = 1
    nodes: int = 1
    # The type in which parameters are gathered and gradients reduced; "" is that of the weights.
    gather: str = ""
    reduce: str = ""
    # Whether what was gathered for forward is given back after it.
    reshard: bool = True
    strategy: str = "full"
    orig_params: bool = True
    bucket_mb: int = 25
    bucket_view: bool = False
    # "optimizer": its state and its step are on the host.
    offload: str = ""

    @property
    def shards(self) -> int:
        """Over how many ranks data parallelism spreads a parameter, or a batch."""
        return self.gpus // self.tp // (self.nodes if self.way == "hsdp" else 1)


def parallel_of(options: Namespace) -> Parallel | None:
    if options.parallel is None:
        return None
    tp = options.tp or (options.gpus if options.parallel == "tp" else 1)
    parallel = Parallel(
        way=options.parallel,
        gpus=options.gpus,
        tp=tp,
        nodes=options.nodes,
        gather=options.gather_precision or "",
        reduce=options.reduce_precision or "",
        reshard=not options.no_reshard,
        strategy=options.fsdp_strategy,
        orig_params=not options.no_orig_params,
        bucket_mb=options.bucket_mb,
        bucket_view=options.bucket_view,
        offload=options.offload or "",
    )
    _check(parallel)
    return parallel


def _check(parallel: Parallel) -> None:
    replicas = parallel.nodes if parallel.way == "hsdp" else 1
    if parallel.gpus % (parallel.tp * replicas):
        raise Failure(
            "ranks-not-even",
            f"{parallel.gpus} GPUs are not a multiple of {parallel.tp * replicas}",
            "choose --tp and --nodes so that they divide --gpus",
        )
