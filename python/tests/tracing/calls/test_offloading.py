"""Programs that keep a part of their training in host memory."""

import unittest

from tracing.kinds.traced_program import rows_of

OFFLOADED = """
import torch
from torch import nn

# The optimizer works on copies in host memory, small ones and large ones.
for width in (64, 1100):
    copies, model = nn.Linear(width, width), nn.Linear(width, width).cuda()
    model.load_state_dict(copies.state_dict())
    optimizer = torch.optim.Adam(copies.parameters())
    for _ in range(4):
        model(torch.randn(16, width, device="cuda")).sum().backward()
        for copied, parameter in zip(copies.parameters(), model.parameters()):
            copied.grad = parameter.grad.to("cpu", non_blocking=True).float()
            parameter.grad = None
            assert copied.grad.device.type == "cpu"
        optimizer.step()
        with torch.no_grad():
            for copied, parameter in zip(copies.parameters(), model.parameters()):
                parameter.copy_(copied, non_blocking=True)

# Numbers of the host whose gradient comes from the GPU.
numbers = torch.zeros(1100, 1100, requires_grad=True)
numbers.grad = torch.ones(1100, 1100, device="cuda").cpu()
torch.optim.SGD([numbers], 0.1).step()
numbers.grad = None

pinned = torch.randn(100, 10).pin_memory()
assert pinned.is_pinned() and pinned[:5].is_pinned() and pinned.cuda().is_cuda
assert torch.empty(3, pin_memory=True).is_pinned() and not torch.empty(3).is_pinned()
assert torch.empty_like(next(copies.parameters()), device="cpu", pin_memory=True).is_pinned()

shared = torch.zeros(4, 8).share_memory_()
assert shared.is_shared()
assert next(nn.Linear(4, 4).share_memory().parameters()).device.type == "cpu"
"""


class Offloading(unittest.TestCase):
    def test_gradients_go_to_copies_in_host_memory(self):
        asked = [
            row[2] for row in rows_of(self, OFFLOADED) if isinstance(row, list) and row[0] == "a"
        ]
        # The weights, and their gradients four times; what the optimizer keeps is not on the GPU.
        self.assertEqual(asked.count(1100 * 1100 * 4), 1 + 4 + 1)


if __name__ == "__main__":
    unittest.main()
