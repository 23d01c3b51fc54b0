"""Averages gradients over ranks in flat buckets that were allocated beforehand."""

from __future__ import annotations

from typing import Any

# As DDP does: large enough for the network, small beside the gradients.
BUCKET_BYTES = 25 * 2**20


class Reduction:
    def __init__(self, group: Any, world: int) -> None:
        self._group = group
        self._world = world
        self._flats: dict[tuple[Any, Any], Any] = {}

    def prepare(self, parameters: list[Any]) -> None:
        """Gets the memory that averaging needs; it may run out here, and only here."""
        import torch

        for kind, bucket in buckets(parameters):
            size = sum(p.numel() for p in bucket)
            if kind not in self._flats or self._flats[kind].numel() < size:
                self._flats[kind] = torch.empty(size, dtype=kind[1], device=kind[0])

    def average(self, parameters: list[Any], missing: frozenset[str]) -> None:
        """Gradients that no rank has stay None; where only some have one, the others count as zero."""
        import torch
        import torch.distributed as dist

        nowhere = set.intersection(*(_numbers(text) for text in missing)) if missing else set()
        used = [p for i, p in enumerate(parameters) if i not in nowhere]
        with torch.no_grad():
            for kind, bucket in buckets(used):
                flat = self._flats[kind][: sum(p.numel() for p in bucket)]
                parts = flat.split([p.numel() for p in bucket])
                for part, parameter in zip(parts, bucket):
                    if parameter.grad is None:
                        part.zero_()
                    else:
                        part.copy_(parameter.grad.reshape(-1))
                # Divided before the sum, as DDP does: half precision overflows less.
                flat.div_(self._world)
                dist.all_reduce(flat, group=self._group)
                for part, parameter in zip(parts, bucket):
                    if parameter.grad is None:
                        parameter.grad = part.reshape(parameter.shape).clone()
                    else:
                        parameter.grad.copy_(part.reshape(parameter.shape))

    def broadcast(self, buffers: list[Any]) -> None:
        """Buffers as the first rank has them, as DDP does before a forward."""
        import torch.distributed as dist

        source = dist.get_global_rank(self._group, 0) if buffers else 0
        for buffer in buffers:
            dist.broadcast(buffer.detach(), source, group=self._group)


def buckets(parameters: list[Any]) -> list[tuple[tuple[Any, Any], list[Any]]]:
    """Parameters in their order, of one device and dtype, up to a size: the same on every rank."""
    found: list[tuple[tuple[Any, Any], list[Any]]] = []
    held = 0
    for parameter in parameters:
        kind = (parameter.device, parameter.dtype)
        size = parameter.numel() * parameter.element_size()
        if not found or found[-1][0] != kind or held + size > BUCKET_BYTES:
            found.append((kind, []))
            held = 0
        found[-1][1].append(parameter)
        held += size
    return found


def _numbers(text: str) -> set[int]:
    return {int(word) for word in text.split(",") if word}
