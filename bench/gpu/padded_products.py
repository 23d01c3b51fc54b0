"""Which products of matrices PyTorch's compiler pads: it times them without and with padding, and takes the faster.

    python3 bench/gpu/padded_products.py OUTPUT.json.xz [--seconds 240] [--seed 5]

Products are drawn at random, at least one of their sizes no multiple of 16 bytes. Of each is written down: op, kind, b
(batch), m, k, n; r1, r2: whether rows follow one another, or columns; e1, e2: whether padding is not timed, because the
graph makes the matrix; ori, pad: milliseconds without and with padding; result: whether padding is 10 % faster.
"""

import argparse
import json
import lzma
import random
import time
from unittest import mock

import torch
from torch._inductor.fx_passes import pad_mm

KINDS = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "tf32": torch.float32,
}
EVEN = (
    64,
    96,
    128,
    192,
    256,
    320,
    384,
    512,
    640,
    768,
    1024,
    1280,
    1536,
    2048,
    3072,
    4096,
    5120,
)
EVEN += (8192, 10240, 11008, 16384)
ROWS = (
    1024,
    2048,
    2560,
    4096,
    5120,
    6400,
    8192,
    10240,
    12544,
    16384,
    20480,
    32768,
    65536,
)
ODD = (
    50257,
    50265,
    30522,
    32001,
    28996,
    21128,
    49407,
    31090,
    250037,
    10003,
    9999,
    1001,
    1000,
    515,
)
ODD += (
    513,
    300,
    301,
    257,
    197,
    100,
    77,
    65,
    50,
    49,
    37,
    33,
    26,
    17,
    13,
    10,
    9,
    7,
    6,
    5,
    3,
    2,
)
ODD += (770, 1026, 2050, 1500, 1010, 2730, 5461, 10922)
MAX_FLOPS, MAX_FLOPS_FP32, MAX_VALUES, MAX_OF_BATCHES = 2e12, 4e11, 2e9, 2050


def size(rng, odd, rows=False):
    if not odd:
        return rng.choice(ROWS if rows else EVEN)
    return rng.choice(ODD) if rng.random() < 0.6 else rng.choice(EVEN) + rng.randint(1, 7)


def drawn(rng):
    """A product, or None where it would take too long."""
    kind = rng.choice(("bf16", "bf16", "fp16", "fp16", "fp32", "tf32"))
    op = rng.choice(("mm", "mm", "mm", "addmm", "bmm"))
    odd = rng.choice(("n", "n", "k", "m", "m", "mk", "kn", "mn", "mkn"))
    m, n = size(rng, "m" in odd, True), size(rng, "n" in odd)
    k = size(rng, "k" in odd, rng.random() < 0.3)
    batch = rng.choice((4, 12, 32, 96)) if op == "bmm" else 1
    if op == "bmm":
        m, k, n = (min(one, MAX_OF_BATCHES) for one in (m, k, n))
    flops = 2 * batch * m * k * n
    values = batch * max(m * k, k * n, m * n)
    if flops > (MAX_FLOPS_FP32 if kind == "fp32" else MAX_FLOPS) or values > MAX_VALUES:
        return None
    return {"op": op, "kind": kind, "b": batch, "m": m, "k": k, "n": n}


def matrix(batch, rows, columns, by_rows, dtype):
    sizes = (batch,) if batch > 1 else ()
    if by_rows:
        return torch.randn(*sizes, rows, columns, dtype=dtype, device="cuda")
    return torch.randn(*sizes, columns, rows, dtype=dtype, device="cuda").transpose(-1, -2)


def asked(one, rng):
    """The product with what the compiler finds; None where it does not try padding."""
    dtype = KINDS[one["kind"]]
    torch.backends.cuda.matmul.allow_tf32 = one["kind"] == "tf32"
    if not pad_mm.is_mm_compute_bound(one["m"], one["k"], one["n"], dtype):
        return None
    one |= {"r1": rng.random() < 0.6, "r2": rng.random() < 0.5}
    left = matrix(one["b"], one["m"], one["k"], one["r1"], dtype)
    right = matrix(one["b"], one["k"], one["n"], one["r2"], dtype)
    one["e1"] = left.is_contiguous() and rng.random() < 0.6
    one["e2"] = right.is_contiguous() and rng.random() < 0.6
    op = getattr(torch.ops.aten, one["op"])
    bias = torch.randn(one["n"], dtype=dtype, device="cuda") if one["op"] == "addmm" else None
    if not pad_mm.can_pad(left, right, op, bias):
        return None
    early = {"mat1": one["e1"], "mat2": one["e2"]}

    def noted(_, ori, pad):
        one.update(ori=round(ori, 5), pad=round(pad, 5), result=ori > 1.1 * pad)
        return one["result"]

    with (
        mock.patch.object(pad_mm, "should_exclude_padding_time", lambda _, name: early[name]),
        mock.patch.object(pad_mm, "is_padded_faster", noted),
        mock.patch.object(pad_mm, "get_cached_should_pad", lambda _: None),
        mock.patch.object(pad_mm, "get_cached_base_mm_benchmark_time", lambda _: None),
        mock.patch.object(pad_mm, "set_cached_base_mm_benchmark_time", lambda *_: None),
    ):
        pad_mm._should_pad(None, left, right, op, bias)
    return one if "result" in one else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--seed", type=int, default=5)
    given = parser.parse_args()
    rng, products = random.Random(given.seed), []
    end = time.monotonic() + given.seconds
    while time.monotonic() < end:
        one = drawn(rng)
        if one is not None and (found := asked(one, rng)) is not None:
            products.append(found)
    facts = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    with lzma.open(given.output, "wt", preset=9) as file:
        json.dump({**facts, "products": products}, file)
    padded = sum(one["result"] for one in products)
    print(f"{len(products)} products, {padded} are faster with padding")


if __name__ == "__main__":
    main()
