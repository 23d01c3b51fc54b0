"""Convolutions by Fourier transform, as an H200 ranked layers that the fit has not seen."""

import unittest

import torch

from plimsoll.tracing.kernels import cudnn
from plimsoll.tracing.kernels.convolution import Problem
from plimsoll.tracing.kernels.fitted import transforms

# Images, inputs, pixels of a side, outputs, filter.
GRADIENTS_OF_WEIGHTS = (
    (40, 128, 32, 64, 3),
    (80, 128, 32, 64, 3),
    (256, 128, 18, 64, 3),
    (96, 99, 14, 44, 3),
    (32, 153, 24, 53, 3),
    (96, 72, 20, 72, 3),
    (40, 133, 24, 48, 3),
    (256, 80, 32, 56, 3),
    (64, 64, 16, 64, 3),
)
GRADIENTS_OF_INPUTS = ((128, 16, 55, 64, 3),)
# It takes a transform, too; the fit is not sure of it.
UNSURE_GRADIENT_OF_INPUT = (24, 48, 25, 64, 5)
# Layers of ResNets and of a network for small images, which take other kernels.
OTHERS = ((4, 256, 14, 256, 3), (4, 64, 56, 64, 3), (32, 512, 7, 512, 3), (32, 64, 9, 64, 3))


def chance_of(images, inputs, side, outputs, width, which, dtype=torch.float32, padding=None):
    padding = width // 2 if padding is None else padding
    made = side + 2 * padding - width + 1
    x, y = (
        torch.empty(images, n, pixels, pixels, dtype=dtype, device="meta")
        for n, pixels in ((inputs, side), (outputs, made))
    )
    weight = torch.empty(outputs, inputs, width, width, dtype=dtype, device="meta")
    layer = Problem(x, weight, y, [1, 1], [padding] * 2, [1, 1], False, 1)
    return transforms.transform(layer, which, cudnn.library().choose(layer, which))[1]


class FiltersAsLargeAsImages(unittest.TestCase):
    """Images of one channel, as in gradients of gradients; pixels of a side, inputs, outputs, and bytes on an H200."""

    MEASURED = (
        (16, 512, 512, 13_631_504),
        (32, 512, 512, 26_214_416),
        (64, 512, 256, 17_301_520),
        (64, 256, 256, 10_747_920),
        (128, 256, 128, 26_345_488),
        (128, 128, 128, 8_665_432_064),
        (128, 64, 64, 2_168_455_168),
        (100, 128, 384, 6_558_474_240),
    )

    def test_take_what_a_whole_run_showed(self):
        for side, inputs, outputs, size in self.MEASURED:
            with self.subTest(side=side, inputs=inputs):
                x, weight = (
                    torch.empty(n, 1, side, side, device="meta") for n in (inputs, outputs)
                )
                y = torch.empty(inputs, outputs, 3, 3, device="meta")
                layer = Problem(x, weight, y, [1, 1], [1, 1], [1, 1], False, 1)
                self.assertEqual(cudnn.workspace(layer, "forward"), size)


class Transforms(unittest.TestCase):
    def test_are_likely_where_they_were_ranked_first(self):
        for which, layers in (
            ("grad_weight", GRADIENTS_OF_WEIGHTS),
            ("grad_input", GRADIENTS_OF_INPUTS),
        ):
            for layer in layers:
                with self.subTest(which=which, layer=layer):
                    self.assertGreater(chance_of(*layer, which), 0.5)

    def test_are_counted_on_where_they_are_not_sure(self):
        chance = chance_of(*UNSURE_GRADIENT_OF_INPUT, "grad_input")
        self.assertTrue(0.25 < chance < 0.95, chance)

    def test_are_unlikely_elsewhere(self):
        for layer in OTHERS:
            for which in ("grad_input", "grad_weight"):
                with self.subTest(which=which, layer=layer):
                    self.assertLess(chance_of(*layer, which), 0.25)

    def test_are_known_for_layers_that_keep_the_size_of_images_alone(self):
        # The encoder of an agent that sees pixels: an H200 took other kernels for all three.
        for side in (41, 39, 37):
            with self.subTest(side=side):
                layer = (512, 32, side, 32, 3)
                self.assertEqual(chance_of(*layer, "grad_weight", padding=0), 0)

    def test_are_known_for_float32_alone(self):
        chance = chance_of(*GRADIENTS_OF_WEIGHTS[0], "grad_weight", torch.bfloat16)
        self.assertEqual(chance, 0)


if __name__ == "__main__":
    unittest.main()
