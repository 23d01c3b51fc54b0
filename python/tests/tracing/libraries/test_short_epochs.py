"""The short epochs that are asked of Lightning's Trainer."""

import unittest

from plimsoll.tracing.programs.lightning import _ends_with_an_epoch, _limits


class ShortEpochs(unittest.TestCase):
    def test_three_steps_follow_one_another_before_a_validation_within_the_epoch(self):
        for interval in (0.5, 0.1):
            limits = _limits({"val_check_interval": interval})
            self.assertEqual((limits["limit_train_batches"], limits["val_check_interval"]), (4, 3))

    def test_a_step_may_be_of_several_batches(self):
        limits = _limits({"val_check_interval": 0.25, "accumulate_grad_batches": 2})
        self.assertEqual((limits["limit_train_batches"], limits["val_check_interval"]), (8, 6))

    def test_a_validation_at_the_end_of_an_epoch_stays_there(self):
        self.assertNotIn("val_check_interval", _limits({}))
        self.assertNotIn("val_check_interval", _limits({"val_check_interval": 1.0}))
        self.assertEqual(_limits({"val_check_interval": 500})["val_check_interval"], 1.0)
        self.assertEqual(_limits({})["limit_train_batches"], 3)

    def test_a_number_of_steps_may_end_a_training_within_an_epoch(self):
        self.assertTrue(_ends_with_an_epoch({"max_epochs": 3, "max_steps": -1}))
        self.assertFalse(_ends_with_an_epoch({"max_steps": 20}))
        self.assertFalse(_ends_with_an_epoch({"max_time": "00:01:00:00"}))

    def test_fewer_batches_that_a_person_asks_for_are_all(self):
        limits = _limits({"val_check_interval": 0.5, "limit_train_batches": 2})
        self.assertEqual(limits["limit_train_batches"], 2)
        self.assertNotIn("val_check_interval", limits)
