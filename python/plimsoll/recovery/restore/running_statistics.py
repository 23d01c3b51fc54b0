"""BatchNorm: its running statistics put back before a retry, and said once that it cannot be exact."""

from __future__ import annotations

import logging
from typing import Any

log = logging.getLogger("plimsoll")


def batch_norms(model: Any) -> list[Any]:
    from torch.nn.modules.batchnorm import _BatchNorm

    return [module for module in model.modules() if isinstance(module, _BatchNorm)]


class RunningStatistics:
    """Copies of the running means and variances; a few kilobytes."""

    def __init__(self, model: Any) -> None:
        self.modules = batch_norms(model)
        self._live: list[Any] = []
        self._saved: list[Any] = []

    def mark(self) -> None:
        if not self.modules:
            return
        live = [
            buffer
            for module in self.modules
            if module.training
            for buffer in module.buffers(recurse=False)
        ]
        if len(live) != len(self._live) or any(a is not b for a, b in zip(live, self._live)):
            self._live, self._saved = live, [buffer.clone() for buffer in live]
            return
        for saved, buffer in zip(self._saved, live):
            saved.copy_(buffer)

    def put_back(self) -> None:
        for saved, buffer in zip(self._saved, self._live):
            buffer.copy_(saved)

    def warn(self) -> None:
        if self.modules:
            log.warning(
                "plimsoll: this model has BatchNorm: its statistics are computed per microbatch, so training in "
                "microbatches is not exactly the same as in whole batches"
            )
