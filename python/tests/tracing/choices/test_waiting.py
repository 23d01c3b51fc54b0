"""Loops that wait for values which a trace does not have: they end."""

import unittest

import torch

from tracing.watching import watched


def drawn():
    return torch.rand(5, device="meta") > 2


class Waiting(unittest.TestCase):
    def test_a_loop_that_waits_for_all_ends(self):
        with watched():
            done = torch.zeros(5, dtype=torch.bool, device="meta")
            while not done.all():
                found = drawn()
                if found.any():
                    done = done | found

    def test_a_loop_that_is_left_from_inside_ends(self):
        with watched():
            turns = 0
            while True:
                turns += 1
                if drawn().any():
                    break
            self.assertGreater(turns, 10)

    def test_two_conditions_of_one_loop_do_not_keep_it_running_in_turn(self):
        with watched():
            done = torch.zeros(5, dtype=torch.bool, device="meta")
            while not done.all() or not drawn().any():
                pass

    def test_samples_of_a_distribution_that_rejects_some_are_drawn(self):
        with watched():
            angles = torch.zeros(32, 16, device="meta")
            sample = torch.distributions.VonMises(angles, angles + 1).sample()
            self.assertEqual(sample.shape, (32, 16))

    def test_a_question_outside_of_a_condition_gets_the_same_answer_each_time(self):
        with watched():
            answers = {bool(drawn().any()) for _ in range(500)}
            self.assertEqual(answers, {False})

    def test_values_in_host_memory_are_waited_for_as_they_are(self):
        with watched():
            count = torch.zeros((), device="cpu")
            while not (count >= 500).all():
                count += 1
            self.assertEqual(count.item(), 500)


if __name__ == "__main__":
    unittest.main()
