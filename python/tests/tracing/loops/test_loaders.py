"""What workers of a loader draw and fetch, against real ones."""

import os
import random
import signal
import threading
import time
import unittest
from unittest import mock

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from tracing.watching import rows_of

from plimsoll_trace.programs import random_draws
from plimsoll_trace.programs.libraries import SeenStep
from plimsoll_trace.programs.loops import order, reading_ahead
from plimsoll_trace.programs.loops.batch_loops import Number
from plimsoll_trace.programs.watch import StepSizes
from plimsoll_trace.standins.patches import Patches


class Drawn(Dataset):
    """Each sample is drawn, by all generators that programs use."""

    def __init__(self):
        self.held = np.random.default_rng(3)

    def __len__(self):
        return 12

    def __getitem__(self, place):
        drawn = [torch.rand(()).item(), random.random(), np.random.rand(), self.held.random()]
        info = get_worker_info()
        return [place, *drawn, info.id, info.num_workers, info.seed == torch.initial_seed()]


class Stream(IterableDataset):
    """Every worker gives its part, of a length of its own, in an order that it draws."""

    def __iter__(self):
        info = get_worker_info()
        self.given = 0
        numbers = list(range(info.id, 17, info.num_workers + info.id))
        random.shuffle(numbers)
        for number in numbers:
            self.given += 1
            yield [number, self.given, torch.rand(()).item()]


class Begun(IterableDataset):
    """Workers are told their part by what initialises them."""

    start, stop = 0, 8

    def __iter__(self):
        return iter(range(self.start, self.stop))


def take_part(number):
    info = get_worker_info()
    info.dataset.start, info.dataset.stop = 4 * number, 4 * number + 4 + number


def seed_numpy(number):
    np.random.seed((torch.initial_seed() + number) % 2**32)


def with_noise(samples):
    return [*samples, torch.rand(()).item(), np.random.rand()]


def drawn(loader, batches_of):
    """Two epochs, and what is drawn after them."""
    random.seed(5)
    torch.manual_seed(5)
    np.random.seed(5)
    epochs = [list(batches_of(loader)) for _ in range(2)]
    return epochs, random.random(), torch.rand(1).item(), np.random.rand()


def fetched(loader):
    epoch = order.Epoch(loader)
    for index in epoch:
        try:
            yield epoch.fetch(index)
        except StopIteration:
            return


class WhatWorkersDraw(unittest.TestCase):
    def assert_is_as_real(self, dataset_of, **options):
        def loader():
            return DataLoader(dataset_of(), **options)

        self.assertEqual(drawn(loader(), fetched), drawn(loader(), iter))

    def test_samples_and_what_is_made_of_them(self):
        for persistent in (False, True):
            for initialises in (None, seed_numpy):
                with self.subTest(persistent=persistent, initialises=initialises):
                    self.assert_is_as_real(
                        Drawn,
                        batch_size=2,
                        shuffle=True,
                        num_workers=2,
                        collate_fn=with_noise,
                        persistent_workers=persistent,
                        worker_init_fn=initialises,
                    )

    def test_streams_of_different_lengths(self):
        for persistent in (False, True):
            with self.subTest(persistent=persistent):
                self.assert_is_as_real(
                    Stream,
                    batch_size=2,
                    num_workers=2,
                    collate_fn=list,
                    persistent_workers=persistent,
                )

    def test_parts_that_an_initialisation_sets(self):
        self.assert_is_as_real(
            Begun, batch_size=2, num_workers=2, collate_fn=list, worker_init_fn=take_part
        )

    def test_what_only_another_process_allows_changes_nothing(self):
        def ignores_interrupts(number):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            raise RuntimeError("not in a process of its own")

        before = signal.getsignal(signal.SIGINT)
        loader = DataLoader(range(4), num_workers=1, worker_init_fn=ignores_interrupts)
        self.assertEqual([int(batch) for batch in fetched(loader)], [0, 1, 2, 3])
        self.assertIs(signal.getsignal(signal.SIGINT), before)
        self.assertIsNone(get_worker_info())


