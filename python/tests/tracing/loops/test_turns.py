"""Conditions that only the data decide: which way a program goes."""

import os
import random
import tempfile
import unittest

import numpy
import torch
from torch.utils.data import DataLoader, Sampler

from tracing.watching import rows_of

from plimsoll_trace.ledger import Ledger
from plimsoll_trace.programs.loops import order
from plimsoll_trace.programs.loops.ragged import Ragged, Settling
from plimsoll_trace.programs.values import some_are_taken
from plimsoll_trace.programs.watch import Stages

EXPERTS = """
import numpy
import torch

router = torch.nn.Linear(8, 4).cuda()
experts = [torch.nn.Linear(8, 1024).cuda() for _ in range(4)]
rows = torch.randn(4096, 8, device="cuda")
chosen = router(rows).{choice}
for number, expert in enumerate(experts):
    mask = chosen == number
    if {condition}:
        expert(rows[mask])
"""

ROWS = """
import numpy
import torch

model = torch.nn.Linear(8, 1024).cuda()
rows = torch.randn(4096, 8, device="cuda")
score = rows.mean(1)
assert (score > 0).any()
if (score > 9).any():
    raise ValueError("too large")
for turn in range(1):
    if (score.abs() > 8).any():
        continue
    if not (score > 0).any():
        continue
    part = model(rows[score > 0]) if (score > 0).sum() > 0 else 0
    if (score < 0).any():
        other = model(rows[score < 0])
"""

TEXT = """
import numpy
import torch

END, words = 0, {words}
model = torch.nn.Linear(16, words).cuda()
tokens, ended = [], torch.zeros(4, dtype=torch.bool, device="cuda")
for turn in range(50):
    token = torch.multinomial(model(torch.randn(4, 16, device="cuda")).softmax(-1), 1)
    tokens.append(token)
    ended |= (token == END).squeeze(1)
    if bool(ended.all()):
        break
    if token[0].item() == END and words > 32:
        break
torch.cat(tokens, 1)
"""


JOINED = """
import numpy
import torch

model = torch.nn.Linear(8, 1024).cuda()
rows = torch.randn(4096, 8, device="cuda")
sure = torch.randn(100, 8, device="cuda")
out = model(torch.cat([sure, rows[rows.mean(1) > 0]]))
"""


class WhereDataDecide(unittest.TestCase):
    def sizes_of(self, op, text):
        rows = rows_of(self, text)
        names = {row[1]: row[2] for row in rows[1:-1] if row[0] == "s"}
        return [row[2] for row in rows[1:-1] if row[0] == "a" and names[row[3]] == op]

    def test_each_expert_gets_its_share(self):
        share = 4096 // 4 * 1024 * 4
        ways = {"max(-1).indices": "mask.any()", "argmax(-1)": "mask.sum() > 0"}
        for choice, condition in ways.items():
            with self.subTest(condition):
                text = EXPERTS.format(choice=choice, condition=condition)
                self.assertEqual(self.sizes_of("aten.addmm.default", text).count(share), 4)

    def test_the_way_that_works_on_chosen_rows_is_gone(self):
        whole = 4096 * 1024 * 4
        self.assertEqual(self.sizes_of("aten.addmm.default", ROWS).count(whole), 2)

    def test_chosen_rows_that_are_joined_with_others_may_be_fewer(self):
        footer = rows_of(self, JOINED)[-1]
        self.assertGreaterEqual(footer["maybeLessBytes"], (4096 + 100) * 1024 * 4)

    def test_a_text_does_not_end_with_the_first_word(self):
        for words in (8, 300):
            joined = self.sizes_of("aten.cat.default", TEXT.format(words=words))
            self.assertEqual(joined, [4 * 50 * 8])


CHECKED = """
import numpy
import torch

classes = torch.randint(0, 5, (2_500_000,)).cuda()
assert classes.min() >= 0 and classes.max() < 5, "classes"
assert not classes.max() > 5
if not classes.max() < 5:
    raise ValueError("classes")
if classes.max() >= 5:
    raise ValueError("classes")
parts = torch.rand(10, device="cuda")
assert parts.sum() > 0 and not torch.isnan(parts).any()
"""


