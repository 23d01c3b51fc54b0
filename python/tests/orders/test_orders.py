"""Batches of different sizes, and orders that decide what is held: as in a real run."""

import itertools
import os
import sys
import tempfile
import unittest

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, IterableDataset

import warm
from warm import PACKAGE

from plimsoll_trace.facts import Facts
from plimsoll_trace.ledger import Ledger
from plimsoll_trace.programs import graph_order
from plimsoll_trace.programs.loops.batch_loops import BatchLoop, Numbered
from plimsoll_trace.programs.loops.loaders import Allowance, Growing, Passage, Repeated
from plimsoll_trace.programs.loops.ragged import Ragged, Settling, tensors
from plimsoll_trace.programs.random_draws import Draws
from plimsoll_trace.standins.patches import Patches

MIB = 2**20
# Prints the rows of each batch, in the order in which they come.
SHUFFLED = """
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

torch.manual_seed(3)
device = "cuda" if torch.cuda.is_available() else "cpu"
net = nn.Sequential(nn.Embedding(40, 24), nn.Linear(24, 2), nn.LSTM(2, 3)).to(device)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
lines = [torch.zeros(3 + 7 * i % 31, dtype=torch.long) for i in range(90)]
seen = []
for epoch in range(3):
    for words in DataLoader(lines, 4, shuffle=True, collate_fn=pad_sequence):
        seen.append(len(words))
        net(words.to(device))[0].sum().backward()
        optimizer.step()
print("rows", seen)
"""


