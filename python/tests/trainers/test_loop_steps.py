"""Steps of loops that know nothing of Plimsoll, as their supervisor hears them."""

import os
import subprocess
import sys
import unittest

import torch

from sdk import HANG_SECONDS
from sdk.supervisor import Supervisor
from trainers.unchanged import AUTO

from plimsoll.bridge import phases_seen

PROGRAM = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.ones(2, 4)).square().mean()
loss.backward()
optimizer.step()
print(float(loss))
"""


GENERATING = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel
small = {"vocab_size": 20, "n_embd": 8, "n_layer": 1, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0}
model = GPT2LMHeadModel(GPT2Config(**small))
ids = torch.ones(2, 3, dtype=torch.long)
model.generate(ids, attention_mask=ids, max_new_tokens=2, do_sample=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(input_ids=ids, labels=ids).loss
loss.backward()
optimizer.step()
print(float(loss))
"""


class Line:
    """A bridge to a supervisor who wants to hear of each step."""

    has_training = False

    def __init__(self):
        self.told = []

    def step_is_due(self, now, who):
        return True

    def report_loop(self, number, peak, who, loss):
        self.told.append((number, loss))


class Loops(unittest.TestCase):
    def setUp(self):
        self.addCleanup(setattr, phases_seen, "loop", None)
        self.line = Line()
        phases_seen.install()
        phases_seen.tell_steps(self.line)
        torch.manual_seed(0)
        self.model = torch.nn.Linear(4, 1)
        self.first = float(self.loss())
        self.optimizer = self.sgd()

    def sgd(self):
        return torch.optim.SGD(self.model.parameters(), lr=0.1)

    def loss(self):
        return self.model(torch.ones(2, 4)).square().mean()

    def test_the_parts_of_an_accumulation_are_one_step_and_one_loss(self):
        for _ in range(2):
            for _ in range(4):
                (self.loss() / 4).backward()
            self.optimizer.step()
        self.assertEqual([number for number, _ in self.line.told], [1, 2])
        self.assertAlmostEqual(self.line.told[0][1], self.first, places=5)
        self.assertNotEqual(self.line.told[1][1], self.line.told[0][1])

    def test_a_scaled_loss_is_told_as_it_was(self):
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        scaler.scale(self.loss()).backward()
        scaler.step(self.optimizer)
        self.assertEqual(self.line.told, [(1, self.first)])

    def test_the_losses_within_one_step_of_an_optimizer_are_not_added_up(self):
        optimizer = torch.optim.LBFGS(self.model.parameters(), max_iter=3)

        def closure():
            optimizer.zero_grad()
            loss = self.loss()
            loss.backward()
            return loss

        optimizer.step(closure)
        self.assertEqual(self.line.told, [(1, None)])

    def test_the_losses_of_two_optimizers_are_not_taken_for_one(self):
        for optimizer in (self.optimizer, self.sgd(), self.optimizer):
            self.loss().backward()
            optimizer.step()
        self.assertEqual(self.line.told, [(1, self.first), (2, None)])

    def test_a_loop_is_silent_where_a_trainer_or_the_sdk_tells_of_its_steps(self):
        self.line.has_training = True
        self.loss().backward()
        self.optimizer.step()
        self.assertEqual(self.line.told, [])


class Programs(unittest.TestCase):
    def test_a_plain_loop_tells_its_step_its_loss_and_its_peak(self):
        told, loss, _ = self.heard_from(PROGRAM)
        self.assertEqual([(one["number"], one["loss"]) for one in told], [(1, loss)])
        self.assertGreater(told[0]["peakBytes"], 2**20)

    def test_a_plain_loop_that_generates_first_tells_its_steps_as_well(self):
        told, loss, calls = self.heard_from(GENERATING)
        self.assertEqual([(one["number"], one["loss"]) for one in told], [(1, loss)])
        self.assertEqual([one["training"] for one in calls], [False])

    def heard_from(self, program):
        """(steps of its loop, what it printed, steps of works) of a program under a supervisor."""
        supervisor = Supervisor()
        self.addCleanup(supervisor.close)
        environment = {**os.environ, "PYTHONPATH": AUTO, "PLIMSOLL_BRIDGE": supervisor.path}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG_SECONDS,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        supervisor.wait_for_end()
        return supervisor.of("loop"), float(done.stdout), supervisor.of("step")
