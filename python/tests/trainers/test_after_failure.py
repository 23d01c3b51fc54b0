"""A loop that ran out of memory for good: what steps of a few samples take is measured before the process ends."""

import threading
import unittest
from unittest import mock

import torch
from torch import nn

from sdk.injection import out_of_memory

from plimsoll.trainers import after_failure
from plimsoll.trainers.after_failure import loss_of, measure

BATCH, ALWAYS, EACH, LIMIT = 64, 20_000, 3_000, 100_000
# 16 samples take 68,000; 32 would take 116,000, which is more than there is.
SIZES = (1, 2, 4, 8, 16)


class Card:
    """A simulated card: so much for all sizes and so much for each sample."""

    peak = 0

    def runs(self, samples):
        self.peak = max(self.peak, ALWAYS + EACH * samples)
        if ALWAYS + EACH * samples > LIMIT:
            raise out_of_memory()

    def capacity_bytes(self):
        return LIMIT

    def used_share(self):
        return 0.5

    def reset_peak(self):
        self.peak = 0

    def peak_bytes(self):
        return self.peak


class Model(nn.Module):
    def __init__(self, card):
        super().__init__()
        self.card, self.layer, self.calls = card, nn.Linear(4, 3), []

    def forward(self, x, y=None):
        self.calls.append((len(x), self.training, torch.is_grad_enabled()))
        self.card.runs(len(x))
        logits = self.layer(x)
        return logits if y is None else (logits, nn.functional.cross_entropy(logits, y))


class Criterion(nn.Module):
    def __init__(self, card):
        super().__init__()
        self.card = card

    def forward(self, logits):
        self.card.runs(len(logits) * 100)


class AfterFailure(unittest.TestCase):
    def setUp(self):
        self.card = Card()
        self.model = Model(self.card)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.x, self.y = torch.ones(BATCH, 4), torch.zeros(BATCH, dtype=torch.long)
        for patch in (
            mock.patch.object(after_failure, "gauge_of", lambda: self.card),
            # Other tests make optimizers, too, which live until they are collected.
            mock.patch.object(after_failure, "optimizers", lambda: [self.optimizer]),
            mock.patch.dict("os.environ", {"PLIMSOLL_BATCH_SIZE": str(BATCH)}),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        self.states = 2 * sum(4 * p.numel() for p in self.model.parameters())

    def failed(self, act):
        try:
            act()
        except torch.OutOfMemoryError as error:
            self.model.calls.clear()
            return measure(error)
        self.fail("it did not run out of memory")
        return None

    def expected(self, states=None):
        states = self.states if states is None else states
        return [{"microbatch": n, "peakBytes": ALWAYS + EACH * n + states} for n in SIZES]

    def test_a_training_call_is_made_again_with_a_few_samples(self):
        found = self.failed(lambda: self.model(self.x, self.y))
        self.assertEqual(found, self.expected())
        self.assertIsNotNone(self.model.layer.weight.grad)

    def test_states_that_are_there_are_not_counted_again(self):
        self.optimizer.state[self.model.layer.weight] = {"momentum": torch.zeros(3, 4)}
        found = self.failed(lambda: self.model(self.x, y=self.y))
        self.assertEqual(found, self.expected(states=0))

    def test_a_call_of_an_evaluation_is_made_as_training_makes_it(self):
        def evaluate():
            with torch.no_grad():
                self.model.eval()(self.x, self.y)

        self.assertEqual(self.failed(evaluate), self.expected())
        self.assertEqual(self.model.calls, [(n, True, True) for n in (1, *SIZES)])

    def test_a_batch_that_is_a_mapping_is_cut(self):
        real = Model.forward
        with mock.patch.object(
            Model, "forward", lambda model, batch: real(model, batch["x"], batch["y"])
        ):
            found = self.failed(lambda: self.model({"x": self.x, "y": self.y}))
        self.assertEqual(found, self.expected())

    def test_nothing_is_measured_where_it_would_not_be_the_step(self):
        graph = torch.ones(BATCH, 4, requires_grad=True)
        other = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
        whole = lambda: self.model(self.x, self.y)  # noqa: E731
        self.assertEqual(self.failed(lambda: self.model(graph, self.y)), [], "a part of a graph")
        self.assertEqual(self.failed(lambda: self.card.runs(BATCH)), [], "no model in it")
        self.assertEqual(self.failed(lambda: self.model(self.x[:40])), [], "another batch")
        criterion = Criterion(self.card)
        self.assertEqual(self.failed(lambda: criterion(self.x)), [], "a module without weights")
        with mock.patch.object(after_failure, "optimizers", lambda: [self.optimizer, other]):
            self.assertEqual(self.failed(whole), [], "a part of what is trained")
        with mock.patch.object(after_failure, "optimizers", list):
            self.assertEqual(self.failed(whole), [], "nothing is trained")

    def test_nothing_is_measured_where_the_program_goes_on_or_nobody_asked(self):
        whole = lambda: self.model(self.x, self.y)  # noqa: E731
        for name, value in (("BATCH_SIZE", "unknown"), ("BATCH_SIZE", "2")):
            with mock.patch.dict("os.environ", {f"PLIMSOLL_{name}": value}):
                self.assertEqual(self.failed(whole), [], f"{name}={value}")
        over = threading.Event()
        thread = threading.Thread(target=over.wait)
        thread.start()
        self.assertEqual(self.failed(whole), [], "a thread goes on")
        over.set()
        thread.join()
        with mock.patch.object(torch.distributed, "is_initialized", lambda: True):
            self.assertEqual(self.failed(whole), [], "other ranks wait")

    def test_a_call_that_fails_otherwise_tells_nothing(self):
        real = self.card.runs

        def runs(samples):
            real(samples)
            raise ValueError("a forward that cannot be made twice")

        def failing():
            self.card.runs = runs
            self.model(self.x, self.y)

        self.assertEqual(self.failed(failing), [])

    def test_the_loss_is_found_or_one_that_takes_as_much(self):
        logits = torch.ones(2, 3, requires_grad=True)
        loss = logits.sum()
        self.assertIs(loss_of((logits, loss)), loss)
        self.assertIs(loss_of({"logits": logits, "loss": loss}), loss)
        self.assertTrue(loss_of(logits).requires_grad)
        self.assertIsNone(loss_of(None))
        self.assertIsNone(loss_of(torch.ones(2, 3)))


if __name__ == "__main__":
    unittest.main()
