"""Workspaces of kinds of convolutions that an H200 was asked about (bench/truth/asked-convolutions.json.xz)."""

import json
import lzma
import os
import unittest

import torch

from tracing import PACKAGE

from plimsoll.tracing.kernels import cudnn
from plimsoll.tracing.kernels.convolution import Problem

ASKED = os.path.join(os.path.dirname(PACKAGE), "bench", "truth", "asked-convolutions.json.xz")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
KINDS = ("forward", "grad_input", "grad_weight")
# Smaller differences seldom change what a program takes.
NEAR = 1 << 20
# Of the workspaces of each kind at least so many in a hundred are those of the card.
RIGHT = {"depthwise_last": 98, "whole": 97, "dense_last": 90}
RIGHT_OF_OTHERS = 95
SHARE = 4


def layer(x, w, stride=1, padding=0, dilation=1, groups=1, dtype=torch.bfloat16, last=True):
    dims = len(x) - 2
    order = torch.channels_last if last else torch.contiguous_format
    x, w = (
        torch.empty(shape, dtype=dtype, device="meta").to(memory_format=order) for shape in (x, w)
    )
    settings = [[n] * dims for n in (stride, padding, dilation)]
    y = torch.ops.aten.convolution(x, w, None, *settings, False, [0] * dims, groups)
    return Problem(x, w, y, *settings, False, groups)


def asked_problem(numbers, dtype, layout):
    x, w, stride, padding, dilation, transposed, output_padding, groups = numbers
    x, w = (torch.empty(shape, dtype=DTYPES[dtype], device="meta") for shape in (x, w))
    if layout == "nhwc":
        x, w = (t.to(memory_format=torch.channels_last) for t in (x, w))
    settings = (stride, padding, dilation, bool(transposed))
    y = torch.ops.aten.convolution(x, w, None, *settings, output_padding, groups)
    problem = Problem(x, w, y, *settings, groups)
    # The strides of an image of one pixel do not tell how it lies.
    problem.channels_last |= layout == "nhwc"
    return problem


def asked():
    with lzma.open(ASKED) as file:
        return json.load(file)


class ChannelsApart(unittest.TestCase):
    """Depthwise layers, channels last, in half precision."""

    def test_a_convmixer_takes_memory_for_the_gradient_of_its_weights_alone(self):
        mixer = layer((96, 512, 28, 28), (512, 1, 7, 7), padding=3, groups=512)
        self.assertEqual([cudnn.workspace(mixer, which) for which in KINDS], [0, 0, 77070336])

    def test_large_filters_are_as_ranked_but_for_gradients_of_inputs(self):
        large = layer((12, 512, 56, 56), (512, 1, 9, 9), padding=4, groups=512)
        for which in ("forward", "grad_weight"):
            ranked = cudnn.library().choose(large, which).workspace
            self.assertEqual(cudnn.workspace(large, which), ranked)
        self.assertEqual(cudnn.workspace(large, "grad_input"), 0)

    def test_few_small_images_need_no_parts(self):
        few = layer((6, 1152, 7, 7), (1152, 1, 5, 5), padding=2, groups=1152, dtype=torch.float16)
        self.assertEqual(cudnn.workspace(few, "grad_weight"), 0)

    def test_small_results_of_large_filters_with_a_stride_are_as_ranked(self):
        small = layer((200, 1024, 12, 12), (1024, 1, 7, 7), 2, padding=3, groups=1024)
        self.assertEqual(cudnn.workspace(small, "grad_weight"), 0)


class Products(unittest.TestCase):
    def test_odd_channels_are_not_copied_where_pixels_lie_in_one_run(self):
        head = layer((128, 128, 25, 25), (91, 128, 1, 1))
        for which in ("forward", "grad_input"):
            size, other, chance = cudnn.workspaces(head, which)
            self.assertLess(size, NEAR)
            self.assertEqual(other, 15384723)
            self.assertTrue(0 < chance < 0.5)

    def test_gradients_of_weights_over_large_images_in_half_precision(self):
        large = layer((10, 256, 256, 256), (64, 256, 1, 1), dtype=torch.float16, last=False)
        self.assertEqual(cudnn.workspace(large, "grad_weight"), 655360)

    def test_clips_are_products_forward(self):
        clips = layer((8, 384, 64, 64, 64), (192, 384, 1, 1, 1), last=False)
        self.assertEqual(cudnn.workspace(clips, "forward"), 0)
        self.assertEqual(cudnn.workspace(clips, "grad_weight"), 2359296)

    def test_few_groups_of_four_channels_copy(self):
        groups = layer((64, 64, 100, 100), (64, 4, 3, 3), padding=1, groups=16, last=False)
        self.assertEqual(cudnn.workspace(groups, "grad_weight"), 169007039)


class WithoutTensorCores(unittest.TestCase):
    """A program may forbid TF32; then kernels run that do without tensor cores."""

    def setUp(self):
        self.addCleanup(setattr, torch.backends.cudnn, "allow_tf32", True)
        torch.backends.cudnn.allow_tf32 = False

    def test_workspaces_are_those_of_the_runs(self):
        wrong = []
        for kind, numbers, dtype, layout, measured in asked()["run"]:
            problem = asked_problem(numbers, dtype, layout)
            if kind != "tf32_off" or problem.depthwise:
                continue
            order = (1, 0, 2) if numbers[5] else (0, 1, 2)
            for place, size in zip(order, measured):
                if abs(cudnn.workspace(problem, KINDS[place]) - size) > NEAR:
                    wrong.append((numbers, KINDS[place]))
        # The one by Fourier transform, whose filter keeps no size.
        self.assertEqual(len(wrong), 1, wrong)

    def test_products_are_not_taken_in_float32(self):
        narrow = layer((16, 128, 25, 25), (1024, 128, 1, 1), dtype=torch.float32, last=False)
        forbidden = cudnn.workspaces(narrow, "grad_weight")
        torch.backends.cudnn.allow_tf32 = True
        self.assertNotEqual(forbidden, cudnn.workspaces(narrow, "grad_weight"))

    def test_half_precision_is_as_before(self):
        mixed = layer((8, 64, 56, 56), (64, 64, 3, 3), padding=1, last=False)
        forbidden = cudnn.workspace(mixed, "grad_weight")
        torch.backends.cudnn.allow_tf32 = True
        self.assertEqual(forbidden, cudnn.workspace(mixed, "grad_weight"))


class Asked(unittest.TestCase):
    def test_workspaces_are_those_that_an_h200_told(self):
        counts = {}
        for kind, numbers, dtype, layout, found in asked()["asked"][::SHARE]:
            problem = asked_problem(numbers, dtype, layout)
            if problem.depthwise:
                continue
            for which, answer in zip(KINDS, found):
                near = abs(cudnn.workspace(problem, which) - answer[1]) <= NEAR
                right, of = counts.get(kind, (0, 0))
                counts[kind] = right + near, of + 1
        for kind, (right, of) in counts.items():
            with self.subTest(kind=kind, right=right, of=of):
                self.assertGreaterEqual(100 * right, RIGHT.get(kind, RIGHT_OF_OTHERS) * of)


if __name__ == "__main__":
    unittest.main()
