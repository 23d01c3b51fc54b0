"""A size that fitted before is tried again once, not for ever: what it needs may have come to pieces."""

import unittest

import torch

from sdk.injection import batch_of, build, cheap_collection, clean_step, out_of_memory
from sdk.test_recovering import Quiet, mean_loss

import plimsoll

# More than this in one step, and it would go on without end.
ENOUGH = 12


class SameAgain(Quiet):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cheap_collection()

    def prepared(self, fails):
        """A step of 24 samples in eights went well once; from then on `fails` decides by the parts of a pass."""
        self.failures, self.parts, self.armed, self.batch = 0, [], False, batch_of(0, 24)
        model, optimizer = build(0, 0.0)

        def backward(grad):
            if self.armed and fails(self.parts):
                self.failures += 1
                if self.failures > ENOUGH:
                    raise ValueError("the same size again and again")
                raise out_of_memory()

        model.layers[0].weight.register_hook(backward)
        real = mean_loss(model)

        def loss(batch):
            if torch.equal(batch[0][0], self.batch[0][0]):
                self.parts.clear()
            self.parts.append(len(batch[0]))
            return real(batch)

        step = plimsoll.recovering(model, optimizer, loss, microbatch=8)
        step(self.batch)
        self.armed = True
        return model, step

    def next(self, step, seed):
        self.batch = batch_of(seed, 24)
        step(self.batch)

    def test_a_backward_that_takes_finished_parts_with_it_leads_to_a_smaller_size(self):
        model, step = self.prepared(lambda parts: parts[-1] == 8 and len(parts) > 1)
        self.next(step, 1)
        self.assertEqual(sum(step.partition), 24)
        self.assertLess(max(step.partition), 8)
        self.assertEqual(self.failures, 2)
        twin, twin_optimizer = build(0, 0.0)
        for seed, partition in ((0, [8, 8, 8]), (1, step.partition)):
            loss = lambda model, part: mean_loss(model)(part)  # noqa: E731
            clean_step(twin, twin_optimizer, loss, batch_of(seed, 24), partition, 0)
        for ours, theirs in zip(model.parameters(), twin.parameters()):
            self.assertTrue(torch.equal(ours, theirs))

    def test_a_size_that_fails_once_in_each_step_is_left(self):
        failed = []

        def once(parts):
            """The second part of each batch, the first time."""
            if parts != [8, 8] or any(one is self.batch for one in failed):
                return False
            failed.append(self.batch)
            return True

        _, step = self.prepared(once)
        for seed in (1, 2, 3):
            self.next(step, seed)
        self.assertEqual(self.failures, 2)
        self.assertLess(step.microbatch, 8)


if __name__ == "__main__":
    unittest.main()
