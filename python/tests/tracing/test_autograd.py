"""Where autograd writes into memory it holds, although a dispatch mode watches."""

import unittest

import torch

from tracing.watching import Asked, watched


class Accumulation(unittest.TestCase):
    def test_a_second_gradient_is_added_into_the_first(self):
        with watched() as observer:
            x = torch.empty(512, 512, device="meta", requires_grad=True)
            h = x * 2
            y = h.sin() + h.cos()
            grad = torch.empty_like(y)
            asked = Asked(observer)
            y.backward(grad)
            sizes = asked.sizes()
        # sin, neg and product; cos and product; then times two: the sum of both takes nothing.
        self.assertEqual(sizes, [1 << 20] * 6)

    def test_a_gradient_that_others_see_is_left_alone(self):
        with watched() as observer:
            x = torch.empty(512, 512, device="meta", requires_grad=True)
            w = torch.empty(512, 512, device="meta", requires_grad=True)
            y = (x + w) + x
            grad = torch.empty_like(y)
            asked = Asked(observer)
            y.backward(grad)
            sizes = asked.sizes()
        # The same gradient goes to both parameters: one copy for w, and a new sum for x.
        self.assertEqual(sizes, [1 << 20] * 2)

    def test_the_backward_thread_opens_its_own_cublas(self):
        with watched(libraries_open=False) as observer:
            x = torch.empty(64, 64, device="meta", requires_grad=True)
            asked = Asked(observer)
            y = x @ x
            forward = asked.sizes()
            y.backward(torch.empty_like(y))
            backward = asked.sizes()
        self.assertEqual(forward, [16384, 32 << 20])
        self.assertEqual(backward.count(32 << 20), 1)
