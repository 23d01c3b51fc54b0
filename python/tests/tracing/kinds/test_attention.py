"""Attention runs with the kernel that a program has left switched on, and asks for what that one does."""

import unittest

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from tracing.watching import Asked, watched

from plimsoll.tracing.standins.attention import choose


def chosen(dtype=torch.bfloat16):
    given = torch.empty(2, 4, 16, 64, dtype=dtype, device="meta")
    return choose(given, given, given, None, False)


class Switches(unittest.TestCase):
    def test_a_program_may_name_the_kernel(self):
        self.assertEqual(chosen(), "cudnn")
        names = {
            SDPBackend.FLASH_ATTENTION: "flash",
            SDPBackend.EFFICIENT_ATTENTION: "efficient",
            SDPBackend.MATH: "math",
        }
        for backend, name in names.items():
            with sdpa_kernel(backend):
                self.assertEqual(chosen(), name)
        self.assertEqual(chosen(), "cudnn")

    def test_float32_falls_back_to_plain_products(self):
        self.assertEqual(chosen(torch.float32), "efficient")
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
            self.assertEqual(chosen(torch.float32), "math")


def asked_by_backward(positions_first):
    """What the memory-efficient kernel asks for in backward, where the gradient of its result lies so."""
    samples, heads, positions, width = 176, 4, 180, 64
    shape = (samples, heads, positions, width)
    with watched() as observer:
        query, key, value = (
            torch.empty(shape, device="meta", requires_grad=True) for _ in range(3)
        )
        out = scaled_dot_product_attention(query, key, value)
        order = (2, 0, 1, 3) if positions_first else (0, 2, 1, 3)
        gradient = torch.empty([shape[place] for place in order], device="meta")
        back = [order.index(place) for place in range(4)]
        asked = Asked(observer)
        out.backward(gradient.permute(back))
        return asked.sizes(), samples * heads * positions * width * 4


class Backward(unittest.TestCase):
    def test_a_gradient_with_positions_before_samples_is_copied_first(self):
        # As an H200 asks for it in `nn.MultiheadAttention`: a copy, three gradients, a product.
        sizes, whole = asked_by_backward(positions_first=True)
        self.assertEqual(sizes[:5], [whole] * 5)
        self.assertNotEqual(sizes[5], whole)

    def test_one_with_the_heads_of_a_position_side_by_side_is_not(self):
        sizes, whole = asked_by_backward(positions_first=False)
        self.assertEqual(sizes[:4], [whole] * 4)
        self.assertNotEqual(sizes[4], whole)
