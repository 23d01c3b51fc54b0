"""Modules whose parameters get their shapes in the first call, after they were sent to the GPU."""

import unittest

from tracing.kinds.traced_program import rows_of

PROGRAM = """
import torch
from torch import nn

model = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyBatchNorm1d(), nn.LazyLinear(4)).cuda()
model(torch.randn(3, 5, device="cuda"))
assert type(model[0].weight) is nn.Parameter and model[0].weight.requires_grad
assert model[0].weight.is_cuda and model[2].running_mean.is_cuda
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.randn(3, 5, device="cuda")).sum().backward()
    optimizer.step()
"""


class LazyModules(unittest.TestCase):
    def test_their_parameters_lie_on_the_gpu_and_are_counted(self):
        *_, footer = rows_of(self, PROGRAM)
        self.assertEqual(footer["parameters"], (5 * 8 + 8) + 2 * 8 + (8 * 4 + 4))


if __name__ == "__main__":
    unittest.main()
