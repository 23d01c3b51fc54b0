"""Numbers that are drawn to build a model: what is drawn after them is the same as in a real run."""

import unittest

import torch

from tracing.kinds.traced_program import rows_of

from plimsoll.tracing.programs.drawing.draws import Draws, skip

# As programs write that make their batches on the GPU.
ON_GPU = """
import torch
for made_by in (torch.Generator("cuda"), torch.Generator(device=torch.device("cuda:0")).manual_seed(3)):
    assert made_by.device == torch.device("cuda:0"), made_by.device
    assert torch.rand(3, generator=made_by, device=made_by.device).is_cuda
assert torch.Generator().device == torch.device("cpu")
assert not torch.rand(3, generator=torch.Generator("cpu")).is_cuda
"""
# The numbers are those of the same lines without a GPU.
AFTER_A_MODEL = """
import torch

def drawn(device):
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 2048), torch.nn.Embedding(500, 16)).to(device)
    numbers = [torch.randperm(50), torch.rand(3), torch.randn(20), torch.randint(9, (4,)), torch.empty(5).normal_()]
    return [number.tolist() for number in numbers], model

on_host, _ = drawn("cpu")
on_gpu, model = drawn("cuda")
assert on_gpu == on_host, (on_gpu, on_host)
torch.manual_seed(3)
for shape in ((2048, 1024), (2048,), (500, 16)):
    torch.nn.init.normal_(torch.empty(shape)) if shape[1:] == (16,) else torch.empty(shape).uniform_()
assert torch.randperm(50).tolist() == on_gpu[0]
model[0](torch.ones(8, 1024, device="cuda")).sum().backward()
"""
_ATEN = torch.ops.aten
_SIZES = (1, 15, 16, 17, 623, 624, 1000, 5000)


def after(draw, *arguments, draws=None, before=7):
    torch.manual_seed(5)
    # Not at the beginning of what the generator makes at once.
    torch.rand(before)
    draw(*arguments)
    if draws is not None:
        draws.settle()
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
                        followed = after(draws.follow, func, (meta,), {}, draws=draws)
                        self.assertEqual(followed, real)

    def test_a_tensor_whose_values_lie_apart_is_drawn_as_it_is(self):
        real = after(torch.empty(40, 30).t().normal_)
        meta = torch.empty(40, 30, device="meta").t()
        followed = after(Draws().follow, _ATEN.normal_.default, (meta,), {})
        self.assertEqual(followed, real)

    def test_the_generator_moves_on_as_if_it_had_drawn(self):
        for before in (0, 1, 623, 624, 625):
            for count in (0, 1, 623, 624, 625, 1247, 1248, 1249, 3_000_000):
                with self.subTest(before=before, count=count):
                    real = after(lambda n: torch.empty(n).uniform_(), count, before=before)
                    self.assertEqual(after(skip, count, before=before), real)

    def test_what_a_model_of_many_layers_draws_is_left_out_at_once(self):
        shapes = [(2048, 1024), (1024,), (1000, 999), (3,), (2048, 1024)]

        def build(make):
            for shape in shapes:
                make(_ATEN.uniform_.default, shape)
                make(_ATEN.normal_.default, shape)

        draws = Draws()
        real = after(build, lambda func, shape: func(torch.empty(shape)))
        follow = lambda func, shape: draws.follow(func, (torch.empty(shape, device="meta"),), {})  # noqa: E731
        self.assertEqual(after(build, follow, draws=draws), real)
        self.assertTrue(draws.all_followed())

    def test_what_was_drawn_before_a_seed_counts_for_nothing(self):
        draws, weights = Draws(), torch.empty(2048, 1024, device="meta")
        torch.manual_seed(5)
        real = torch.randint(0, 1 << 30, (4,)).tolist()
        torch.manual_seed(5)
        draws.follow(_ATEN.normal_.default, (weights,), {})
        # As trainers do once more.
        torch.manual_seed(5)
        draws.settle()
        self.assertEqual(torch.randint(0, 1 << 30, (4,)).tolist(), real)

    def test_a_program_draws_after_its_model_as_in_a_real_run(self):
        rows_of(self, AFTER_A_MODEL)

    def test_a_generator_says_that_it_is_on_the_gpu(self):
        rows_of(self, ON_GPU)


if __name__ == "__main__":
    unittest.main()
