"""Attention runs with the kernel that a program has left switched on, and asks for what that one does."""

import unittest

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from tracing.watching import Asked, watched

from plimsoll.tracing.gpu import gpu_of
from plimsoll.tracing.standins.attention_kernels import choose


def chosen(dtype=torch.bfloat16, head=64, masked=False, keys=16, **settings):
    query = torch.empty(2, 4, 16, head, dtype=dtype, device="meta")
    key = torch.empty(2, 4, keys, head, dtype=dtype, device="meta")
    mask = torch.empty(2, 1, 16, keys, dtype=torch.bool, device="meta") if masked else None
    return choose(query, key, key, mask, False, **settings)


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


class Heads(unittest.TestCase):
    """Sizes that a kernel cannot read 16 bytes at a time."""

    def test_odd_heads_with_a_mask_take_plain_products(self):
        # Moonshine on an H200: eight heads of 52.
        self.assertEqual(chosen(head=52, masked=True), "math")
        self.assertEqual(chosen(head=56, masked=True), "cudnn")

    def test_without_a_mask_flash_fills_them_up(self):
        self.assertEqual(chosen(head=52), "flash")

    def test_float32_heads_are_multiples_of_four(self):
        self.assertEqual(chosen(torch.float32, head=52), "efficient")
        self.assertEqual(chosen(torch.float32, head=50), "math")


class Cards(unittest.TestCase):
    """In the order of preference, and with the data types, of their generation."""

    def test_only_hopper_and_its_successor_prefer_cudnn(self):
        kernels = {
            capability: chosen(capability=capability) for capability in (80, 86, 89, 100, 120)
        }
        self.assertEqual(
            kernels, {80: "flash", 86: "flash", 89: "flash", 100: "cudnn", 120: "flash"}
        )

    def test_flash_takes_no_mask(self):
        self.assertEqual(chosen(masked=True, capability=80), "efficient")

    def test_cudnn_runs_where_a_program_names_it(self):
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            self.assertEqual(chosen(capability=80), "cudnn")

    def test_flash_counts_from_one_end_only(self):
        self.assertEqual(chosen(keys=20, is_causal=True, capability=80), "efficient")
        self.assertEqual(chosen(keys=20, capability=80), "flash")

    def test_before_ampere_there_is_neither_flash_nor_bfloat16(self):
        self.assertEqual(chosen(torch.float16, capability=75), "efficient")
        self.assertEqual(chosen(torch.float16, head=52, capability=75), "math")
        self.assertEqual(chosen(torch.bfloat16, capability=75), "math")
        self.assertEqual(chosen(torch.float32, head=50, capability=75), "efficient")

    def test_a_traced_program_gets_the_kernel_of_its_card(self):
        sizes = {}
        for capability in (80, 90):
            with watched(gpu=gpu_of("a card", capability, None, None)) as observer:
                given = torch.empty(2, 4, 16, 64, dtype=torch.bfloat16, device="meta")
                asked = Asked(observer)
                scaled_dot_product_attention(given, given, given)
                sizes[capability] = asked.sizes()
        whole = 2 * 4 * 16 * 64 * 2
        # Flash keeps a sum for each row; cuDNN does so for a backward pass only.
        self.assertEqual(sizes[80][:2], [whole, 2 * 4 * 16 * 4])
        self.assertNotIn(2 * 4 * 16 * 4, sizes[90])


class Flash(unittest.TestCase):
    def test_backward_asks_as_on_an_h200(self):
        # The decoder of Moonshine in bfloat16: 96 texts of 40 words, eight heads of 52, filled up to 56.
        texts, words, heads, head = 96, 40, 8, 52
        shape = (texts, words, heads, head)
        with watched() as observer:
            query, key, value = (
                torch.empty(
                    shape, dtype=torch.bfloat16, device="meta", requires_grad=True
                ).transpose(1, 2)
                for _ in range(3)
            )
            out = scaled_dot_product_attention(query, key, value, is_causal=True)
            flat = out.transpose(1, 2).reshape(texts, words, heads * head)
            asked = Asked(observer)
            flat.backward(torch.empty_like(flat))
            sizes = asked.sizes()
        gradient, filled = texts * words * heads * head * 2, texts * words * heads * 56 * 2
        # The gradient that `backward` is given, filled up; copies of it and of the result, which lie otherwise
        # than flash wants them; three gradients; a number for each row; sums of the query's gradient.
        self.assertEqual(sizes[0], gradient)
        self.assertEqual(sizes[1:9], [filled] * 6 + [393_216, 25_165_824])


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
