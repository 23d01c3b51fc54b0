"""What a run keeps in memory, seen from inside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

from ..recovery.restore.random_state import RandomState
from ..recovery.restore.running_statistics import RunningStatistics


@contextmanager
def as_in_training(model: Any) -> Iterator[None]:
    """The model as it trains, whatever mode it is in; modes, running statistics and random numbers are put back."""
    modes = [(module, module.training) for module in model.modules()]
    if not model.training:
        model.train()
    random, statistics = RandomState(), RunningStatistics(model)
    statistics.mark()
    try:
        yield
    finally:
        statistics.put_back()
        random.restore()
        for module, training in modes:
            module.training = training


def kept_for_backward(forward: Callable[[], Any], model: Any) -> int:
    """Bytes that autograd keeps between a forward and its backward, weights left out. On any device."""
    import torch

    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        # The tensor itself would hold its graph, and the graph it: neither would ever be freed.
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = forward()
    del result
    return sum(kept.values())


def peak_of(run: Callable[[], Any], gauge: Any) -> int:
    """The peak of a run on its device, above what was held before it."""
    before = gauge.used_bytes()
    gauge.reset_peak()
    run()
    return max(0, gauge.peak_bytes() - before)


def held_by(run: Callable[[], Any], gauge: Any) -> int:
    """The same of a card, with what its allocator could not use between the pieces; its cache is emptied first."""
    import torch

    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved(gauge.index)
    gauge.reset_peak()
    try:
        run()
        return max(0, torch.cuda.max_memory_reserved(gauge.index) - before)
    finally:
        torch.cuda.empty_cache()
