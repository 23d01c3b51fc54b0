"""The one line for programs that do not run under `plimsoll run`."""

import unittest
from collections import deque
from unittest import mock

import torch
from accelerate import Accelerator

from sdk.injection import batch_of, build
from trainers.small_trainer import Faults, Samples, losses, loud, made, quiet

import plimsoll
from plimsoll.trainers import status


class OneLine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        quiet()

    @classmethod
    def tearDownClass(cls):
        loud()

    def test_a_trainer_with_the_callback_recovers_and_one_without_does_not(self):
        faults = Faults("forward", [1])
        callback = plimsoll.TrainerCallback()
        trainer = made("gpt2", 0.0, {}, faults=faults, callbacks=[callback])
        trainer.train()
        plain = made("gpt2", 0.0, {})
        plain.train()
        self.assertEqual(faults.raised, 1)
        for mine, theirs in zip(losses(trainer), losses(plain)):
            self.assertAlmostEqual(mine, theirs, places=3)
        page = callback._repr_html_()
        self.assertIn("load line", page)
        self.assertRegex(page, r"Forecast \(estimated\): risk (unknown|none)\.")
        self.assertIn("smaller-microbatch, 6 to 3 samples", page)
        with self.assertRaises(torch.OutOfMemoryError):
            made("gpt2", 0.0, {}, faults=Faults("forward", [1])).train()

    def test_a_notebook_shows_the_recoveries_of_evaluations_beside_those_of_the_training(self):
        with mock.patch.object(status, "_happened", deque(maxlen=status.TRAININGS_KEPT)):
            callback = plimsoll.TrainerCallback()
            faults = Faults("forward", [1])
            trainer = made("gpt2", 0.0, {}, faults=faults, callbacks=[callback])
            trainer.train()
            faults.at = {faults.calls + 1}
            for _ in range(2 * status.TRAININGS_KEPT):
                trainer.evaluate(Samples("gpt2", 8))
            page = callback._repr_html_()
        self.assertEqual(faults.raised, 2)
        self.assertIn("<li>step 1: smaller-microbatch, 6 to 3 samples", page)
        self.assertIn("<li>evaluation, batch 1: smaller-microbatch, 8 to 4 samples", page)

    def test_the_forecast_says_when_memory_will_be_full(self):
        clock, held = [0.0], [1.0]

        class Filling:
            def memory_point(self):
                return 100 * 2**30, int(held[0] * 2**30), None

        with mock.patch.object(status, "_outlook", status.Outlook()):
            with mock.patch("time.monotonic", lambda: clock[0]):
                for _ in range(80):
                    status.look(Filling())
                    clock[0] += 0.5
                    held[0] += 1.0
            page = status.html("Trainer")
        self.assertRegex(page, r"risk (high|critical)\..* Full in about \d+ s \(\d+ to \d+\)\.")

    def test_the_first_step_of_an_accelerate_loop_is_tried_again(self):
        accelerator = plimsoll.prepare(Accelerator(cpu=True))
        self.assertIs(plimsoll.prepare(accelerator), accelerator)
        faults = Faults("step", [1])
        weights = []
        for around in (faults, Faults("step", [])):
            model, optimizer = build(1, 0.0)
            model, optimizer = accelerator.prepare(model, optimizer)
            x, y = batch_of(1, 8)
            with around.around():
                for _ in range(3):
                    optimizer.zero_grad()
                    accelerator.backward(torch.nn.functional.cross_entropy(model(x), y))
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
            weights.append([p.detach().clone() for p in model.parameters()])
        self.assertEqual(faults.raised, 1)
        for mine, theirs in zip(*weights):
            self.assertTrue(torch.equal(mine, theirs))

    def test_anything_else_is_refused(self):
        for wrong in (None, 3, "accelerator", torch.nn.Linear(1, 1)):
            with self.assertRaises(plimsoll.Failure) as refused:
                plimsoll.prepare(wrong)
            self.assertIn("prepare takes an accelerator", refused.exception.fact)
