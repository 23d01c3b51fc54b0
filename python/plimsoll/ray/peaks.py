"""What a run took, told to the next one of the same workload."""

from __future__ import annotations

import sys
from typing import Any

from ..arguments import BadType, shown
from ..asking.command import ask
from ..memory.out_of_memory import recognise
from .share import Share

METRIC = "plimsoll_peak_bytes"
# What the CUDA context of a large card takes at most; PyTorch does not count it.
_CONTEXT_BYTES = 600 * 1024 * 1024
# Errors inside errors; a circle of them ends here.
_DEEPEST = 8


def peak() -> dict[str, int]:
    """The highest that this process reserved of its fullest card, for `ray.train.report`; empty without a GPU.

    ray.train.report({"loss": loss, **plimsoll.ray.peak()})
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return {}
    cards = range(torch.cuda.device_count())
    reserved = max(torch.cuda.max_memory_reserved(card) for card in cards)
    return {METRIC: reserved + _CONTEXT_BYTES} if reserved else {}


def report(share: Share, peak_bytes: int | None = None) -> None:
    """Keeps what this process took, at the end of a task; without a GPU and without a figure it keeps nothing."""
    _checked(share)
    found = peak().get(METRIC) if peak_bytes is None else peak_bytes
    if found:
        ask(["share", f"--key={share.key}", f"--peak={int(found)}"])


def callback(share: Share) -> Any:
    """For `ray.train.RunConfig(callbacks=[...])`: keeps the highest peak that workers report with `peak()`.

    RunConfig(callbacks=[plimsoll.ray.callback(share)])
    """
    _checked(share)
    from ray.train import UserCallback

    class ReportsPeaks(UserCallback):
        def __init__(self) -> None:
            self.highest = 0

        def after_report(
            self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Any
        ) -> None:
            found = max((int(one.get(METRIC) or 0) for one in metrics), default=0)
            if found > self.highest:
                self.highest = found
                report(share, found)

        def after_exception(
            self, run_context: Any, worker_exceptions: dict[int, Exception]
        ) -> None:
            if any(_is_out_of_memory(error) for error in worker_exceptions.values()):
                # It took at least what was reserved for it, and needed more.
                least = max(self.highest, share.need_bytes)
                ask(["share", f"--key={share.key}", f"--peak={least}", "--out-of-memory"])

    return ReportsPeaks()


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether it, or the error inside it, is one: Ray Train and Ray put what a worker raised into their own errors."""
    inner: Any = error
    for _ in range(_DEEPEST):
        if not isinstance(inner, BaseException):
            return False
        if recognise(inner):
            return True
        wrapped = (getattr(inner, name, None) for name in ("_base_exc", "cause", "__cause__"))
        inner = next((one for one in wrapped if one is not None), None)
    return False


def _checked(share: Any) -> None:
    if not isinstance(share, Share):
        fact = f"share must be what plimsoll.ray.gpus answered, not {shown(share)}"
        raise BadType(fact, "call plimsoll.ray.gpus first, and keep its answer")
