"""Many known values: they are computed when they are read, and are what they would have been at once."""

import copy
import io
import unittest
from unittest import mock

import torch

from tracing import watching

from plimsoll.tracing import small_values
from plimsoll.tracing.known import computing, later

MANY = 100_000


class Later(unittest.TestCase):
    def computed(self):
        """The ops that are run on values from now on."""
        ops = []
        run = computing.run

        def seen(func, args, kwargs):
            ops.append(func.name())
            return run(func, args, kwargs)

        patched = mock.patch.object(computing, "run", seen)
        patched.start()
        self.addCleanup(patched.stop)
        return ops

    def test_what_nobody_reads_is_not_computed(self):
        ops = self.computed()
        with watching.watched():
            twice = torch.arange(MANY, device="meta") * 2
            self.assertTrue(small_values.is_known(twice))
            self.assertEqual(ops, [])
            self.assertEqual(twice[-1].item(), 2 * (MANY - 1))
            self.assertEqual(ops.count("aten::mul.Tensor"), 1)
            self.assertEqual(twice[5].item(), 10)
            self.assertEqual(ops.count("aten::mul.Tensor"), 1)

    def test_a_tensor_that_is_saved_or_copied_takes_its_value_along(self):
        with watching.watched():
            twice = torch.arange(MANY, device="meta") * 2
            held = twice.__dict__["_plimsoll_value"]
            copied = copy.deepcopy(held)
        file = io.BytesIO()
        torch.save(held, file)
        file.seek(0)
        for value in (copied, torch.load(file, weights_only=True)):
            self.assertEqual(value.tolist(), list(range(0, 2 * MANY, 2)))

    def test_one_that_cannot_be_computed_is_not_known_where_it_was_copied_to(self):
        def fails(*_):
            raise RuntimeError

        computation = later.Computation(fails, [], {}, 1)
        tensor = torch.empty(3, device="meta")
        small_values.remember(tensor, copy.deepcopy(later.Later(computation, 0, tensor.shape)))
        self.assertIsNone(small_values.likely_value_of(tensor))

    def test_values_are_those_of_the_time_they_were_asked_for(self):
        with watching.watched():
            places = torch.arange(MANY, device="meta")
            view = places.view(10, -1)
            before = places + 1
            twice = view * 2
            places.mul_(0)
            self.assertEqual(before[7].item(), 8)
            self.assertEqual(twice[0, 7].item(), 14)
            self.assertEqual(places[7].item(), 0)
            self.assertEqual(view[0, 7].item(), 0)

    def test_where_values_lie_is_asked_once_however_often_others_are_written(self):
        with watching.watched():
            waits = torch.arange(MANY, device="meta") + torch.ones(1, device="meta")
            counts = torch.zeros(4, dtype=torch.int64, device="meta")
            counts.add_(1)
            with mock.patch.object(later, "_address", wraps=later._address) as asked:
                for _ in range(5):
                    counts.add_(1)
            self.assertEqual(counts.tolist(), [6] * 4)
            # Of what is written alone.
            self.assertEqual(asked.call_count, 5)
            self.assertEqual(waits[3].item(), 4)

    def test_nothing_is_looked_for_where_nothing_is_known_of_what_is_written(self):
        with watching.watched():
            data = torch.empty(100, 100, device="meta")
            with mock.patch.object(small_values, "_sharing") as asked:
                data.add_(1)
            asked.assert_not_called()

    def test_what_waits_for_a_value_that_is_computed_and_then_written_keeps_the_old_one(self):
        with watching.watched():
            first = torch.arange(MANY, device="meta") + 1
            second = first * 3
            self.assertEqual(first[1].item(), 2)
            first.fill_(0)
            self.assertEqual(second[1].item(), 6)
            self.assertEqual(first[1].item(), 0)

    def test_long_chains_are_computed_on_the_way(self):
        with watching.watched():
            value = torch.zeros(MANY, dtype=torch.int64, device="meta")
            for _ in range(300):
                value = value + 1
            self.assertEqual(value[3].item(), 300)

    def test_several_results_of_one_op(self):
        with watching.watched():
            rows = torch.arange(2 * MANY, device="meta").view(2, -1)
            most, places = rows.max(dim=0)
            self.assertEqual((most[3].item(), places[3].item()), (MANY + 3, 1))
            one, other = rows.unbind(0)
            self.assertEqual((one[2].item(), other[2].item()), (2, MANY + 2))

    def test_boxes_hold_the_same_however_they_lie_in_memory(self):
        def corners(boxes, more):
            grown = torch.cat([boxes, boxes + more])
            width = grown[:, 2:] - grown[:, :2]
            moved = torch.stack([grown[:, 0], width[:, 1]], 1).reshape(-1, 4)
            return moved.view(2, -1).sum(1), grown.t().reshape(-1)[5], moved.flatten()[-3:]

        def start(device):
            return torch.arange(8 * MANY, device=device).view(-1, 4).remainder(1000).float()

        expected = [one.tolist() for one in corners(start("cpu"), 0.5)]
        with watching.watched():
            found = corners(start("meta"), 0.5)
            self.assertEqual([small_values.value_of(one).tolist() for one in found], expected)


if __name__ == "__main__":
    unittest.main()