# Batches that another process reads ahead, against those of real workers.


class Observer:
    """That of a trace: it counts what a data set does."""

    def __init__(self):
        self.ops = self.host_ops = 0
        self.notes = set()

    def count_host_ops(self, count):
        self.host_ops += count

    def ticks_of_host(self, before):
        return 0


class ReadingAheadDrawn(Dataset):
    """Samples that are drawn, and the process that read them."""

    def __init__(self, extra=None):
        self.extra = extra

    def __len__(self):
        return 24

    def __getitem__(self, place):
        drawn = [torch.rand(()).item(), random.random(), np.random.rand()]
        return place, drawn, torch.rand(3), os.getpid(), self.extra and self.extra()


def as_they_are(samples):
    return samples


def plain(batches):
    """Without what differs from process to process."""
    return [[(place, drawn, rest.tolist()) for place, drawn, rest, *_ in one] for one in batches]


@unittest.skipUnless(hasattr(os, "memfd_create"), "needs memory that processes share")
class ReadAhead(unittest.TestCase):
    def setUp(self):
        self.observer = Observer()
        # However busy the machine is, another process is waited for.
        patient = ("_PATIENCE", 120.0)
        for name, value in (("_SECONDS", 0.0), ("_REFUSED", reading_ahead.WeakTable()), patient):
            patch = mock.patch.object(reading_ahead, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        # Tests that ran before in this process may have left threads that only wait.
        alone = mock.patch.object(threading, "active_count", lambda: 1)
        cores = mock.patch.object(os, "sched_getaffinity", lambda _: {0, 1})
        for patch in (alone, cores):
            patch.start()
            self.addCleanup(patch.stop)
        self.addCleanup(reading_ahead.end_all)

    def loader(self, extra=None):
        return DataLoader(
            ReadingAheadDrawn(extra), 3, shuffle=True, num_workers=2, collate_fn=as_they_are
        )

    def read(self, loader, skip=(), observer=None):
        torch.manual_seed(5)
        epoch = order.Epoch(loader, observer)
        return [epoch.fetch(index) for at, index in enumerate(epoch) if at not in skip]

    def test_they_are_those_of_real_workers(self):
        given = self.read(self.loader(), observer=self.observer)
        torch.manual_seed(5)
        self.assertEqual(plain(given), plain(list(self.loader())))
        self.assertEqual({one[0][3] == os.getpid() for one in given[1:]}, {False})

    def test_batches_that_are_left_out_change_no_others(self):
        skip = (2, 3, 6)
        given = self.read(self.loader(), skip, self.observer)
        self.assertEqual(plain(given), plain(self.read(self.loader(), skip)))

    def test_the_process_ends_with_the_epoch(self):
        self.read(self.loader(), observer=self.observer)
        self.assertRaises(ChildProcessError, os.waitpid, -1, os.WNOHANG)

    def test_a_process_is_ended_that_is_still_reading(self):
        epoch = order.Epoch(self.loader(), self.observer)
        epoch.fetch(next(epoch))
        reading_ahead.end_all()
        self.assertRaises(ChildProcessError, os.waitpid, -1, os.WNOHANG)

    def test_what_cannot_be_passed_on_is_read_here(self):
        given = self.read(self.loader(lambda: lambda: 1), observer=self.observer)
        self.assertEqual({one[0][3] for one in given}, {os.getpid()})
        self.assertEqual(plain(given), plain(self.read(self.loader())))

    def test_what_fails_elsewhere_is_read_here(self):
        self.assert_is_read_here(lambda: 1 / 0)

    def test_what_never_ends_elsewhere_is_read_here(self):
        with mock.patch.object(reading_ahead, "_PATIENCE", 0.2):
            self.assert_is_read_here(lambda: time.sleep(60))

    def assert_is_read_here(self, elsewhere):
        here = os.getpid()
        loader = self.loader(lambda: None if os.getpid() == here else elsewhere())
        given = self.read(loader, observer=self.observer)
        self.assertEqual({one[0][3] for one in given}, {here})

    def test_beside_threads_of_the_program_all_is_read_here(self):
        with mock.patch.object(threading, "active_count", lambda: 2):
            given = self.read(self.loader(), observer=self.observer)
        self.assertEqual({one[0][3] for one in given}, {os.getpid()})

    def test_work_for_the_gpu_is_done_here(self):
        loader = self.loader(lambda: setattr(self.observer, "ops", self.observer.ops + 1))
        given = self.read(loader, observer=self.observer)
        self.assertEqual({one[0][3] for one in given}, {os.getpid()})

    def test_what_was_done_elsewhere_counts_here(self):
        def count():
            self.observer.host_ops += 1

        self.read(self.loader(count), observer=self.observer)
        self.assertEqual(self.observer.host_ops, 24)

    def test_seconds_count_those_that_reading_took_elsewhere(self):
        def work():
            ends = time.process_time() + 0.01
            while time.process_time() < ends:
                pass

        before, here = reading_ahead.seconds(), time.process_time()
        self.read(self.loader(work), observer=self.observer)
        elsewhere = reading_ahead.seconds() - before - (time.process_time() - here)
        self.assertGreater(elsewhere, 7 * 3 * 0.01 * 0.9)


# Sizes that a program draws without a seed: the largest is among the first.

SIDES = [576, 384, 448, 512]


class DrawnSizes(unittest.TestCase):
    def setUp(self):
        self.addCleanup(random.setstate, random.getstate())
        self.addCleanup(np.random.set_state, np.random.get_state())
        patches = Patches()
        self.addCleanup(patches.undo)
        random_draws.install(patches)

    def test_the_largest_comes_second_at_each_place_that_draws(self):
        sides = [random.choice(SIDES) for _ in range(3)]
        pairs = [random.choice([(480, 640), (640, 640), (640, 480)]) for _ in range(3)]
        counts = [random.randint(4, 900) for _ in range(3)]
        steps = [random.randrange(320, 641, 64) for _ in range(3)]
        self.assertEqual((sides[1], pairs[1], counts[1], steps[1]), (576, (640, 640), 900, 640))

    def test_so_it_does_with_numpy_whose_numbers_keep_their_type(self):
        sides = [np.random.choice(SIDES) for _ in range(3)]
        counts = [np.random.randint(4, 900) for _ in range(3)]
        self.assertEqual((sides[1].item(), counts[1]), (576, 899))
        self.assertIs(type(sides[1]), type(sides[0]))
        # Arrays stay as drawn.
        self.assertEqual([len(np.random.randint(4, 900, 5)) for _ in range(2)], [5, 5])
        self.assertEqual([len(np.random.choice(SIDES, 3)) for _ in range(2)], [3, 3])

    def test_the_others_are_drawn_as_ever(self):
        draw = random._inst
        state = random.getstate()
        expected = [draw.choice(SIDES) for _ in range(20)]
        random.setstate(state)
        sides = [random.choice(SIDES) for _ in range(20)]
        self.assertEqual((sides[:1], sides[2:]), (expected[:1], expected[2:]))

    def test_a_program_with_a_seed_draws_what_it_draws_in_a_real_run(self):
        random.seed(3)
        draw = random.Random(3)
        self.assertEqual(
            [random.choice(SIDES) for _ in range(8)], [draw.choice(SIDES) for _ in range(8)]
        )

    def test_what_is_no_size_stays_as_drawn(self):
        for options in (["a", "b"], [0, 1], [1.5, 2.5], range(1000), [(2, "x")] * 2):
            for _ in range(2):
                state = random.getstate()
                drawn = random.choice(options)
                random.setstate(state)
                self.assertEqual(drawn, random._inst.choice(options))


# Batches of different shapes that come from no loader: the interval says so where they are guessed.

PROGRAM = """
import random
import torch

{seed}
model = torch.nn.Linear(16, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def batches():
    for number in range({batches}):
        yield torch.zeros({rows}, 16)


for batch in batches():
    model(batch.cuda()).relu().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
SEED = "random.seed(1); torch.manual_seed(1)"


class SizesOfSteps(unittest.TestCase):
    def differ(self, *sizes):
        steps = StepSizes()
        for size in sizes:
            steps.went_backward(size)
            steps.stepped(1)
        return steps.differ()

    def test_sizes_that_rise_and_fall(self):
        self.assertTrue(self.differ(5, 7, 6, 9, 8))

    def test_one_size_a_few_kinds_of_steps_and_growth_are_not_meant(self):
        self.assertFalse(self.differ(*[5] * 20))
        self.assertFalse(self.differ(5, 5, 9, 5, 5, 9, 5, 5, 3, 5))
        self.assertFalse(self.differ(1, 2, 3, 4, 5, 6, 7, 8))

    def test_four_sizes_that_rise_twice_and_fall_twice_are_the_least(self):
        for sizes, differ in (
            ((5, 7, 6, 8, 5), True),
            ((5, 7, 6, 7, 5, 7, 6), False),
            ((1, 2, 3, 4, 1), False),
            ((4, 3, 2, 1, 4), False),
            # Sizes that stay neither rise nor fall.
            ((1, 2, 3, 3, 3, 4, 1), False),
            ((9, 8, 7, 7, 7, 6, 9), False),
        ):
            self.assertEqual(self.differ(*sizes), differ, sizes)

    def test_of_eight_passes_each_and_of_more_three_quarters_have_a_size_of_their_own(self):
        for sizes, differ in (
            ((3, 9, 4, 8, 2, 7, 6, 5), True),
            ((3, 9, 4, 8, 2, 7, 6), False),
            ((3, 9, 4, 8, 2, 7, 6, 5, 1, 9, 8, 9), True),
            ((3, 9, 4, 8, 2, 7, 6, 5, 9, 8, 9, 8), False),
        ):
            steps = StepSizes()
            for size in sizes:
                steps.went_backward(size)
            steps.stepped(1)
            self.assertEqual(steps.differ(), differ, sizes)

    def test_few_steps_that_add_up_passes_of_different_sizes(self):
        steps = StepSizes()
        for sizes in ((3, 9, 4), (8, 2, 7), (6, 5, 11)):
            for size in sizes:
                steps.went_backward(size)
            steps.stepped(1)
        self.assertTrue(steps.differ())

    def test_losses_of_several_kinds_come_again(self):
        steps = StepSizes()
        # The first step makes the gradients.
        for sizes in ((13, 19, 14, 18), (3, 9, 4, 8), (3, 9, 4, 8)):
            for size in sizes:
                steps.went_backward(size)
            steps.stepped(1)
        self.assertFalse(steps.differ())

    def test_steps_on_batches_of_a_loader_do_not_count(self):
        steps = StepSizes()
        for size in (5, 7, 6, 9, 8, 4):
            steps.was_given()
            for optimizer in (1, 2):
                steps.went_backward(size)
                steps.stepped(optimizer)
        self.assertFalse(steps.differ())

    def test_optimizers_that_take_turns_are_told_apart(self):
        steps = StepSizes()
        for step in range(20):
            for optimizer in (1, 2):
                # Several passes before one step.
                for part in range(2):
                    steps.went_backward(optimizer * 100 + part)
                steps.stepped(optimizer)
            if step % 4 == 0:
                steps.went_backward(7)
        self.assertFalse(steps.differ())

    def test_steps_that_add_up_more_or_fewer_batches_are_of_one_size(self):
        steps = StepSizes()
        for batches in (4, 4, 1, 4, 3, 4, 2, 4):
            for _ in range(batches):
                steps.went_backward(100)
            steps.stepped(1)
        self.assertFalse(steps.differ())


class BatchesOfAGenerator(unittest.TestCase):
    def footer(self, rows, seed=SEED, batches=60):
        return rows_of(self, PROGRAM.format(rows=rows, seed=seed, batches=batches))[-1]

    def test_all_were_run_in_the_order_of_a_real_run(self):
        self.assertFalse(self.footer("random.randint(8, 900)")["ragged"])

    def test_each_run_draws_others(self):
        footer = self.footer("random.randint(8, 900)", seed="")
        self.assertTrue(footer["ragged"])
        self.assertTrue(footer["drawn"])
        self.assertFalse(self.footer("64", seed="")["ragged"])

    def test_not_all_are_run(self):
        footer = self.footer("random.randint(8, 900)", batches=30_000)
        self.assertTrue(footer["ragged"])
        self.assertFalse(footer["drawn"])


# Steps of transformers' Trainer that a program's own callbacks wait for.

THAWED = """
import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(64, 64), nn.Linear(64, 1)
        self.body.requires_grad_(False)

    def forward(self, x):
        return {"loss": self.head(self.body(x)).mean()}

class Thaw(TrainerCallback):
    thawed, seen, evaluated = None, [], []

    def on_step_begin(self, args, state, control, model=None, **kwargs):
        self.seen.append(int(state.global_step))
        if state.global_step == 25:
            self.thawed = int(state.global_step)
            model.body.requires_grad_(True)

    def on_evaluate(self, args, state, control, **kwargs):
        self.evaluated.append(int(state.global_step))

rows = [{"x": torch.randn(64)} for _ in range(400)]
callback = Thaw()
trainer = Trainer(
    Model(),
    TrainingArguments(
        "out", max_steps=50, per_device_train_batch_size=8, eval_strategy="steps", eval_steps=30,
        save_strategy="no", report_to="none", label_names=[], remove_unused_columns=False,
    ),
    train_dataset=rows,
    eval_dataset=rows[:16],
    callbacks=[callback],
)
trainer.train()
assert callback.thawed == 25, callback.seen
assert len(callback.seen) < 30, callback.seen
# Not before, as no evaluation comes before it in a real run.
assert callback.evaluated[0] == 30, callback.evaluated
assert trainer.model.body.weight.grad is not None or trainer.state.global_step > 25
"""

PLAIN = (
    THAWED.replace("if state.global_step == 25:", "if False:").split("assert callback.thawed")[0]
    + """
# Without a number that the program waits for, an evaluation comes early, and no step is led on.
assert callback.evaluated[0] == 3, callback.evaluated
assert callback.seen == list(range(len(callback.seen))), callback.seen
"""
)

# What the allocator holds at an evaluation depends on all batches before it.
OF_DIFFERENT_LENGTHS = (
    PLAIN.split("# Without a number")[0]
    .replace("torch.randn(64)", "torch.randn(i % 37 + 3, 64)")
    .replace("for _ in range(400)", "for i in range(400)")
    .replace(
        "callbacks=[callback],",
        "callbacks=[callback], data_collator=lambda rows: "
        "{'x': nn.utils.rnn.pad_sequence([row['x'] for row in rows[::3]])},",
    )
    + "assert callback.evaluated[0] == 30, callback.evaluated\n"
)


class TrainerSteps(unittest.TestCase):
    def ends_well(self, text):
        # Where batches were left out, an error of the program is a note.
        notes = rows_of(self, text)[-1]["notes"]
        self.assertEqual([note for note in notes if "ended with" in note], [])

    def test_a_callback_that_waits_for_a_step_gets_it(self):
        self.ends_well(THAWED)

    def test_steps_that_nothing_waits_for_are_left_out(self):
        self.ends_well(PLAIN)

    def test_evaluations_of_batches_that_differ_come_when_they_would(self):
        self.ends_well(OF_DIFFERENT_LENGTHS)

    def test_a_number_tells_what_it_is_held_against(self):
        for look in (
            lambda step: step == 25,
            lambda step: step != 25,
            lambda step: step >= 25,
            lambda step: step + 1 > 26,
            lambda step: step < 25,
            lambda step: step <= 25,
            lambda step: step % 25 == 0,
        ):
            number = Number()
            number.begins_turn(1, 3)
            number.ends_turn()
            number.begins_turn(2, 4)
            look(SeenStep(4).of(number))
            self.assertTrue(number.is_held_against())
            self.assertIn(number.turns_ahead()[0], (19, 20))
        self.assertEqual({SeenStep(4): "a"}[4], "a")


if __name__ == "__main__":
    unittest.main()
