"""Calls that programs make and that PyTorch cannot follow by itself without a GPU."""

import unittest

from tracing.kinds.traced_program import rows_of

GROUPS = """
import torch
from torch import nn
from torch.masked import masked_tensor
from torch.nn.utils.parametrizations import orthogonal

words = nn.AdaptiveLogSoftmaxWithLoss(16, 1000, [50, 200]).cuda()
rows = torch.randn(64, 16, device="cuda")
drawn = torch.randint(0, 1000, (64,), device="cuda")
words(rows, drawn).loss.backward()
# Each row is in one group.
low, high = drawn < 300, drawn >= 300
assert 0 < len(rows[low]) < 64 and len(rows[low]) + len(rows[high]) == 64

for chosen in ("matrix_exp", "cayley", "householder"):
    layer = orthogonal(nn.Linear(16, 4).cuda(), orthogonal_map=chosen)
    layer(rows).sum().backward()
reflected, scales = torch.geqrf(torch.randn(3, 6, 4, device="cuda"))
assert reflected.shape == (3, 6, 4) and scales.shape == (3, 4)
assert reflected.stride() == (24, 1, 6)
masked_tensor(rows, rows > 0).sum()
"""


class Idioms(unittest.TestCase):
    def test_rows_in_groups_by_drawn_numbers_and_weights_that_stay_orthogonal(self):
        rows_of(self, GROUPS)


if __name__ == "__main__":
    unittest.main()
