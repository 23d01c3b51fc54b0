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

PICTURE_BYTES = 3 * 1000 * 1000 * 4
PICTURE = """
import torch

model = torch.nn.Conv2d(3, 1, 3).cuda().requires_grad_(False)
if {loads}:
    torch.save(model.state_dict(), "weights.pt")
    model.load_state_dict(torch.load("weights.pt"))
picture = torch.rand(1, 3, 1000, 1000, device="cuda").requires_grad_(True)
optimizer = torch.optim.LBFGS([picture], max_iter=50, history_size=20)

def closure():
    optimizer.zero_grad()
    loss = model(picture).pow(2).mean()
    loss.backward()
    return loss

for _ in range(2):
    optimizer.step(closure)
kept = optimizer.state[picture]["old_dirs"]
assert (len(kept) == 20) == {loads}, len(kept)
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

    def test_a_picture_before_random_weights_leaves_no_history_and_one_before_loaded_weights_does(
        self,
    ):
        for loads in (False, True):
            with self.subTest(loads=loads):
                rows = rows_of(self, PICTURE.format(loads=loads))
                # Two vectors for each iteration of a full history, as the step comes twice.
                more = 0 if loads else 2 * HISTORY * PICTURE_BYTES
                self.assertEqual(rows[-1]["maybeMoreBytes"], more)
