"""Rows that are picked of many known values: they are those of the whole, which is not computed for them."""

import unittest
from unittest import mock

import torch

from tracing import watching

from plimsoll.tracing import small_values
from plimsoll.tracing.known import computing, layout

MANY = 30_000


def boxes(device="meta"):
    corners = torch.arange(4 * MANY, device=device).view(MANY, 4).float()
    return torch.cat([corners, corners + 0.5])


def moved(anchors):
    """As a detector moves its anchors."""
    widths = anchors[:, 2] - anchors[:, 0]
    centers = anchors[:, 0] + 0.5 * widths
    moved = 0.1 * widths[:, None] + centers[:, None]
    size = torch.exp(0 * widths[:, None]) * widths[:, None]
    corners = torch.stack((moved - size / 2, moved.neg(), moved + size / 2, -size), dim=2)
    return corners.flatten(1).reshape(2 * MANY, -1, 4).view(2, MANY, 4)


class Rows(unittest.TestCase):
    def computed(self):
        """How many values each op on values computes from now on."""
        sizes = []
        run = computing.run

        def seen(func, args, kwargs):
            made = run(func, args, kwargs)
            sizes.append(made.numel() if isinstance(made, torch.Tensor) else 0)
            return made

        patched = mock.patch.object(computing, "run", seen)
        patched.start()
        self.addCleanup(patched.stop)
        return sizes

    def picked(self, pick):
        """The known value on the device, with how many were computed for it, and the real one."""
        with watching.watched():
            found = pick(moved(boxes()), "meta")
            sizes = self.computed()
            value = small_values.value_of(found)
        return value, sizes, pick(moved(boxes("cpu")), "cpu")

    def test_they_are_the_rows_of_the_whole_of_which_little_is_computed(self):
        def pick(all_boxes, device):
            samples = torch.arange(2, device=device)[:, None]
            places = torch.arange(0, MANY, 1000, device=device)
            return all_boxes[samples, places.expand(2, -1) + samples]

        value, sizes, real = self.picked(pick)
        self.assertTrue(torch.equal(value, real))
        # The boxes themselves, of which rows are picked.
        self.assertLessEqual(sum(size > 2 * MANY for size in sizes), 3)

    def test_places_may_be_counted_from_the_end_and_rows_be_taken_twice(self):
        def pick(all_boxes, device):
            return all_boxes.view(-1, 4)[torch.arange(-3, 3, device=device).repeat(2)]

        value, _, real = self.picked(pick)
        self.assertTrue(torch.equal(value, real))

    def test_where_most_rows_are_picked_all_are_computed(self):
        value, sizes, real = self.picked(lambda one, d: one[:, torch.arange(MANY, device=d)])
        self.assertTrue(torch.equal(value, real))
        self.assertGreater(sum(size > 2 * MANY for size in sizes), 3)

    def test_of_ops_that_look_at_other_rows_all_are_computed(self):
        for other in (lambda one: one.cumsum(0), lambda one: one.flip(0), lambda one: one.t().T):
            with watching.watched():
                places = torch.tensor([1, 5], device="cpu").to("meta")
                small_values.remember(places, torch.tensor([1, 5], device="cpu"))
                value = small_values.value_of(other(boxes())[places])
            self.assertTrue(torch.equal(value, other(boxes("cpu"))[[1, 5]]))

    def test_what_is_written_later_is_not_seen(self):
        with watching.watched():
            corners = boxes()
            self.assertIsNotNone(small_values.value_of(corners))
            found = (corners + 1)[torch.arange(3, device="meta")]
            corners.mul_(0)
            value = small_values.value_of(found)
        self.assertTrue(torch.equal(value, boxes("cpu")[:3] + 1))


class Quicker(unittest.TestCase):
    def test_places_that_a_mask_marks_are_those_that_pytorch_finds(self):
        for shape in ((70_000,), (7, 10_000), (3, 5, 5_000)):
            for share in (0, 0.001, 0.5, 1):
                mask = torch.rand(shape, generator=torch.Generator().manual_seed(0)) < share
                found = computing.run(torch.ops.aten.nonzero.default, [mask], {})
                self.assertTrue(torch.equal(found, mask.nonzero()), (shape, share))
        columns = (torch.arange(70_000).view(7, -1) % 3 == 0).t()
        found = computing.run(torch.ops.aten.nonzero.default, [columns], {})
        self.assertTrue(torch.equal(found, columns.nonzero()))

    def test_coordinates_are_stacked_by_columns(self):
        parts = [torch.arange(10_000.0).view(-1, 2) + number for number in range(4)]
        for dim in (2, -1):
            made = computing.run(torch.ops.aten.stack.default, [parts, dim], {})
            self.assertTrue(torch.equal(made, torch.stack(parts, dim)))
            self.assertIs(layout.by_columns(made), made)
        for dim in (0, 1):
            made = computing.run(torch.ops.aten.stack.default, [parts, dim], {})
            self.assertEqual(made.stride(), torch.stack(parts, dim).stride())
