"""Failures put into a training step at a chosen point, and the clean run to hold it against."""

from __future__ import annotations

import gc
import random
from unittest import mock

import torch
from torch import nn

OUT_OF_MEMORY = (
    "CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a total capacity of 139.80 GiB"
)


def out_of_memory():
    return torch.OutOfMemoryError(OUT_OF_MEMORY)


class Net(nn.Module):
    """Deep enough that a backward can fail with some gradients written and others not."""

    def __init__(self, dropout: float):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 12), nn.Linear(12, 12), nn.Linear(12, 3)])
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = self.drop(torch.tanh(layer(x)))
        return self.layers[-1](x)


def build(seed: int, dropout: float):
    torch.manual_seed(seed)
    model = Net(dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=True)
    return model, optimizer


def batch_of(seed: int, count: int):
    made = torch.Generator().manual_seed(seed)
    return torch.randn(count, 6, generator=made), torch.randint(0, 3, (count,), generator=made)


class Faults:
    """Fails at given calls of a phase: counts down, raises once, then waits for the next."""

    def __init__(self, phase: str, countdown: list):
        self.phase = phase
        self.left = list(countdown)
        self.raised = 0

    def point(self, phase: str) -> None:
        if phase != self.phase or not self.left:
            return
        self.left[0] -= 1
        if self.left[0] < 0:
            self.left.pop(0)
            self.raised += 1
            raise out_of_memory()

    def watch(self, model):
        for layer in model.layers:
            layer.register_forward_pre_hook(lambda *_: self.point("forward"))
        for parameter in model.parameters():
            # Runs before this parameter's gradient is written, after those of layers behind it.
            parameter.register_hook(lambda grad: self.point("backward"))

    def in_step(self):
        """Between the moments' update and the parameters': a step that is really half done."""
        real = torch._foreach_sqrt

        def failing(*arguments):
            self.point("step")
            return real(*arguments)

        return mock.patch.object(torch, "_foreach_sqrt", failing)


def gradients_at_step(optimizer):
    """Keeps a copy of the gradients that each step is taken with."""
    taken = []
    optimizer.register_step_pre_hook(
        lambda opt, *_: taken.append(
            [p.grad.clone() for g in opt.param_groups for p in g["params"]]
        )
    )
    return taken


def clean_step(model, optimizer, loss, batch, partition, seed):
    """Plain gradient accumulation with the same microbatches; no code of ours."""
    torch.manual_seed(seed)
    count = sum(partition)
    optimizer.zero_grad(set_to_none=True)
    done = 0
    for size in partition:
        part = tuple(tensor[done : done + size] for tensor in batch)
        value = loss(model, part)
        (value if size == count else value * (size / count)).backward()
        done += size
    gradients = [p.grad.clone() for p in model.parameters()]
    optimizer.step()
    return gradients


def cheap_collection():
    """Objects of torch itself never become garbage; leaving them out makes a collection fast."""
    model, optimizer = build(0, 0.1)
    clean_step(model, optimizer, lambda m, part: m(part[0]).sum(), batch_of(0, 2), [2], 0)
    gc.collect()
    gc.freeze()


def random_countdown(draw: random.Random, phase: str, points: int, microbatches: int):
    """One to three failures; a single sample that fails twice in a row is given up, rightly."""
    if phase == "step":
        return [0] * draw.randint(1, 2)
    first = draw.randrange(points * microbatches)
    return [first, *(draw.randrange(points, 3 * points) for _ in range(draw.randint(0, 2)))]
