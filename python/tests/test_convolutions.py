"""Workspaces of convolutions where cuDNN cannot be asked, and how Hopper's kernels split a sum."""

import unittest

import torch
import watching  # noqa: F401 - puts the package on the path
from plimsoll.tracing.kernels import cudnn
from plimsoll.tracing.kernels.convolution import Problem
from plimsoll.tracing.kernels.split_k import split_scratch


def problem(n, cin, hw, cout, k, stride=1, pad=0, dtype=torch.float32, layout=torch.contiguous_format):
    out = (hw + 2 * pad - k) // stride + 1
    x = torch.empty(n, cin, hw, hw, dtype=dtype, device="meta").to(memory_format=layout)
    weight = torch.empty(cout, cin, k, k, dtype=dtype, device="meta")
    y = torch.empty(n, cout, out, out, dtype=dtype, device="meta")
    return Problem(x, weight, y, [stride, stride], [pad, pad], [1, 1], False, 1)


class Usual(unittest.TestCase):
    def test_channels_are_filled_up_to_sixteen_bytes(self):
        patch = problem(128, 3, 224, 768, 16, 16, dtype=torch.bfloat16)
        self.assertEqual(cudnn.usual(patch, "forward"), 144441360)

    def test_pixels_first_needs_no_copies(self):
        self.assertEqual(
            cudnn.usual(problem(8, 64, 56, 64, 3, pad=1, layout=torch.channels_last), "forward"), 0
        )

    def test_a_pointwise_convolution_is_a_product(self):
        self.assertEqual(cudnn.usual(problem(16, 192, 64, 384, 1), "forward"), 0)
        self.assertEqual(cudnn.usual(problem(16, 192, 64, 384, 1), "grad_weight"), 16 * 192 * 384 * 4)

    def test_some_products_are_convolved_after_all(self):
        half = torch.bfloat16
        for shape, which in (
            (problem(8, 64, 256, 21, 1), "grad_weight"),
            (problem(32, 24, 96, 72, 1), "grad_weight"),
            (problem(32, 512, 12, 2048, 1, dtype=half), "grad_input"),
            (problem(32, 512, 48, 256, 1, dtype=half), "grad_input"),
        ):
            self.assertTrue(cudnn.convolves(shape, which), (shape.x, shape.w))
        for shape, which in (
            (problem(64, 24, 56, 72, 1), "grad_weight"),
            (problem(8, 24, 96, 384, 1), "grad_weight"),
            (problem(32, 512, 32, 256, 1, dtype=half), "grad_input"),
            (problem(64, 512, 96, 32, 1, dtype=half), "grad_input"),
            (problem(32, 2048, 12, 512, 1, dtype=half), "forward"),
        ):
            self.assertFalse(cudnn.convolves(shape, which), (shape.x, shape.w))


class SplitSums(unittest.TestCase):
    knobs = {2: 0, 13: 0, 25: 0, 27: 1, 28: 2}

    def test_tiles_of_the_last_wave_are_split_among_idle_clusters(self):
        # 98 pairs of tiles on 66 clusters leave 32, which two clusters each then sum.
        shape = problem(4, 384, 56, 256, 3, pad=1, dtype=torch.bfloat16)
        self.assertEqual(split_scratch(shape, "forward", self.knobs) // 65536, 128)

    def test_short_sums_in_half_precision_are_not_split(self):
        # As in ResNet-101: 64 tiles for 132 multiprocessors, and none of them is shared.
        shape = problem(8, 128, 32, 128, 3, pad=1, dtype=torch.bfloat16)
        self.assertEqual(split_scratch(shape, "forward", {**self.knobs, 13: 1, 28: 1}), 0)

    def test_knobs_can_forbid_it(self):
        shape = problem(4, 384, 56, 256, 3, pad=1, dtype=torch.bfloat16)
        self.assertLess(split_scratch(shape, "forward", {**self.knobs, 25: 1}), 512)


if __name__ == "__main__":
    unittest.main()
