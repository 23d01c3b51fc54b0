"""Failures anywhere between two steps of an optimizer: the same weights, bit for bit, as plain loops over the parts."""

import logging
import random
import unittest

import torch

from sdk.injection import Net, batch_of, cheap_collection
from trainers.small_trainer import Faults

from plimsoll.trainers import clipping
from plimsoll.trainers.optimizer_retry import OptimizerRetry
from plimsoll.trainers.split_step import SplitStep
from plimsoll.trainers.window import SAMPLES as BY_SAMPLES

TRIALS = 120
POINTS = ("forward", "backward", "step", "clip")
STEPS = 3


class Loop:
    """Three steps of an optimizer, each over some batches, as trainers make them."""

    def __init__(self, draw, point):
        self.batches = [
            [batch_of(draw.randrange(1000), draw.randint(2, 9)) for _ in range(draw.randint(1, 4))]
            for _ in range(STEPS)
        ]
        self.dropout, self.seed = draw.choice([0.0, 0.3]), draw.randrange(1000)
        self.clip = 0.5 if point == "clip" else draw.choice([None, 0.5])
        self.scales = draw.random() < 0.4

    def made(self):
        torch.manual_seed(self.seed)
        model = Net(self.dropout)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=256.0) if self.scales else None
        return model, optimizer, scaler

    def forward_and_backward(self, model, scaler, part, share):
        loss = torch.nn.functional.cross_entropy(model(part[0]), part[1])
        weighed = loss if share == 1 else loss * share
        (weighed if scaler is None else scaler.scale(weighed)).backward()
        return loss

    def finish(self, model, optimizer, scaler):
        if scaler is not None:
            scaler.unscale_(optimizer)
        if self.clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), self.clip)
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        optimizer.zero_grad()

    def recovering(self, faults):
        model, optimizer, scaler = self.made()
        if faults.point == "forward":
            model.layers[1].register_forward_pre_hook(faults.reached)
        if faults.point == "backward":
            model.layers[0].weight.register_hook(faults.reached)
        step = SplitStep(model, optimizer, lambda *_: BY_SAMPLES)
        windows = []

        def stepped():
            windows.append(step.partitions)
            step.stepped()

        optimizer.step = OptimizerRetry(optimizer, step.fitting, stepped).method(optimizer.step)

        def work(part, share):
            return self.forward_and_backward(model, scaler, part, share)

        torch.manual_seed(self.seed + 1)
        with faults.around():
            for window in self.batches:
                for batch in window:
                    step.run(batch, work)
                self.finish(model, optimizer, scaler)
        return model, windows

    def plain(self, windows):
        model, optimizer, scaler = self.made()
        torch.manual_seed(self.seed + 1)
        for window, partitions in zip(self.batches, windows):
            for batch, sizes in zip(window, partitions):
                done, count = 0, len(batch[0])
                for size in sizes:
                    part = tuple(one[done : done + size] for one in batch)
                    self.forward_and_backward(model, scaler, part, size / count)
                    done += size
            self.finish(model, optimizer, scaler)
        return model


class Windows(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        logging.getLogger("plimsoll").setLevel(logging.CRITICAL)
        clipping.install()
        cheap_collection()

    @classmethod
    def tearDownClass(cls):
        logging.getLogger("plimsoll").setLevel(logging.NOTSET)

    def one(self, trial):
        draw, point = random.Random(trial), POINTS[trial % len(POINTS)]
        loop = Loop(draw, point)
        first = draw.randint(1, STEPS) if point in ("forward", "backward") else 1
        at = (
            [first]
            if point == "clip"
            else [first, first + (draw.randint(2, 4) if first > 1 else 1)]
        )
        if point == "step":
            # The first step, once and twice: later ones have no copy to go back to.
            at = [1, 2][: draw.randint(1, 2)]
        faults = Faults(point, at)
        mine, windows = loop.recovering(faults)
        counts = [[len(batch[0]) for batch in window] for window in loop.batches]
        self.assertEqual([[sum(sizes) for sizes in window] for window in windows], counts)
        for one, other in zip(mine.parameters(), loop.plain(windows).parameters()):
            self.assertTrue(torch.equal(one, other), f"trial {trial}: {point} at {at}")
        return faults.raised

    def test_all_are_recovered_bit_for_bit(self):
        raised = [self.one(trial) for trial in range(TRIALS)]
        self.assertTrue(all(raised), raised)
        self.assertGreaterEqual(sum(raised), 160)


if __name__ == "__main__":
    unittest.main()
