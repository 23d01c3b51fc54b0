"""Numbers that are drawn to build a model: what is drawn after them is the same as in a real run."""

import unittest

import torch

from tracing.kinds.traced_program import rows_of

from plimsoll.tracing.programs.draws import Draws

# As programs write that make their batches on the GPU.
ON_GPU = """
import torch
for made_by in (torch.Generator("cuda"), torch.Generator(device=torch.device("cuda:0")).manual_seed(3)):
    assert made_by.device == torch.device("cuda:0"), made_by.device
    assert torch.rand(3, generator=made_by, device=made_by.device).is_cuda
assert torch.Generator().device == torch.device("cpu")
assert not torch.rand(3, generator=torch.Generator("cpu")).is_cuda
"""
_ATEN = torch.ops.aten
_SIZES = (1, 15, 16, 17, 623, 624, 1000, 5000)


def after(draw, *arguments):
    torch.manual_seed(5)
    # Not at the beginning of what the generator makes at once.
    torch.rand(7)
    draw(*arguments)
    return torch.randint(0, 1 << 30, (4,)).tolist()


class Drawn(unittest.TestCase):
    def setUp(self):
        self.addCleanup(torch.set_rng_state, torch.get_rng_state())

    def test_the_order_goes_on_as_after_a_real_draw(self):
        draws = Draws()
        for func in (_ATEN.uniform_.default, _ATEN.normal_.default):
            for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
                for size in _SIZES:
                    with self.subTest(func=str(func), dtype=dtype, size=size):
                        real = after(func, torch.empty(size, dtype=dtype))
                        meta = torch.empty(size, dtype=dtype, device="meta")
                        self.assertEqual(after(draws.follow, func, (meta,), {}), real)

    def test_a_tensor_whose_values_lie_apart_is_drawn_as_it_is(self):
        real = after(torch.empty(40, 30).t().normal_)
        meta = torch.empty(40, 30, device="meta").t()
        followed = after(Draws().follow, _ATEN.normal_.default, (meta,), {})
        self.assertEqual(followed, real)

    def test_a_generator_says_that_it_is_on_the_gpu(self):
        rows_of(self, ON_GPU)


if __name__ == "__main__":
    unittest.main()