class Orders(unittest.TestCase):
    def test_shuffled_batches_come_in_the_order_of_a_real_run(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
                file.write(SHUFFLED)
            environment = {**os.environ, "PYTHONPATH": PACKAGE, "CUDA_VISIBLE_DEVICES": ""}
            trace = ["-m", "plimsoll_trace", "--output", os.devnull, "--program", "train.py"]
            said = []
            for words in (["train.py"], trace):
                done = warm.run(
                    [sys.executable, "-W", "ignore", *words],
                    cwd=folder,
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                printed = (done.stdout + done.stderr).splitlines()
                said.append([line for line in printed if line.startswith("rows")])
        self.assertEqual(said[0], said[1])

    def test_what_backward_makes_comes_after_what_forward_made(self):
        """As on CUDA, where backward numbers its nodes in a thread of its own."""
        order, patches = [], Patches()
        graph_order.install(patches)
        try:
            x = torch.ones(3, requires_grad=True, device="meta")
            for _ in range(20):
                x.cos()
            plain = x.sin()
            (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
            plain.grad_fn.register_hook(lambda *_: order.append("forward"))
            slope.grad_fn.register_hook(lambda *_: order.append("made in backward"))
            (plain.sum() + slope.sum()).backward()
        finally:
            patches.undo()
        self.assertEqual(order, ["forward", "made in backward"])


class Draw(unittest.TestCase):
    def test_as_many_numbers_are_drawn_as_for_real_weights(self):
        after = []
        for real in (True, False):
            torch.manual_seed(5)
            draws = Draws()
            for op, shape in (("uniform_", (5, 7)), ("normal_", (33,)), ("normal_", (3,))):
                if real:
                    getattr(torch.empty(shape), op)()
                else:
                    func = getattr(torch.ops.aten, op).default
                    draws.follow(func, (torch.empty(shape, device="meta"),), {})
            after.append(torch.rand(()).item())
        self.assertEqual(after[0], after[1])


class Watched:
    """A program that trains on whatever it is given, with so many ops each time."""

    def __init__(self):
        self.ops = self.calls = self.backwards = 0
        self.observer, self.packed, self.steps_of = self, set(), {}
        self.short_epochs, self.epoch_ends = False, {"train": 0, "read": 0}
        self.differ = self.guessed = self.left_out = False
        self.facts = Facts()
        self.ledger = Ledger()
        self.asked = 0
        self.shared = Ragged(Settling(self.ledger, 2**40))
        self.batch_loop = None

    def steps_since(self, before):
        return []

    def follows_draws(self):
        return True

    def guess_order(self):
        self.guessed = True

    def news(self):
        pass

    def batch_given(self, reads):
        pass

    def would_end(self, ops):
        return False

    def leaves_out(self):
        pass

    def batches(self, loader, ops):
        shared = self.shared
        passage = Passage(loader, self, 1, shared, Repeated(), Allowance(0), Growing(self), 0)
        for batch in passage:
            yield batch
            self.asks(batch)
            self.ops += ops
            self.calls += 1
            self.backwards += 1

    def asks(self, batch):
        """For more each time: what is held never settles."""
        self.asked += 100 * MIB
        self.ledger.free(self.ledger.allocate(self.asked, "op", "", "x"))

    def trains_on(self, loader, ops):
        """How many batches it was given."""
        return sum(1 for _ in self.batches(loader, ops))


class Settled(Watched):
    """One that asks for what its batches take."""

    def asks(self, batch):
        self.ledger.free(self.ledger.allocate(batch.numel() * MIB, "op", "", "x"))


class Epochs(unittest.TestCase):
    def setUp(self):
        lines = [torch.zeros(3 + 7 * i % 31) for i in range(40)]
        self.loader = DataLoader(lines, 2, collate_fn=pad_sequence)

    def test_nothing_is_guessed_where_the_last_batch_was_run(self):
        watched = Watched()
        self.assertEqual(watched.trains_on(self.loader, 3_200), 20)
        self.assertTrue(watched.differ)
        self.assertFalse(watched.guessed)

    def test_an_epoch_that_can_be_ended_is_run_to_its_end(self):
        watched = Watched()
        self.assertEqual(watched.trains_on(self.loader, 5_000), 20)
        self.assertFalse(watched.guessed)

    def test_a_longer_one_is_guessed(self):
        watched = Watched()
        self.assertLess(watched.trains_on(self.loader, 9_000), 20)
        self.assertTrue(watched.guessed)

    def test_where_no_more_is_held_only_larger_ones_are_run(self):
        lengths = [90, 70, 80] + [60, 50] * 10 + [95] + [40, 30] * 10
        loader = DataLoader([torch.zeros(length) for length in lengths], 1)
        program = Settled()
        ran = [batch.numel() for batch in program.batches(loader, 4_000)]
        # And the last one.
        self.assertEqual(ran, [*lengths[:11], 95, 30])
        self.assertTrue(program.guessed)

    def test_in_a_stream_larger_ones_are_not_looked_for_without_end(self):
        class Stream(IterableDataset):
            def __iter__(self):
                for read in itertools.count():
                    numbers.append(read)
                    yield torch.zeros(30 + read % 7)

        numbers = []
        torch.manual_seed(3)
        # So many take 40,000 operations from the third on; none of the next ones is larger.
        self.assertEqual(Settled().trains_on(DataLoader(Stream(), None), 4_000), 12)
        self.assertLess(len(numbers), 60)

    def test_once_all_were_run_fewer_are(self):
        lengths = [90, 70, 80] + [60, 50] * 3
        loader = DataLoader([torch.zeros(length) for length in lengths], 1)
        program = Settled()
        self.assertEqual([program.trains_on(loader, 4_000) for _ in range(2)], [9, 2])
        self.assertTrue(program.guessed)

    def test_where_each_run_has_its_own_order_more_are_run(self):
        lengths = [90, 70, 80] + [60, 50] * 8
        loader = DataLoader([torch.zeros(length) for length in lengths], 1)
        program = Settled()
        program.facts.drawn = True
        self.assertEqual(program.trains_on(loader, 4_000), 19)

    def test_where_a_program_may_do_something_else_a_batch_is_run_as_in_a_real_run(self):
        real = [len(batch) for batch in self.loader]
        watched = Watched()
        loop = watched.batch_loop = BatchLoop(watched)
        ran = {}
        turns = Numbered(watched.batches(self.loader, 9_000), 0, "step", loop)
        while True:
            with loop.asking():
                step, batch = next(turns, (None, None))
            if step is None:
                break
            ran[step] = len(batch)
            loop.number("step").looked(step + 1, 0, 17)
        self.assertIn(16, ran)
        self.assertLess(len(ran), 20)
        self.assertEqual(ran, {step: real[step] for step in ran})

    def test_after_the_cache_was_emptied_batches_count_that_are_larger_than_those_since(self):
        lengths = [90] * 9 + [20] * 20 + [50] * 6 + [80] * 6
        loader = DataLoader([torch.zeros(n + i % 2) for i, n in enumerate(lengths)], 1)
        watched, ran = Watched(), []
        for place, batch in enumerate(watched.batches(loader, 7_000)):
            ran.append(batch.shape[1] // 10 * 10)
            if place == 9:
                watched.ledger.program_empties_cache()
        self.assertEqual(ran[:10], [90] * 9 + [20])
        self.assertEqual([20, 50, 80], sorted(set(ran[10:])))
        self.assertLess(len(ran), 20)


class Larger(unittest.TestCase):
    def test_a_batch_is_larger_where_any_of_it_is_larger_than_ever_before(self):
        ragged, source = Ragged(), (1, 2)

        def asked(rows, nodes):
            batch = {"x": torch.zeros(rows, 4), "more": [torch.zeros(nodes)]}
            return ragged.is_larger(batch, source)

        answers = [asked(*sizes) for sizes in ((10, 3), (9, 3), (9, 4), (10, 4), (12, 1))]
        self.assertEqual(answers, [True, False, True, True, True])
        self.assertTrue(ragged.is_larger({"x": torch.zeros(1, 4)}, (7, 2)))

    def test_where_the_cache_is_emptied_seldom_all_begins_anew(self):
        ragged, source = Ragged(), (1, 2)
        large, small = torch.zeros(9), torch.zeros(3)
        for _ in range(8):
            self.assertFalse(ragged.begins_anew(source, 0))
            ragged.is_larger(large, source)
        self.assertTrue(ragged.begins_anew(source, 1))
        self.assertEqual([ragged.is_larger(small, source) for _ in range(2)], [True, False])
        # A program that empties it all the time leaves nothing that others meet.
        self.assertFalse(ragged.begins_anew(source, 2))
        self.assertFalse(ragged.is_larger(small, source))

    def test_sequences_that_are_filled_up_count_by_their_lengths(self):
        ragged = Ragged()

        def asked(lengths):
            return ragged.is_larger((torch.zeros(3, 9), torch.tensor(lengths)), (0, 0))

        self.assertEqual(
            [asked([9, 5, 5]), asked([9, 4, 5]), asked([9, 7, 5])], [True, False, True]
        )

    def test_all_are_run_until_their_ops_are_used_up(self):
        ragged = Ragged()
        self.assertTrue(ragged.runs_all(False))
        ragged.spent(60_000, False, False)
        self.assertEqual(
            [ragged.runs_all(False), ragged.runs_all(True), ragged.looks()], [False, True, True]
        )
        # The larger ones, and all that are left of an epoch, share what comes after that.
        ragged.spent(20_000, False, True)
        self.assertEqual([ragged.has_ops(30_000), ragged.has_ops(30_001)], [True, False])
        ragged.spent(10_000, False, False)
        self.assertEqual([ragged.has_ops(20_000), ragged.has_ops(20_001)], [True, False])
        ragged.spent(10_000_000, False, True)
        self.assertFalse(ragged.looks())

    def test_tensors_are_found_in_whatever_holds_them(self):
        batch = {"a": torch.zeros(1), "b": [torch.zeros(2), ("text", torch.zeros(3))]}
        self.assertEqual([name for name, _ in tensors(batch)], [".a", ".b.0", ".b.1.1"])


if __name__ == "__main__":
    unittest.main()
