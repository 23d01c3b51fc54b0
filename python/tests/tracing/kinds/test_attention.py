"""Attention runs with the kernel that a program has left switched on."""

import unittest

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

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
