"""What libraries say when the host's memory is short. Usage: python bench/provoke_host.py [--output FILE].

Each try is a forked process with a limit on its address space (RLIMIT_AS) or its data (RLIMIT_DATA, as the SDK sets
below a cgroup's limit) a little above what it has; the limit rises until the work succeeds. Distinct texts are the
ground truth of test/fixtures/out-of-memory-messages.json. No GPU; some minutes.
"""

from __future__ import annotations

import json
import os
import resource
import sys

import numpy
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "python"))
from plimsoll.memory.gauge import HostGauge
from plimsoll.memory.host import process_status

MIB = 2**20
ROOMS = [0, 1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256]

torch.set_num_threads(1)
picture, weight = torch.randn(8, 32, 64, 64), torch.randn(64, 32, 3, 3)
deep, deep_weight = torch.randn(4, 256, 32, 32), torch.randn(256, 256, 3, 3)
half = picture.bfloat16(), weight.bfloat16()
wide = torch.randn(1024, 1024)
lstm, sequence = torch.nn.LSTM(256, 256, 2), torch.randn(64, 16, 256)
pool = torch.nn.AvgPool2d(3)
quantized = (
    torch.ao.nn.quantized.Linear(64, 64) if hasattr(torch.ao.nn.quantized, "Linear") else None
)
matrix = numpy.ones((1500, 1500))


def train_convolution():
    x, w = picture.clone().requires_grad_(), weight.clone().requires_grad_()
    torch.nn.functional.conv2d(x, w, padding=1).square().sum().backward()


CASES = {
    "PyTorch allocator": lambda: torch.empty(64 * MIB),
    "oneDNN convolution": lambda: torch.nn.functional.conv2d(picture, weight, padding=1),
    "oneDNN convolution, deep": lambda: torch.nn.functional.conv2d(deep, deep_weight, padding=1),
    "oneDNN convolution, backward": train_convolution,
    "oneDNN convolution, bfloat16": lambda: torch.nn.functional.conv2d(*half, padding=1),
    "oneDNN transposed": lambda: torch.nn.functional.conv_transpose2d(deep, deep_weight),
    "oneDNN matmul, bfloat16": lambda: wide.bfloat16() @ wide.bfloat16(),
    "MKL matmul": lambda: wide @ wide,
    "MKL svd": lambda: torch.linalg.svd(wide),
    "MKL solve": lambda: torch.linalg.inv(wide),
    "MKL fft": lambda: torch.fft.fft(torch.randn(1000003)),
    "LSTM": lambda: lstm(sequence),
    "attention": lambda: torch.nn.functional.scaled_dot_product_attention(
        *[torch.randn(2, 8, 512, 64)] * 3
    ),
    "sort": lambda: torch.randn(4 * MIB).sort(),
    "embedding": lambda: torch.nn.functional.embedding(
        torch.zeros(20000, dtype=torch.long), torch.randn(100, 1024)
    ),
    "shared memory": lambda: torch.empty(64 * MIB).share_memory_(),
    "NumPy": lambda: numpy.ones(64 * MIB),
    "NumPy matmul": lambda: matrix @ matrix,
    "NumPy svd": lambda: numpy.linalg.svd(matrix),
    "Python list": lambda: [0] * (64 * MIB),
    "Python bytes": lambda: bytes(256 * MIB),
    "Python str": lambda: "x" * (256 * MIB),
    "a thread": lambda: __import__("threading").Thread(target=lambda: None).start(),
    "fork": lambda: os.waitpid(os.fork() or os._exit(0), 0),
    "a process": lambda: __import__("subprocess").run(["true"], check=True),
    "a library": lambda: __import__("ctypes").CDLL("libsqlite3.so.0"),
    "mmap": lambda: __import__("mmap").mmap(-1, 256 * MIB),
    "load of weights": lambda: torch.frombuffer(bytearray(256 * MIB), dtype=torch.uint8),
}


def attempt(work, kind: str, room: int, warm: bool):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.dup2(os.open("/dev/null", os.O_WRONLY), 2)
        outcome = {}
        try:
            if warm:
                work()
            status = process_status()
            if kind == "address space":
                soft, which = status["VmSize"] + room * MIB, resource.RLIMIT_AS
            else:
                soft, which = status["VmData"] + room * MIB, resource.RLIMIT_DATA
            resource.setrlimit(which, (soft, soft))
            gauge = HostGauge()
            work()
            outcome = {"fits": True}
        except BaseException as error:
            try:
                share = round(gauge.used_share(), 3)
            except BaseException:
                share = None
            kinds = [f"{one.__module__}.{one.__qualname__}" for one in type(error).__mro__[:-2]]
            outcome = {"types": kinds, "text": str(error)[:600], "usedShare": share}
        try:
            os.write(write, json.dumps(outcome).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        text = answer.read()
    _, status = os.waitpid(pid, 0)
    return json.loads(text) if text else {"died": os.waitstatus_to_exitcode(status)}


def main() -> None:
    arguments = sys.argv[1:]
    output = arguments[arguments.index("--output") + 1] if "--output" in arguments else None
    wanted = [name for name in CASES if name in arguments] or list(CASES)
    found = []
    for name in wanted:
        for kind in ("address space", "data"):
            texts = {}
            for room in ROOMS:
                outcome = attempt(CASES[name], kind, room, warm=False)
                if outcome.get("fits"):
                    break
                key = outcome.get("text", f"died {outcome.get('died')}")
                texts.setdefault(
                    (key[:90], str(outcome.get("types", [""])[0])),
                    {**outcome, "case": name, "limit": kind, "roomMib": room},
                )
            for one in texts.values():
                found.append(one)
                first, text = one.get("types", [""])[0], one.get("text", one.get("died"))
                room = f"+{one['roomMib']} MiB | {one.get('usedShare')}"
                print(f"{name} | {kind} | {room} | {first}: {text!r}"[:330], flush=True)
    if output:
        with open(output, "w", encoding="utf-8") as file:
            json.dump(
                {
                    "torch": torch.__version__,
                    "numpy": numpy.__version__,
                    "python": sys.version.split()[0],
                    "cases": found,
                },
                file,
                indent=1,
            )


if __name__ == "__main__":
    main()
