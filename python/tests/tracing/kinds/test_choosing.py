"""Sorting, topk and drawing beside what text sampled on an H200 asked the allocator for."""

import unittest

import torch

from tracing.watching import Asked, watched

from plimsoll.tracing.kernels.registry import rule, rule_for

# Scores of 16 and of 48 texts, each over 60,000 words.
SORTED = {
    16: [3840000, 7680000, 7680000, 7680000, 3840000, 11711999, 173567],
    48: [11520000, 23040000, 23040000, 23040000, 11520000, 35117567, 514559],
}
LARGEST = {
    16: [3200, 6400, 64, 128, 128, 385024, 16384, 3008, 3008, 1279, 1279],
    48: [9600, 19200, 192, 384, 384, 393216, 49152, 3072, 3072, 1279, 1279],
}


class Choosing(unittest.TestCase):
    def test_rows_are_sorted_together_with_the_numbers_of_their_rows(self):
        for rows, sizes in SORTED.items():
            with self.subTest(rows=rows), watched() as observer:
                scores = torch.empty(rows, 60000, device="meta")
                asked = Asked(observer)
                held = scores.sort()
                self.assertEqual(asked.sizes(), sizes)
                self.assertEqual(_live(observer), sum(sizes[:2]))
                del held

    def test_short_rows_are_sorted_where_they_lie(self):
        with watched() as observer:
            scores = torch.empty(4, 4096, device="meta")
            asked = Asked(observer)
            torch.argsort(scores)
            self.assertEqual(asked.sizes(), [65536, 131072, 32768])

    def test_a_dimension_whose_values_lie_apart_is_copied_first(self):
        with watched() as observer:
            scores = torch.empty(60000, 16, device="meta")
            asked = Asked(observer)
            torch.sort(scores, 0)
            values, places, *rest = SORTED[16]
            copies = [3840000, 3840000, 7680000]
            self.assertEqual(asked.sizes(), [values, places, *copies, *rest])

    def test_several_blocks_share_a_long_row_in_the_search_for_the_largest(self):
        for rows, sizes in LARGEST.items():
            with self.subTest(rows=rows), watched() as observer:
                scores = torch.empty(rows, 60000, device="meta")
                asked = Asked(observer)
                held = scores.topk(50)
                self.assertEqual(asked.sizes(), sizes)
                self.assertEqual(_live(observer), sum(sizes[:2]))
                del held

    def test_many_that_were_taken_are_put_in_order_in_new_memory(self):
        # A quarter of the pixels of a batch, as those of the largest loss.
        with watched() as observer:
            losses = torch.empty(3145728, device="meta")
            asked = Asked(observer)
            held = losses.topk(786432)
            found = [3145728, 6291456, 4, 8, 8, 393216, 1024, 3072, 3072, 1279, 1279]
            ordered = [6291456, 3145728, 6291456, 9596415, 6291456]
            self.assertEqual(asked.sizes(), found + ordered)
            self.assertEqual(_live(observer), 3145728 + 6291456)
            del held
            losses.topk(786432, sorted=False)
            self.assertEqual(asked.sizes(), found)

    def test_one_block_takes_a_short_row(self):
        with watched() as observer:
            scores = torch.empty(16, 10000, device="meta")
            asked = Asked(observer)
            scores.topk(5)
            self.assertEqual(asked.sizes(), [320, 640])

    def test_a_draw_divides_all_chances_by_random_numbers(self):
        with watched() as observer:
            chances = torch.empty(16, 60000, device="meta")
            asked = Asked(observer)
            torch.multinomial(chances, 1)
            self.assertEqual(asked.sizes(), [128, 3840000])

    def test_a_running_sum_keeps_a_value_and_a_state_for_each_tile(self):
        """Tokens of 28 experts, counted in 32 bits, as a mixture of experts has them."""
        for dtype, sizes in ((torch.int32, [112, 1023]), (torch.int64, [224, 1279])):
            with self.subTest(dtype=dtype), watched() as observer:
                counts = torch.empty(28, dtype=dtype, device="meta")
                asked = Asked(observer)
                torch.cumsum(counts, 0, dtype=dtype)
                self.assertEqual(asked.sizes(), sizes)


class Rules(unittest.TestCase):
    def test_no_op_has_two(self):
        self.assertIsNotNone(rule_for("aten.sort.default"))
        with self.assertRaisesRegex(ValueError, "aten.sort has a rule already: .*choosing"):
            rule("aten.sort")(lambda launch: None)


def _live(observer):
    """Bytes that are held, beside the scores themselves."""
    sizes = {}
    for event in observer.ledger.events:
        if event[0] == "a":
            sizes[event[1]] = event[2]
        elif event[0] == "f":
            del sizes[event[1]]
    return sum(list(sizes.values())[1:])


if __name__ == "__main__":
    unittest.main()
