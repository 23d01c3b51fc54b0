"""Boxes that overlap no better one: those that comparing each with all others keeps."""

import unittest
from unittest import mock

import torch

from plimsoll.tracing.choices import likely_values


def kept_by_all(boxes, scores, limit):
    """Compares each box with all others."""
    order = scores.sort(stable=True, descending=True).indices
    left, top, right, bottom = boxes[order].unbind(1)
    areas = (right - left) * (bottom - top)
    gone = torch.zeros(len(boxes), dtype=torch.bool)
    for rank in range(len(boxes)):
        if gone[rank]:
            continue
        width = (torch.minimum(right[rank], right) - torch.maximum(left[rank], left)).clamp(min=0)
        height = (torch.minimum(bottom[rank], bottom) - torch.maximum(top[rank], top)).clamp(min=0)
        common = width * height
        much = (common / (areas[rank] + areas - common)).double() > limit
        much[: rank + 1] = False
        gone |= much
    return order[~gone]


def drawn_boxes(count, size, seed):
    chance = torch.Generator().manual_seed(seed)
    corners = torch.rand(count, 2, generator=chance) * 900
    sizes = size * (0.5 + torch.rand(count, 2, generator=chance))
    boxes = torch.cat([corners, corners + sizes], 1).clamp(max=1000)
    # Some are equal, and some have the same score.
    boxes[: count // 10] = boxes[count // 2 : count // 2 + count // 10].clone()
    return boxes, (torch.rand(count, generator=chance) * 300).floor()


class Overlaps(unittest.TestCase):
    def refused(self, *_):
        raise AssertionError("all boxes were compared")

    def test_the_same_are_kept_though_few_are_compared(self):
        for seed, (size, limit) in enumerate([(30, 0.3), (30, 0.5), (30, 0.7), (60, 0.7)]):
            boxes, scores = drawn_boxes(700, size, seed)
            found = likely_values.kept_by_overlaps(self.refused, boxes, scores, limit)
            self.assertLess(len(found), len(boxes))
            self.assertEqual(found.tolist(), kept_by_all(boxes, scores, limit).tolist())

    def test_boxes_that_are_just_near_enough_are_compared(self):
        """One above the other, moved by what leaves a little more in common than the limit, or a little less."""
        places = torch.arange(300.0)[:, None] * torch.tensor([[40.0, 7.0]])
        upper = torch.cat([places, places + 30], 1)
        for limit in (0.3, 0.5, 0.7):
            # Of two boxes of height 30, one moved by this has just the limit in common with the other.
            moved = 30 * (1 - limit) / (1 + limit)
            for share, count in ((0.999, 300), (1.001, 600)):
                boxes = torch.cat([upper, upper + torch.tensor([0, 1, 0, 1]) * moved * share])
                found = likely_values.kept_by_overlaps(
                    self.refused, boxes, torch.arange(600.0), limit
                )
                self.assertEqual(len(found), count)
            # And one that is part of the other, from its top.
            within = upper.clone()
            within[:, 1] += 30 * (1 - limit) * 0.9999
            boxes = torch.cat([upper, within])
            self.assertEqual(
                len(
                    likely_values.kept_by_overlaps(self.refused, boxes, torch.arange(600.0), limit)
                ),
                300,
            )

    def test_boxes_without_an_area_stay(self):
        boxes, scores = drawn_boxes(700, 30, 5)
        boxes[:50, 2:] = boxes[:50, :2]
        boxes[50:90, 3] = boxes[50:90, 1]
        found = likely_values.kept_by_overlaps(self.refused, boxes, scores, 0.7)
        self.assertEqual(found.tolist(), kept_by_all(boxes, scores, 0.7).tolist())

    def test_others_are_left_to_the_op(self):
        boxes, scores = drawn_boxes(700, 30, 6)
        turned = boxes.clone()
        turned[3] = turned[3].flip(0)
        endless = boxes.clone()
        endless[3, 2] = float("inf")
        large, _ = drawn_boxes(700, 600, 6)
        for given, limit in (
            (boxes[:9], 0.7),
            (boxes, 0.1),
            (boxes.half(), 0.7),
            (turned, 0.7),
            (endless, 0.7),
            (large, 0.7),
        ):
            op = mock.Mock()
            self.assertIs(
                likely_values.kept_by_overlaps(op, given, scores[: len(given)], limit),
                op.return_value,
            )


if __name__ == "__main__":
    unittest.main()
