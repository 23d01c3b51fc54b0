"""One change to a model: what it saves, and how to take it back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

from ..recovery.restore import RandomState, RunningStatistics


class Change:
    """`estimated_bytes` comes from a formula; `measured_bytes` from a run. None is unknown."""

    def __init__(
        self,
        what: str,
        undo: Callable[[], object],
        estimated_bytes: int | None = None,
        note: str = "",
    ) -> None:
        self.what = what
        self.undo = undo
        self.estimated_bytes = estimated_bytes
        self.measured_bytes: int | None = None
        self.note = note

    def as_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "estimatedBytes": "unknown" if self.estimated_bytes is None else self.estimated_bytes,
            "measuredBytes": "unknown" if self.measured_bytes is None else self.measured_bytes,
            "note": self.note,
        }


def parameter_bytes(model: Any) -> int:
    """Bytes of memory behind the parameters: what several share counts once, sparse ones as they are stored."""
    sizes = {}
    for parameter in model.parameters():
        if _has_no_size(parameter):
            continue
        for tensor in _stored(parameter):
            storage = tensor.untyped_storage()
            # Storages on `meta` all lie at 0.
            sizes[storage.data_ptr() or id(tensor)] = storage.nbytes()
    return sum(sizes.values())


def _has_no_size(parameter: Any) -> bool:
    """Lazy layers learn the shape of their weights from the first batch."""
    from torch.nn.parameter import is_lazy

    return is_lazy(parameter)


def _stored(tensor: Any) -> list[Any]:
    """The plain tensors that a tensor is made of: itself, or the parts of a sparse one."""
    import torch

    if hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        return [part for name in names for part in _stored(getattr(tensor, name))]
    layout, plain = tensor.layout, tensor.detach()
    if layout == torch.sparse_coo:
        return [plain._indices(), plain._values()]
    if layout in (torch.sparse_csr, torch.sparse_bsr):
        return [plain.crow_indices(), plain.col_indices(), plain.values()]
    if layout in (torch.sparse_csc, torch.sparse_bsc):
        return [plain.ccol_indices(), plain.row_indices(), plain.values()]
    return [tensor]


# What a run keeps in memory, seen from inside.


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
