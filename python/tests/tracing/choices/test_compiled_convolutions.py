"""Convolutions inside of `torch.compile`."""

import unittest

from tracing.kinds.traced_program import rows_of

PROGRAM = """
import torch
from torch import nn

m = nn.Sequential(nn.Conv2d(8, 48, 3, padding=1), nn.GELU(), nn.Conv2d(48, 8, 3, padding=1)).cuda()
run = torch.compile(m)
for _ in range(2):
    run(torch.zeros(16, 8, 64, 64).cuda()).sum().backward()
assert m[0].bias.grad.shape == (48,)
"""
BIAS = 48 * 4


class CompiledConvolutions(unittest.TestCase):
    def test_gradients_of_biases_are_sums_that_the_compiler_fuses(self):
        rows = rows_of(self, PROGRAM)
        names = {row[1]: row[2] for row in rows if isinstance(row, list) and row[0] == "s"}
        biases = [
            names[row[3]]
            for row in rows
            if isinstance(row, list) and row[0] == "a" and row[2] == BIAS
        ]
        self.assertIn("torch.compile was followed", str(rows[-1]))
        self.assertTrue(biases)
        self.assertNotIn("aten.convolution_backward.default", biases)


if __name__ == "__main__":
    unittest.main()