class Checked(unittest.TestCase):
    def test_what_a_program_expects_of_its_data_holds(self):
        rows_of(self, CHECKED)


class SomeAreTaken(unittest.TestCase):
    def goes(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            names = {"some": some_are_taken, "went": []}
            exec(compile(text, path, "exec"), names)
            return names["went"]

    def test_unless_the_program_would_go_no_further(self):
        self.assertEqual(self.goes("if some():\n    went.append(1)\n"), [1])
        self.assertEqual(self.goes("if some():\n    raise ValueError\n"), [])
        self.assertEqual(self.goes("for _ in [0]:\n    if some(): break\n    went.append(1)"), [1])
        self.assertEqual(self.goes("if some():\n    import sys; sys.exit(1)\n"), [])

    def test_if_the_program_would_go_no_further_without(self):
        text = "for _ in [0]:\n    if not some():\n        continue\n    went.append(1)\n"
        self.assertEqual(self.goes(text), [1])
        self.assertEqual(self.goes("assert some()\nwent.append(1)"), [1])
        self.assertEqual(self.goes("assert not some()\nwent.append(1)"), [1])

    def test_results_and_nothing(self):
        text = "def f(x):\n    if some():\n        return {}\n    return 'rest'\nwent.append(f('some'))"
        self.assertEqual(self.goes(text.format("x")), ["some"])
        self.assertEqual(self.goes(text.format("None")), ["rest"])
        self.assertEqual(self.goes("went.append(went.copy() if some() else 0)"), [[]])
        self.assertEqual(self.goes("went.append(0 if some() else went.copy())"), [[]])

    def test_elsewhere_nothing_is_known(self):
        self.assertEqual(self.goes("went.append(some())"), [None])


PROGRAM = """
import numpy
import torch
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.zeros(40 * 8, 16)), batch_size=8)
body, head = torch.nn.Linear(16, 64).cuda(), torch.nn.Linear(64, 5).cuda()
first = torch.optim.SGD(head.parameters(), lr=0.1)

def epoch(optimizer):
    for (batch,) in loader:
        head(body(batch.cuda()).detach() if optimizer is first else body(batch.cuda())).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

epoch(first)
whole = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
epoch(whole)
"""


class Stage(unittest.TestCase):
    def test_the_second_ends_after_a_few_batches_though_the_first_optimizer_still_exists(self):
        rows = rows_of(self, PROGRAM)
        names = {row[1]: row[2] for row in rows[1:-1] if row[0] == "s"}
        ops = [names[row[3]] for row in rows[1:-1] if row[0] == "a"]
        self.assertLess(ops.count("aten.addmm.default"), 2 * 2 * 10)


class Trainings(unittest.TestCase):
    def setUp(self):
        self.head = [torch.nn.Parameter(torch.zeros(1))]
        self.body = [torch.nn.Parameter(torch.zeros(1))]
        self.stages, self.steps = Stages(), {}

    def optimizer(self, *parameters):
        made = torch.optim.SGD([one for some in parameters for one in some], lr=0.1)
        self.stages.made(made, self.steps)
        self.steps[id(made)] = 0
        return made

    def step(self, optimizer):
        self.stages.stepped(id(optimizer))
        self.steps[id(optimizer)] += 1

    def over(self, optimizer):
        return self.stages.is_over(id(optimizer))

    def test_an_optimizer_is_over_once_another_steps_its_parameters(self):
        first = self.optimizer(self.head)
        self.step(first)
        second = self.optimizer(self.head, self.body)
        self.assertFalse(self.over(first))
        self.step(second)
        self.assertTrue(self.over(first))
        self.assertFalse(self.over(second))

    def test_two_that_step_in_turn_both_count(self):
        first = self.optimizer(self.head)
        self.step(first)
        second = self.optimizer(self.head)
        self.step(first)
        self.step(second)
        self.assertFalse(self.over(first))

    def test_one_that_steps_again_is_not_over(self):
        first = self.optimizer(self.head)
        self.step(first)
        second = self.optimizer(self.head)
        self.step(second)
        self.step(first)
        self.step(second)
        self.assertFalse(self.over(first))

    def test_parameters_of_its_own_are_waited_for(self):
        generator = self.optimizer(self.head)
        self.step(generator)
        critic = self.optimizer(self.body)
        self.step(critic)
        self.assertFalse(self.over(generator))

    def test_one_that_has_not_stepped_yet_is_waited_for(self):
        first = self.optimizer(self.head)
        second = self.optimizer(self.head, self.body)
        self.step(second)
        self.assertFalse(self.over(first))

    def test_what_is_gone_is_forgotten(self):
        first = self.optimizer(self.head)
        self.step(first)
        second = self.optimizer(self.head)
        self.stages.gone(id(first))
        self.step(second)
        self.assertFalse(self.over(first))


# Folds: one model after another, each compared with all labels; and samples of distributions.

_COMPARES = """
import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def evaluated(model, samples, batch):
    loader = DataLoader(TensorDataset(torch.rand(samples, 8)), batch)
    with torch.no_grad():
        return torch.cat([model(x.cuda()).argmax(1).cpu() for (x,) in loader]).numpy()

model = nn.Sequential(*(nn.Linear(8, 8) for _ in range({layers}))).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
labels = torch.randint(0, 8, ({samples},)).numpy()
for epoch in range(4):
    model(torch.rand(4, 8, device="cuda")).sum().backward()
    optimizer.step()
    score = (evaluated(model, {samples}, {batch}) - labels).mean()
torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
"""
_SAMPLES = """
import numpy
import torch
from torch import distributions, nn

rates = torch.rand(64, 32, device="cuda", requires_grad=True)
kinds = (
    distributions.Gamma(rates, rates), distributions.Dirichlet(rates), distributions.Beta(rates, rates),
    distributions.StudentT(rates),
)
loss = sum(kind.rsample().mean() for kind in kinds)
loss = loss + distributions.Binomial(10, rates.detach()).sample().mean()
loss = loss + rates.cummax(1).values.mean() + rates.cummin(1).values.mean() + rates.logcumsumexp(1).mean()
loss = loss + nn.MultiMarginLoss()(rates, torch.randint(0, 32, (64,), device="cuda"))
loss = loss + nn.MultiLabelMarginLoss()(rates, torch.randint(0, 32, (64, 32), device="cuda"))
loss.backward()
torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
"""
_FOLDS = """
import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def fold():
    model = nn.Linear(512, 512).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for (x,) in DataLoader(TensorDataset(torch.rand(400, 512)), 4):
        model(x.cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

for _ in range({folds}):
    fold()
"""
_LAST = 3 << 20


def _sizes(rows):
    return [row[2] for row in rows if isinstance(row, list) and row[0] == "a"]


def _notes(rows):
    return " ".join(note for row in rows if isinstance(row, dict) for note in row.get("notes", []))


def _live(rows):
    """The most bytes that were alive at once."""
    sizes, live, peak = {}, 0, 0
    for row in rows:
        if isinstance(row, list) and row[0] == "a":
            sizes[row[1]] = row[2]
            live += row[2]
            peak = max(peak, live)
        elif isinstance(row, list) and row[0] == "f":
            live -= sizes.pop(row[1])
    return peak


class Folds(unittest.TestCase):
    def test_models_that_are_gone_take_nothing_and_no_batches_are_waited_for(self):
        one, three = (rows_of(self, _FOLDS.format(folds=folds)) for folds in (1, 3))
        self.assertEqual(_live(three), _live(one))
        # A fold has a few steps of its 100, not as many as an optimizer that is gone is waited for.
        self.assertLess(len(_sizes(three)), 4 * len(_sizes(one)))


class Evaluations(unittest.TestCase):
    def test_a_short_one_gives_each_batch_once(self):
        # 96, 96 and 28: each of the three, in every epoch, and no further one.
        rows = rows_of(self, _COMPARES.format(layers=1, samples=220, batch=96))
        self.assertNotIn("the program ended with", _notes(rows))
        self.assertIn(_LAST, _sizes(rows))

    def test_a_program_that_counts_on_all_batches_of_a_long_one_ends_with_what_was_seen(self):
        rows = rows_of(self, _COMPARES.format(layers=40, samples=4000, batch=8))
        self.assertIn("the program ended with ValueError", _notes(rows))
        # What it says, and where.
        self.assertRegex(_notes(rows), r"ended with ValueError: .+ \(.*program\.py:\d+\)")


class Samples(unittest.TestCase):
    def test_of_distributions_and_other_ops_without_a_meta_kernel(self):
        self.assertIn(_LAST, _sizes(rows_of(self, _SAMPLES)))


# When batches of different sizes no longer make the allocator hold more, the next ones need not all be run.

MIB = 2**20
CAPACITY = 64 * 2**30


class Program:
    def __init__(self):
        self.ledger = Ledger()
        self.settling = Settling(self.ledger, CAPACITY)

    def runs(self, size, reads=False):
        """A batch that asks for so many MiB at once and gives them back."""
        began = self.settling.begins()
        self.ledger.free(self.ledger.allocate(size * MIB, "op", "", "x"))
        self.settling.ran(began, reads)

    def needed(self, size, most=100):
        """How many batches of a size are run until no more is held for long."""
        for count in range(most):
            if self.settling.is_settled(False):
                return count
            self.runs(size)
        return most


class Settles(unittest.TestCase):
    def test_after_some_batches_that_leave_nothing_new(self):
        program = Program()
        for size in (100, 300):
            program.runs(size)
            self.assertFalse(program.settling.is_settled(False))
        self.assertEqual(program.needed(200), 6)

    def test_the_more_batches_it_took_the_more_must_follow(self):
        program = Program()
        for size in range(100, 1100, 50):
            program.runs(size)
        self.assertEqual(program.needed(100), 20)

    def test_what_rises_little_has_settled_until_it_adds_up(self):
        ledger = Ledger()
        settling = Settling(ledger, CAPACITY)
        ledger.allocate(2000 * MIB, "op", "", "x")
        answers = []
        for _ in range(12):
            began = settling.begins()
            ledger.allocate(2 * MIB, "op", "", "x")
            settling.ran(began, False)
            answers.append(settling.is_settled(False))
        # The first asks for a segment of 20 MiB, more than a two hundredth; the next ones lie in it.
        self.assertEqual(answers, [False] * 6 + [True] * 4 + [False] * 2)

    def test_what_is_read_and_what_is_trained_on_settle_for_themselves(self):
        program = Program()
        for _ in range(9):
            program.runs(10, reads=True)
        self.assertTrue(program.settling.is_settled(True))
        self.assertFalse(program.settling.is_settled(False))

    def test_what_rises_in_between_is_not_the_batches_own(self):
        program = Program()
        for _ in range(7):
            program.runs(10)
            program.ledger.allocate(50 * MIB, "op", "", "w")
        self.assertTrue(program.settling.is_settled(False))

    def test_larger_ones_begin_it_again(self):
        program = Program()
        self.assertEqual(program.needed(10), 7)
        program.runs(900)
        self.assertFalse(program.settling.is_settled(False))


class Ops(unittest.TestCase):
    """All are run while that is cheap, even if nothing is new."""

    def setUp(self):
        self.program = Program()
        self.ragged = Ragged(self.program.settling)
        self.program.needed(10)

    def settled(self, whole=False):
        return [self.ragged.is_settled(reads, whole) for reads in (False, True)]

    def test_some_are_always_spent(self):
        self.ragged.spent(39_999, False, False)
        self.assertEqual(self.settled(), [False, False])
        self.ragged.spent(1, False, False)
        self.assertEqual(self.settled(), [True, False])

    def test_fewer_once_all_batches_of_a_data_set_were_run(self):
        self.ragged.spent(26_000, False, False)
        self.assertEqual(self.settled(whole=True), [False, False])
        self.ragged.spent(1_000, False, False)
        self.assertEqual(self.settled(whole=True), [True, False])
        self.assertEqual(self.settled(whole=False), [False, False])

    def test_more_samples_are_looked_at_once_few_were_run(self):
        class Indices:
            def fetch(self, index):
                return torch.zeros(len(index))

        def looked_at():
            count = 0
            while self.ragged.looks():
                self.ragged.fetch(Indices(), [0] * 1000)
                count += 1000
            return count

        self.assertEqual(looked_at(), 20_000)
        self.ragged.spent(40_000, False, False)
        self.assertTrue(self.ragged.is_settled(False, False))
        self.assertEqual(looked_at(), 40_000)

    def test_more_are_spent_while_more_is_held(self):
        self.ragged.spent(50_000, False, False)
        self.program.runs(400)
        self.assertEqual(self.settled(), [False, False])


class SettlingSamples(unittest.TestCase):
    def answers(self, batches, samples):
        ragged = Ragged()
        return [ragged.is_larger(batch, (0, 0), samples) for batch in batches]

    def test_which_sample_comes_first_says_nothing(self):
        sides = [(8, 4, 6, 2), (2, 8, 4, 6), (6, 2, 8, 5)]
        batches = [[torch.zeros(3, side, side) for side in order] for order in sides]
        self.assertEqual(self.answers(batches, 4), [True, False, True])
        self.assertEqual(self.answers(batches, 5), [True, True, True])

    def test_the_largest_sample_counts_and_what_all_are_filled_up_to(self):
        shapes = [
            [(4, 4)] * 4,
            # Fewer numbers in all: one sample is larger, then one is only longer.
            [(5, 4), (2, 2), (2, 2), (2, 2)],
            [(1, 9), (5, 2), (2, 2), (2, 2)],
            [(2, 2)] * 4,
        ]
        batches = [([torch.zeros(shape) for shape in one], "names") for one in shapes]
        self.assertEqual(self.answers(batches, 4), [True, True, True, False])

    def test_few_parts_may_be_something_else_than_samples(self):
        batches = [(torch.zeros(4), torch.zeros(2)), (torch.zeros(2), torch.zeros(4))]
        self.assertEqual(self.answers(batches, 2), [True, True])


# Workers of a loader that each have a copy of one generator: their first batches are drawn alike.

COPIED_GENERATORS_PROGRAM = """
import random

import numpy
import torch
from torch.utils.data import DataLoader, TensorDataset


class Crop:
    def __init__(self):
        self.numbers = random.Random(1)

    def __call__(self, rows):
        length = self.numbers.choice((100, 200, 400))
        return torch.stack([row[0][:length] for row in rows])


model = torch.nn.Linear(1, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = TensorDataset(torch.zeros(640, 400))
for batch in DataLoader(rows, 8, collate_fn=Crop(), num_workers={workers}):
    loss = model(batch.cuda()[..., None]).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


class CopiedGenerators(unittest.TestCase):
    def test_batches_of_other_sizes_come_after_one_of_each_worker(self):
        for workers in (4, 7):
            with self.subTest(workers=workers):
                rows = rows_of(self, COPIED_GENERATORS_PROGRAM.format(workers=workers))
                asked = {row[2] for row in rows[1:-1] if row[0] == "a"}
                # Batches of 8 samples, as the layer's 8 results of 4 bytes for each place.
                for length in (100, 200, 400):
                    self.assertIn(8 * length * 8 * 4, asked)


# Iterations inside of one step of an optimizer: of L-BFGS, which keeps a history of them.

HISTORY = 20
INNER_ITERATIONS_PROGRAM = """
import numpy
import torch

model = torch.nn.Linear(1000, 500, bias=False).cuda()
inputs = torch.randn(8, 1000, device="cuda")
optimizer = torch.optim.LBFGS(
    model.parameters(), max_iter={iterations}, history_size=20, line_search_fn={search}
)
calls = 0

def closure():
    global calls
    calls += 1
    optimizer.zero_grad()
    loss = model(inputs).pow(2).mean()
    loss.backward()
    return loss

optimizer.step(closure)
assert calls < 50, calls
assert optimizer.param_groups[0]["max_iter"] == {iterations}
kept = optimizer.state[optimizer._params[0]]["old_dirs"]
assert len(kept) == {kept}, len(kept)
model.eval()
with torch.no_grad():
    model(inputs)
"""

PICTURE_BYTES = 3 * 1000 * 1000 * 4
PICTURE = """
import numpy
import torch

model = torch.nn.Conv2d(3, 1, 3).cuda().requires_grad_(False)
if {loads}:
    torch.save(model.state_dict(), "weights.pt")
    model.load_state_dict(torch.load("weights.pt"))
picture = torch.rand(1, 3, 1000, 1000, device="cuda").requires_grad_(True)
optimizer = torch.optim.LBFGS([picture], max_iter=50, history_size=20)

def closure():
    optimizer.zero_grad()
    loss = model(picture).pow(2).mean()
    loss.backward()
    return loss

for _ in range(2):
    optimizer.step(closure)
kept = optimizer.state[picture]["old_dirs"]
assert (len(kept) == 20) == {loads}, len(kept)
"""


class InnerIterations(unittest.TestCase):
    def test_a_long_step_fills_its_history_and_what_follows_is_seen(self):
        for search in ("None", "'strong_wolfe'"):
            with self.subTest(search):
                rows = rows_of(
                    self,
                    INNER_ITERATIONS_PROGRAM.format(iterations=5000, search=search, kept=HISTORY),
                )
                self.assertFalse(rows[-1]["ended"])
                self.assertIn(["m", "phase:evaluation"], rows)
                asked = [row for row in rows[1:-1] if row[0] == "a"]
                vectors = [row for row in asked if row[2] >= 2_000_000]
                self.assertGreater(len(vectors), 2 * HISTORY)

    def test_a_picture_before_random_weights_leaves_no_history_and_one_before_loaded_weights_does(
        self,
    ):
        for loads in (False, True):
            with self.subTest(loads=loads):
                rows = rows_of(self, PICTURE.format(loads=loads))
                # Two vectors for each iteration of a full history, as the step comes twice.
                more = 0 if loads else 2 * HISTORY * PICTURE_BYTES
                self.assertEqual(rows[-1]["maybeMoreBytes"], more)


# The order of batches against that of real loaders, with and without workers.


class AtOnce(Sampler):
    """Batches in an order that is drawn before the first is asked for."""

    def __iter__(self):
        batches = [[i, i + 1] for i in range(0, 16, 2)]
        random.shuffle(batches)
        return iter([batches[i] for i in torch.randperm(8).tolist()])

    def __len__(self):
        return 8


def loader_of(workers, persistent, shuffles):
    chosen = {"batch_size": 2, "shuffle": True} if shuffles else {"batch_sampler": AtOnce()}
    return DataLoader(range(16), num_workers=workers, persistent_workers=persistent, **chosen)


def drawn(loader, batches_of):
    """Three epochs, and what is drawn after them."""
    random.seed(5)
    torch.manual_seed(5)
    epochs = [[list(map(int, batch)) for batch in batches_of(loader)] for _ in range(3)]
    return epochs, random.random(), torch.rand(1).item()


class Order(unittest.TestCase):
    def test_a_list_of_batches_has_one_order_unless_it_was_drawn(self):
        listed = DataLoader(range(16), batch_sampler=[[0, 1], [2, 3]])
        order.draw_the_same_again()
        self.assertTrue(order.is_known(listed, False))
        for draw in (random.random, numpy.random.rand):
            order.draw_the_same_again()
            draw()
            self.assertFalse(order.is_known(listed, False), draw)

    def test_it_is_that_of_a_real_loader(self):
        for workers, persistent in ((0, False), (1, False), (1, True)):
            for shuffles in (True, False):
                with self.subTest(workers=workers, persistent=persistent, shuffles=shuffles):
                    real = drawn(loader_of(workers, persistent, shuffles), iter)
                    ours = drawn(loader_of(workers, persistent, shuffles), order.Epoch)
                    self.assertEqual(ours, real)


if __name__ == "__main__":
    unittest.main()
