"""Patches of pictures, and pictures of patches: results begin with the size of what they are made of."""

import unittest

import torch
import torch.nn.functional as F

from tracing.watching import Asked, watched

# Of a ConvBERT, as recorded on an H200: 16 texts of 384 words in 384 channels, and patches of nine words.
ROWS, PATCHES = 4718592, 42467328


def words():
    return torch.empty(16, 384, 384, 1, dtype=torch.float16, device="meta")


def patches(source):
    return F.unfold(source, kernel_size=[9, 1], padding=[4, 0])


class Patches(unittest.TestCase):
    def test_patches_are_larger_and_move(self):
        with watched() as observer:
            source = words()
            asked, live = Asked(observer), observer.ledger.live_bytes
            made = patches(source)
            self.assertEqual(asked.sizes(), [ROWS, PATCHES])
            self.assertEqual(observer.ledger.live_bytes - live, PATCHES)
            self.assertEqual(made.shape, (16, 384 * 9, 384))

    def test_their_gradient_becomes_one_of_rows_in_memory_for_all_patches(self):
        with watched() as observer:
            made = patches(words().requires_grad_()).transpose(1, 2)
            turned = torch.empty(made.shape, dtype=made.dtype, device="meta")
            asked = Asked(observer)
            made.backward(turned)
            # The result, then a copy of the gradient, which lies otherwise.
            self.assertEqual(asked.sizes()[:2], [PATCHES, PATCHES])

    def test_one_that_lies_as_the_patches_do_is_not_copied(self):
        with watched() as observer:
            made = patches(words().requires_grad_())
            straight = torch.empty(made.shape, dtype=made.dtype, device="meta")
            asked, live = Asked(observer), observer.ledger.live_bytes
            made.backward(straight)
            self.assertEqual(asked.sizes(), [PATCHES])
            self.assertEqual(observer.ledger.live_bytes - live, PATCHES)


if __name__ == "__main__":
    unittest.main()
