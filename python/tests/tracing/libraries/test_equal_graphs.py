"""Blocks that are compiled one by one, and are alike, are lowered once."""

import unittest

from tracing.kinds.traced_program import rows_of

PROGRAM = """
import os
import torch
from torch import nn
from plimsoll.tracing.programs.compiling import lowering

os.sched_getaffinity = lambda _: {{0}}
lowered = []
lower = lowering.Lowering._lower
def counted(self, graph, inputs, kind):
    lowered.append(kind)
    return lower(self, graph, inputs, kind)
lowering.Lowering._lower = counted
{change}

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, width), nn.Linear(width, 64)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))

model = nn.Sequential(*(Block(width) for width in {widths})).cuda()
for block in model:
    block.compile(mode={mode!r})
x = torch.zeros(4096, 64).cuda()
for _ in range(3):
    model(x).square().mean().backward()
model.eval()
with torch.no_grad():
    model(x)
assert len(lowered) == {expected}, lowered
"""
EACH = "lowering.form_of_graph = lambda *_: None"


class EqualGraphs(unittest.TestCase):
    def rows(self, expected, change="", widths=(256, 256, 256), mode=None):
        settings = {"change": change, "widths": widths, "mode": mode, "expected": expected}
        rows = rows_of(self, PROGRAM.format(**settings))
        self.assertIn("torch.compile was followed", str(rows[-1]))
        return rows[1:-1]

    def test_the_trace_is_that_of_graphs_that_are_all_lowered(self):
        # Forward, backward and inference; gradients of the input are not asked for in the first block.
        for mode in (None, "reduce-overhead"):
            with self.subTest(mode):
                self.assertEqual(self.rows(5, mode=mode), self.rows(9, EACH, mode=mode))

    def test_other_blocks_are_lowered_for_themselves(self):
        self.rows(8, widths=(256, 256, 512))


if __name__ == "__main__":
    unittest.main()
