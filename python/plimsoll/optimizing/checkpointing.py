"""Activations computed again in backward instead of kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from .change import Change


def checkpoint(model: Any, segments: int | None = None) -> Change | None:
    """Hugging Face models by their own switch; any other by its repeated blocks. None where there are none."""
    inner = getattr(model, "module", model)
    if getattr(inner, "supports_gradient_checkpointing", False):
        return _hugging_face(inner)
    undo: list[Any] = []
    for container in containers(inner):
        undo += _checkpoint_blocks(container, segments)
    if not undo:
        return None
    note = f"{len(undo)} segments are computed again in backward"
    return Change("checkpointing", lambda: [put_back() for put_back in undo] and None, note=note)


def _hugging_face(model: Any) -> Change:
    was_on = getattr(model, "is_gradient_checkpointing", False)
    used_cache = getattr(model.config, "use_cache", None)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if used_cache:
        # Keys and values are kept for generation; in training they are only in the way.
        model.config.use_cache = False

    def undo() -> None:
        if not was_on:
            model.gradient_checkpointing_disable()
        if used_cache:
            model.config.use_cache = used_cache

    return Change("checkpointing", undo, note="each layer is computed again in backward")


def containers(model: Any) -> list[Any]:
    """The outermost lists and sequences of modules with weights; blocks inside blocks stay whole."""
    from torch import nn

    if isinstance(model, (nn.ModuleList, nn.Sequential)) and len(_blocks(model)) > 1:
        return [model]
    return [found for child in model.children() for found in containers(child)]


def _blocks(container: Any) -> list[Any]:
    return [one for one in container if any(True for _ in one.parameters())]


def _checkpoint_blocks(container: Any, segments: int | None) -> list[Any]:
    """Each block is a segment; a sequence can be cut into fewer, longer ones."""
    from torch import nn

    blocks = list(container)
    if (
        segments is None
        and isinstance(container, nn.Sequential)
        and not any(True for b in blocks for _ in b.children())
    ):
        # Single layers keep their input either way; runs of them are what saves, the root of their number at best.
        segments = max(1, round(len(blocks) ** 0.5))
    if segments is None or segments >= len(blocks) or not isinstance(container, nn.Sequential):
        return [_wrap(block) for block in _blocks(container)]
    size = -(-len(blocks) // max(1, segments))
    runs = [nn.Sequential(*blocks[start : start + size]) for start in range(0, len(blocks), size)]
    put_back = [_wrap(run) for run in runs]

    def forward(value: Any) -> Any:
        for run in runs:
            run.training = container.training
            value = run(value)
        return value

    inside = getattr(container.__dict__.get("forward"), "inner", None)
    if inside is None:
        container.forward = forward
    else:
        # Under autocast, whose forward calls what stands there.
        before, inside[0] = inside[0], forward

    def undo() -> None:
        if inside is None:
            del container.forward
        else:
            inside[0] = before

    return [undo, *put_back[1:]]


def _wrap(block: Any) -> Any:
    from torch.utils.checkpoint import checkpoint as run_checkpointed

    real = block.forward
    had_own = "forward" in block.__dict__

    def forward(*arguments: Any, **named: Any) -> Any:
        import torch

        if not block.training or not torch.is_grad_enabled():
            return real(*arguments, **named)
        contexts = lambda: (nullcontext(), _frozen_statistics(block))  # noqa: E731
        return run_checkpointed(real, *arguments, use_reentrant=False, context_fn=contexts, **named)

    block.forward = forward

    def put_back() -> None:
        if had_own:
            block.forward = real
        else:
            del block.forward

    return put_back


@contextmanager
def _frozen_statistics(block: Any) -> Iterator[None]:
    """A forward that is done again must not count twice in BatchNorm's running statistics."""
    from ..recovery.restore import RunningStatistics

    statistics = RunningStatistics(block)
    statistics.mark()
    try:
        yield
    finally:
        statistics.put_back()
