"""Autocast on the meta device: what is cast, in which order, and how long copies live."""

import unittest

import torch

from tracing.watching import Asked, watched


def layer():
    with torch.device("meta"):
        return torch.nn.Linear(256, 512), torch.empty(64, 256)


class Autocast(unittest.TestCase):
    def test_bias_weight_and_input_are_cast_from_the_last_to_the_first(self):
        with watched() as observer:
            linear, x = layer()
            asked = Asked(observer)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                out = linear(x)
                sizes = asked.sizes()
        self.assertEqual(sizes, [512 * 2, 512 * 256 * 2, 64 * 256 * 2, 64 * 512 * 2])
        self.assertEqual(out.dtype, torch.bfloat16)

    def test_weights_are_cast_once_and_kept_until_the_region_ends(self):
        with watched() as observer:
            linear, x = layer()
            asked = Asked(observer)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                linear(x)
                asked.sizes()
                linear(x)
                again = asked.sizes()
                inside = len([e for e in observer.ledger.events if e[0] == "f"])
            outside = len([e for e in observer.ledger.events if e[0] == "f"])
        self.assertEqual(again, [64 * 256 * 2, 64 * 512 * 2])
        self.assertEqual(outside - inside, 2)

    def test_in_inference_mode_nothing_is_kept_without_gradients_it_is(self):
        for without, kept in ((torch.inference_mode, False), (torch.no_grad, True)):
            with watched() as observer:
                linear, x = layer()
                asked = Asked(observer)
                with without(), torch.autocast("cuda", dtype=torch.bfloat16):
                    linear(x)
                    first = asked.sizes()
                    linear(x)
                    self.assertEqual(asked.sizes(), first[2:] if kept else first)

    def test_sums_and_losses_stay_in_float32(self):
        with watched(), torch.autocast("cuda", dtype=torch.bfloat16):
            low = torch.empty(8, 8, dtype=torch.bfloat16, device="meta")
            self.assertEqual(low.softmax(-1).dtype, torch.float32)
            self.assertEqual(torch.nn.functional.layer_norm(low, (8,)).dtype, torch.float32)
            self.assertEqual(torch.cat([low, low.float()]).dtype, torch.float32)

    def test_in_inference_mode_what_a_composite_op_calls_is_cast_too(self):
        functions = torch.nn.functional
        for without in (torch.no_grad, torch.inference_mode):
            with watched(), without(), torch.autocast("cuda", dtype=torch.bfloat16):
                low = torch.empty(2, 8, 16, 16, dtype=torch.bfloat16, device="meta")
                labels = torch.empty(2, 16, 16, dtype=torch.int64, device="meta")
                doubled = functions.interpolate(low, scale_factor=2)
                self.assertEqual(doubled.dtype, torch.float32)
                smooth = functions.interpolate(low, size=(40, 40), mode="bilinear")
                self.assertEqual(smooth.dtype, torch.float32)
                self.assertEqual(functions.cross_entropy(low, labels).dtype, torch.float32)
                # An op with a rule of its own is cast once: what it calls is left alone.
                product = functions.linear(low.float(), low.new_empty(4, 16).float())
                self.assertEqual(product.dtype, torch.bfloat16)

    def test_a_region_for_meta_tensors_is_one_for_cuda(self):
        with watched():
            linear, x = layer()
            with (
                torch.autocast("cuda", dtype=torch.bfloat16),
                torch.autocast("meta", enabled=False),
            ):
                self.assertEqual(linear(x).dtype, torch.float32)
