"""What `plimsoll.spread` makes on a real card: loss, gradients and time beside the model as it is.

    python3 bench/gpu/sessions/spread.py [--output FILE]

One card is enough: alone, as a process group of one rank (NCCL), and with DataParallel over the first card
and over the first card twice (two replicas; both parts of the batch run there). Some seconds.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import socket
import statistics
import sys
import time
from typing import Any
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "python"))

import torch
from torch import distributed, nn

import plimsoll

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WIDTH, SAMPLES, STEPS = (1024, 4096, 30) if DEVICE == "cuda" else (32, 16, 2)


def wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def step(model: Any, x: torch.Tensor, y: torch.Tensor) -> float:
    model.zero_grad(set_to_none=True)
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    return float(loss.detach())


def measured(made: Any, plain: Any, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
    """Held against the gradients of the plain model on the same batch; milliseconds turn by turn."""
    wanted_loss, found_loss = step(plain, x, y), step(made.model, x, y)
    inner = getattr(made.model, "module", made.model)
    pairs = [(a.grad, b.grad) for a, b in zip(plain.parameters(), inner.parameters())]
    worst = max(float((a - b).norm() / a.norm()) for a, b in pairs)
    times: dict[str, list[float]] = {"plain": [], "spread": []}
    for _ in range(STEPS):
        for way, model in (("plain", plain), ("spread", made.model)):
            wait()
            begin = time.perf_counter()
            step(model, x, y)
            wait()
            times[way].append(1000 * (time.perf_counter() - begin))
    return {
        "how": made.how,
        "advice": made.advice,
        "loss": found_loss,
        "plainLoss": wanted_loss,
        "worstGradientDifference": worst,
        "milliseconds": statistics.median(times["spread"]),
        "plainMilliseconds": statistics.median(times["plain"]),
    }


def ranked(model: Any) -> Any:
    """A process group of this one process, as torchrun --nproc-per-node 1 makes it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    backend = "nccl" if DEVICE == "cuda" else "gloo"
    address = f"tcp://127.0.0.1:{port}"
    distributed.init_process_group(backend, init_method=address, rank=0, world_size=1)
    return plimsoll.spread(model)


def data_parallel(model: Any, cards: list[int]) -> Any:
    """As where there are two cards; DataParallel is held to the named ones, which are there."""

    class OnThese(nn.DataParallel):
        def __init__(self, module: Any) -> None:
            super().__init__(module, device_ids=cards)

    with (
        mock.patch("torch.cuda.device_count", return_value=2),
        mock.patch("torch.nn.DataParallel", OnThese),
    ):
        return plimsoll.spread(model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output")
    given = parser.parse_args()
    torch.manual_seed(0)
    plain = nn.Sequential(
        nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Linear(WIDTH, 10)
    ).to(DEVICE)
    x = torch.randn(SAMPLES, WIDTH, device=DEVICE)
    y = torch.randint(0, 10, (SAMPLES,), device=DEVICE)
    found: dict[str, Any] = {"torch": torch.__version__}
    found["device"] = torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu"
    ways = {
        "one card": plimsoll.spread,
        "DataParallel over card 0": lambda model: data_parallel(model, [0]),
        "DataParallel over card 0 twice": lambda model: data_parallel(model, [0, 0]),
        "a process group of one rank": ranked,
    }
    for way, make in ways.items():
        try:
            found[way] = measured(make(copy.deepcopy(plain)), plain, x, y)
        except Exception as error:
            found[way] = {"error": f"{type(error).__name__}: {error}"}
        print(way, json.dumps(found[way]), flush=True)
    if distributed.is_initialized():
        distributed.destroy_process_group()
    if given.output:
        with open(given.output, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
