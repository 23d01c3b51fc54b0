"""An optimizer that computes the loss itself: as exact as the parts that its loss is summed over."""

import logging
import unittest

import torch
import torch.nn.functional as F

from sdk.injection import batch_of, build, cheap_collection, out_of_memory

import plimsoll

STEPS = 4


def trained(parts, dtype, line_search, steps=STEPS):
    """Plain LBFGS whose closure sums the mean loss over parts; no code of ours."""
    model, optimizer, batch = made(dtype, line_search)
    count = len(batch[0])

    def closure():
        optimizer.zero_grad(set_to_none=True)
        total, done = None, 0
        for size in parts:
            loss = F.cross_entropy(
                model(batch[0][done : done + size]), batch[1][done : done + size]
            )
            (loss if size == count else loss * (size / count)).backward()
            value = loss.detach() if size == count else loss.detach() * (size / count)
            total = value if total is None else total + value
            done += size
        return total

    for _ in range(steps):
        optimizer.step(closure)
    return weights(model)


def ours(dtype, line_search, fits=None, steps=STEPS, **options):
    model, optimizer, batch = made(dtype, line_search)

    def loss(part):
        if fits is not None and len(part[0]) > fits:
            raise out_of_memory()
        return F.cross_entropy(model(part[0]), part[1])

    step = plimsoll.recovering(model, optimizer, loss, **options)
    for _ in range(steps):
        step(batch)
    return weights(model), step.partition


def made(dtype, line_search):
    model = build(0, 0.0)[0].to(dtype)
    x, y = batch_of(1, 12)
    return (
        model,
        torch.optim.LBFGS(model.parameters(), max_iter=6, line_search_fn=line_search),
        (x.to(dtype), y),
    )


def weights(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


class Lbfgs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cheap_collection()

    def setUp(self):
        torch.set_num_threads(1)
        log = logging.getLogger("plimsoll")
        self.addCleanup(log.setLevel, log.level)
        log.setLevel(logging.ERROR)

    def test_a_whole_batch_is_bit_equal_to_plain_lbfgs(self):
        for line_search in (None, "strong_wolfe"):
            with self.subTest(line_search):
                self.assertTrue(
                    torch.equal(
                        ours(torch.float32, line_search)[0],
                        trained([12], torch.float32, line_search),
                    )
                )

    def test_parts_are_bit_equal_to_a_closure_over_the_same_parts(self):
        for line_search in (None, "strong_wolfe"):
            with self.subTest(line_search):
                mine, parts = ours(torch.float32, line_search, microbatch=5)
                self.assertEqual(parts, [4, 4, 4])
                self.assertTrue(torch.equal(mine, trained(parts, torch.float32, line_search)))

    def test_memory_that_runs_out_changes_nothing(self):
        # The first look fails with 6 samples; it and all that follow run with 3.
        mine, parts = ours(torch.float32, "strong_wolfe", fits=3, steps=1, microbatch=6)
        self.assertEqual(parts, [3, 3, 3, 3])
        self.assertTrue(torch.equal(mine, trained(parts, torch.float32, "strong_wolfe", steps=1)))

    def test_how_far_parts_are_from_the_whole_batch(self):
        for dtype, most in ((torch.float64, 1e-11), (torch.float32, 1e-3)):
            with self.subTest(str(dtype)):
                mine, _ = ours(dtype, None, microbatch=5)
                whole = trained([12], dtype, None)
                self.assertLess(float((mine - whole).abs().max() / whole.abs().max()), most)
