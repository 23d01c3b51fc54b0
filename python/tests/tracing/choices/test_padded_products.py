"""Products that Inductor pads where that is faster, as an H200 chose."""

import json
import lzma
import os
import unittest
from unittest import mock

import torch
from torch._inductor.fx_passes import pad_mm

from tracing import PACKAGE

from plimsoll.tracing.programs.compiling.padding import _Trial

MEASURED = os.path.join(PACKAGE, "..", "bench", "truth", "padded-products.json.xz")
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
LARGE = 64_000_000


def matrix(batch, rows, columns, by_rows, dtype):
    sizes = (batch,) if batch > 1 else ()
    if by_rows:
        return torch.empty(*sizes, rows, columns, dtype=dtype, device="meta")
    return torch.empty(*sizes, columns, rows, dtype=dtype, device="meta").transpose(-1, -2)


def pads(one):
    """What the rule says, and the bytes of the largest matrix."""
    dtype = TYPES.get(one["kind"], torch.float32)
    left = matrix(one["b"], one["m"], one["k"], one["r1"], dtype)
    right = matrix(one["b"], one["k"], one["n"], one["r2"], dtype)
    early = {"mat1": one["e1"], "mat2": one["e2"]}
    torch.backends.cuda.matmul.allow_tf32 = one["kind"] == "tf32"
    with mock.patch.object(pad_mm, "should_exclude_padding_time", lambda _, name: early[name]):
        trial = _Trial(None, left, right, None, None, None)
    return trial.pads, max(*trial._given, trial._result)


class PaddedProducts(unittest.TestCase):
    def setUp(self):
        allowed = torch.backends.cuda.matmul.allow_tf32
        self.addCleanup(setattr, torch.backends.cuda.matmul, "allow_tf32", allowed)

    def test_as_an_h200_chose(self):
        with lzma.open(MEASURED, "rt") as file:
            measured = json.load(file)["products"]
        agreed, large = 0, []
        for one in measured:
            said, size = pads(one)
            agreed += said == one["result"]
            if size > LARGE:
                large.append(said == one["result"])
        self.assertGreater(agreed / len(measured), 0.91)
        self.assertGreater(sum(large) / len(large), 0.94)


if __name__ == "__main__":
    unittest.main()
