"""`plimsoll.loader()`: a DataLoader whose settings come from measurements, and that needs less memory when
the host runs short.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Iterator
from typing import Any, Callable

from ..memory.gauge import HostGauge
from .advice import LoadingAdvice
from .measure import private_bytes

log = logging.getLogger("plimsoll")

# The least time between two looks at the host's memory.
LOOK_SECONDS = 1.0


# The order of a pass over a dataset, which can be stopped between two batches and go on later.


class Feed:
    """A batch sampler for one DataLoader after another: each batch is handed out once."""

    def __init__(self, batch_sampler: Any, is_short: Callable[[], bool]) -> None:
        self._sampler = batch_sampler
        self._is_short = is_short
        self._rest: Iterator[Any] = iter(())
        self._next: Any = None
        self.over = True

    def begin(self) -> None:
        self._rest = iter(self._sampler)
        self._advance()

    def __iter__(self) -> Iterator[Any]:
        while not self.over and not self._is_short():
            batch = self._next
            self._advance()
            yield batch

    def __len__(self) -> int:
        return len(self._sampler)

    def _advance(self) -> None:
        self._next = next(self._rest, None)
        self.over = self._next is None


class AdvisedLoader:
    """Iterates over batches like `torch.utils.data.DataLoader`; `advice` says how, and why."""

    def __init__(
        self,
        dataset: Any,
        batch_sampler: Any,
        collate: Callable[[list[Any]], Any],
        settings: LoadingAdvice,
        above: float,
        used_share: Callable[[], float] | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.dataset = dataset
        self.batch_sampler = batch_sampler
        self.advice = settings
        self.backoffs: list[str] = []
        self._collate = collate
        self._workers = settings.workers
        self._above = above
        self._used_share = used_share or HostGauge().used_share
        self._options = options or {}
        # Weak: a loader in a cycle would keep its workers until the next collection.
        is_short = weakref.WeakMethod(self._is_short)
        self._feed = Feed(batch_sampler, lambda: _asked(is_short()))
        self._looked = float("-inf")
        self._inner: Any = None

    def __len__(self) -> int:
        return len(self.batch_sampler)

    @property
    def workers(self) -> int:
        """Processes that load now; fewer than advised after memory ran short."""
        return self._workers

    def __iter__(self) -> Iterator[Any]:
        self._feed.begin()
        while True:
            yield from self._loader()
            if self._feed.over:
                return
            self._back_off()

    def worker_bytes(self) -> int:
        """Memory of the host that the workers hold alone, beside this process; measured."""
        running = getattr(getattr(self._inner, "_iterator", None), "_workers", None) or ()
        return sum(private_bytes(worker.pid) for worker in running if worker.pid is not None)

    def _loader(self) -> Any:
        if self._inner is None:
            self._inner = build_loader(
                self.dataset, self._feed, self._collate, self.advice, self._workers, self._options
            )
        return self._inner

    def _is_short(self) -> bool:
        now = time.monotonic()
        if self._workers == 0 or now - self._looked < LOOK_SECONDS:
            return False
        self._looked = now
        return self._used_share() > self._above

    def _back_off(self) -> None:
        before, self._workers = self._workers, self._workers // 2
        message = f"{self._workers} workers instead of {before}: the host's memory is above {self._above:.0%}"
        self.backoffs.append(message)
        log.warning("plimsoll: loader: %s", message)
        # The old workers end with it.
        self._inner = None


def _asked(is_short: Callable[[], bool] | None) -> bool:
    return is_short is not None and is_short()


def build_loader(
    dataset: Any,
    batch_sampler: Any,
    collate: Callable[[list[Any]], Any],
    settings: LoadingAdvice,
    workers: int,
    options: dict[str, Any],
) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(
        dataset,
        batch_sampler=batch_sampler,
        collate_fn=collate,
        num_workers=workers,
        pin_memory=settings.pin_memory,
        persistent_workers=settings.persistent_workers and workers > 0,
        prefetch_factor=settings.prefetch_factor if workers > 0 else None,
        **options,
    )
