"""Gradients that are shorter on CUDA than where ops are watched: losses of logits, as recorded, and products."""

import unittest

import torch
import torch.nn.functional as F

from tracing.watching import Asked, watched

SHAPE = (1024, 256)
BYTES = 4 * 1024 * 256


def backward_of(observer, result):
    grad = torch.empty_like(result)
    asked = Asked(observer)
    result.backward(grad)
    return asked.sizes()


class LossOfLogits(unittest.TestCase):
    def test_it_keeps_the_logs_until_the_mean_is_there_and_goes_back_in_place(self):
        with watched() as observer:
            logits = torch.empty(SHAPE, device="meta", requires_grad=True)
            target = torch.empty(SHAPE, device="meta")
            asked = Asked(observer)
            loss = F.binary_cross_entropy_with_logits(logits, target)
            self.assertEqual(asked.sizes()[:3], [BYTES, BYTES, 4])
            self.assertEqual(backward_of(observer, loss), [BYTES])
            self.assertEqual(logits.grad.shape, SHAPE)

    def test_weights_of_the_positive_ones_take_three_more(self):
        with watched() as observer:
            logits = torch.empty(SHAPE, device="meta", requires_grad=True)
            target = torch.empty(SHAPE, device="meta")
            weight = torch.empty(SHAPE[1], device="meta")
            loss = F.binary_cross_entropy_with_logits(
                logits, target, pos_weight=weight, reduction="sum"
            )
            self.assertEqual(backward_of(observer, loss), [BYTES] * 3)

    def test_its_gradient_can_be_differentiated_again(self):
        with watched():
            logits = torch.empty(SHAPE, device="meta", requires_grad=True)
            loss = F.binary_cross_entropy_with_logits(logits, torch.empty(SHAPE, device="meta"))
            (grad,) = torch.autograd.grad(loss, logits, create_graph=True)
            grad.square().sum().backward()
            self.assertEqual(logits.grad.shape, SHAPE)

    def test_functions_of_functions_have_it(self):
        with watched():
            target = torch.empty(SHAPE, device="meta")
            loss = torch.func.grad(lambda x: F.binary_cross_entropy_with_logits(x, target))
            self.assertEqual(loss(torch.empty(SHAPE, device="meta")).shape, SHAPE)

    def test_it_runs_without_a_gradient(self):
        with watched(), torch.inference_mode():
            logits = torch.empty(SHAPE, device="meta")
            loss = F.binary_cross_entropy_with_logits(logits, logits, reduction="none")
            self.assertEqual(loss.shape, SHAPE)


class Products(unittest.TestCase):
    def test_the_gradient_of_a_running_product_is_a_running_sum(self):
        with watched() as observer:
            source = torch.empty(SHAPE, device="meta", requires_grad=True)
            asked = Asked(observer)
            result = source.cumprod(-1)
            self.assertEqual(asked.sizes(), [BYTES])
            large = [size for size in backward_of(observer, result) if size > 32]
            self.assertEqual(large, [BYTES, BYTES // 4, BYTES, BYTES, BYTES, BYTES])

    def test_the_gradient_of_a_product_divides_by_its_factors(self):
        for dim, counted in ((None, 0), (-1, 1)):
            with self.subTest(dim=dim), watched() as observer:
                source = torch.empty(SHAPE, device="meta", requires_grad=True)
                result = source.prod() if dim is None else source.prod(dim)
                sizes = backward_of(observer, result)
                self.assertEqual(sizes[0], BYTES // 4)
                self.assertEqual(sizes[-2:], [BYTES, BYTES])
                self.assertEqual(4 * 1024 * 2 in sizes, bool(counted))
                self.assertEqual(source.grad.shape, SHAPE)


if __name__ == "__main__":
    unittest.main()
