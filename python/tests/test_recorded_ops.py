"""Ops as recordings of whole runs on an H200 show them, where a run of one op alone had not."""

import unittest

import torch
import torch.nn.functional as F
from watching import Asked, watched


def empty(*shape, dtype=torch.float32, grad=False, **options):
    return torch.empty(*shape, dtype=dtype, device="meta", **options).requires_grad_(grad)


class Losses(unittest.TestCase):
    def test_a_mean_keeps_the_memory_of_all_its_values(self):
        with watched() as observer:
            made, given = empty(8192, 2048, grad=True), empty(8192, 2048)
            sizes = Asked(observer)
            loss = F.mse_loss(made, given)
            whole = 8192 * 2048 * 4
            self.assertEqual(sizes.sizes(), [whole, whole, 2112, 4])
            self.assertEqual(loss.shape, ())
            self.assertEqual(loss.untyped_storage().nbytes(), whole)

    def test_values_without_a_mean_are_asked_for_once(self):
        with watched() as observer:
            made, given = empty(64, 32), empty(64, 32)
            sizes = Asked(observer)
            F.mse_loss(made, given, reduction="none")
            self.assertEqual(sizes.sizes(), [64 * 32 * 4])


class Casts(unittest.TestCase):
    def test_joining_two_types_makes_no_copy_under_autocast(self):
        with watched() as observer, torch.autocast("cuda", dtype=torch.bfloat16):
            parts = [empty(4, 1, 64), empty(4, 7, 64, dtype=torch.bfloat16)]
            sizes = Asked(observer)
            self.assertEqual(torch.cat(parts, dim=1).dtype, torch.float32)
            self.assertEqual(sizes.sizes(), [4 * 8 * 64 * 4])

    def test_a_softmax_of_float16_into_float32_makes_no_copy_but_one_of_bfloat16_does(self):
        with watched() as observer:
            for dtype, asked in ((torch.float16, 1), (torch.bfloat16, 2)):
                scores = empty(32, 128, 128, dtype=dtype)
                sizes = Asked(observer)
                F.softmax(scores, dim=-1, dtype=torch.float32)
                self.assertEqual(sizes.sizes(), [32 * 128 * 128 * 4] * asked)


class Attention(unittest.TestCase):
    def test_row_sums_are_kept_for_a_backward_pass_only(self):
        sums = 8 * 16 * 197 * 4
        with watched() as observer:
            for grad in (True, False):
                query = empty(8, 16, 197, 64, dtype=torch.bfloat16, grad=grad)
                sizes = Asked(observer)
                F.scaled_dot_product_attention(query, query, query)
                self.assertEqual(sums in sizes.sizes(), grad)


class PixelByPixel(unittest.TestCase):
    def test_the_result_lies_as_the_input_and_the_weight_is_copied_after_it(self):
        with watched() as observer:
            x = empty(32, 96, 56, 56, memory_format=torch.channels_last)
            weight = empty(192, 96, 2, 2)
            sizes = Asked(observer)
            result = F.conv2d(x, weight, stride=2)
            self.assertEqual(sizes.sizes()[:2], [19267584, 294912])
            self.assertTrue(result.is_contiguous(memory_format=torch.channels_last))

    def test_a_channel_for_itself_sums_its_weights_gradient_in_128_parts(self):
        with watched() as observer:
            x = empty(
                16, 512, 64, 64, dtype=torch.bfloat16, memory_format=torch.channels_last, grad=True
            )
            weight = empty(512, 1, 3, 3, dtype=torch.bfloat16, grad=True)
            result = F.conv2d(x, weight, padding=1, groups=512)
            grad = torch.empty_like(result)
            sizes = Asked(observer)
            result.backward(grad)
            self.assertIn(2359296, sizes.sizes())


class LayerNorm(unittest.TestCase):
    def test_gradients_of_many_short_rows_are_summed_in_blocks(self):
        with watched() as observer:
            x, weight, bias = empty(16, 16384, 64, grad=True), empty(64, grad=True), empty(64, grad=True)
            result = F.layer_norm(x, (64,), weight, bias)
            grad = torch.empty_like(result)
            sizes = Asked(observer)
            result.backward(grad)
            blocks = [2097152, 2097152, 256, 1048576, 4, 256, 1048576, 4]
            self.assertEqual(sizes.sizes(), [16 * 16384 * 64 * 4, 256, 256, *blocks])


if __name__ == "__main__":
    unittest.main()
