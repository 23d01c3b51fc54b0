"""Programs that compile the step of their optimizer."""

import unittest

from tracing.kinds.traced_program import rows_of

PROGRAM = """
import torch

model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.Adam(model.parameters(), foreach=True)

{compiled}

for _ in range(4):
    model(torch.randn(8, 64, device="cuda")).sum().backward()
    step()
    optimizer.zero_grad()
"""
WAYS = {
    "a function": "@torch.compile(fullgraph=False)\ndef step():\n    optimizer.step()",
    "the method": "step = torch.compile(optimizer.step)",
}


class CompiledOptimizers(unittest.TestCase):
    def test_a_compiled_step_keeps_the_state_of_the_optimizer(self):
        for name, compiled in WAYS.items():
            with self.subTest(name):
                notes = rows_of(self, PROGRAM.format(compiled=compiled))[-1]["notes"]
                self.assertIn("torch.compile was left out", notes[0])
