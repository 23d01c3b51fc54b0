"""Iterations inside of one step of an optimizer: of L-BFGS, which keeps a history of them."""

import unittest

from tracing.kinds.traced_program import rows_of

HISTORY = 20
PROGRAM = """
import torch

model = torch.nn.Linear(1000, 500, bias=False).cuda()
inputs = torch.randn(8, 1000, device="cuda")
optimizer = torch.optim.LBFGS(
    model.parameters(), max_iter={iterations}, history_size=20, line_search_fn={search}
)
calls = 0

def closure():
    global calls
    calls += 1
    optimizer.zero_grad()
    loss = model(inputs).pow(2).mean()
    loss.backward()
    return loss

optimizer.step(closure)
assert calls < 50, calls
assert optimizer.param_groups[0]["max_iter"] == {iterations}
kept = optimizer.state[optimizer._params[0]]["old_dirs"]
assert len(kept) == {kept}, len(kept)
model.eval()
with torch.no_grad():
    model(inputs)
"""


class InnerIterations(unittest.TestCase):
    def test_a_long_step_fills_its_history_and_what_follows_is_seen(self):
        for search in ("None", "'strong_wolfe'"):
            with self.subTest(search):
                rows = rows_of(self, PROGRAM.format(iterations=5000, search=search, kept=HISTORY))
                self.assertFalse(rows[-1]["ended"])
                self.assertIn(["m", "phase:evaluation"], rows)
                asked = [row for row in rows[1:-1] if row[0] == "a"]
                vectors = [row for row in asked if row[2] >= 2_000_000]
                self.assertGreater(len(vectors), 2 * HISTORY)
