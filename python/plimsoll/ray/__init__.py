"""For programs that use Ray: the share of a card that a workload needs, and its peak for the next time.

share = plimsoll.ray.gpus("gpt2", batch=8, gpu="a100-80gb")

@ray.remote(num_gpus=share)
def train():
    ...
    plimsoll.ray.report(share)
"""

from .peaks import callback, peak, report
from .share import Share, gpus

__all__ = ["Share", "callback", "gpus", "peak", "report"]
