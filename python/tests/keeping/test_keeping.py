"""Loops whose memory grows, under a real limit of the host; and checkpoints of trainings that are killed."""

import itertools
import json
import os
import random
import sys
import tempfile
import unittest

import numpy
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import warm
from sdk.injection import batch_of, build, cheap_collection, clean_step, out_of_memory
from sdk.test_recovering import Quiet, mean_loss

import plimsoll
from plimsoll.recovery.restore import Counted, OptimizerGuard, RandomState, numpy_state

FOLDER = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(os.path.dirname(FOLDER))
LIMIT_BYTES = 800 * 2**20


def run(case, way):
    """A process of its own: the limit on its data is a real one, and is not taken back."""
    done = warm.run(
        [sys.executable, "-W", "ignore", os.path.join(FOLDER, "growing.py"), case, way, PACKAGE],
        env={**os.environ, "PLIMSOLL_MEMORY_BYTES": str(LIMIT_BYTES)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return json.loads(done.stdout) if done.returncode == 0 else {"ended": done.stderr[-800:]}


class KeepingBelow(unittest.TestCase):
    def check(self, case):
        ahead = run(case, "ahead")
        self.assertEqual(ahead.get("failures"), 0, ahead)
        self.assertLess(ahead["share"], 0.9)
        self.assertLess(ahead["sizes"][-1], ahead["sizes"][0])
        after = run(case, "after")
        # The same loop without it does run out, or fills more than the load line.
        self.assertTrue("ended" in after or after["failures"] > 0 or after["share"] > 0.9, after)

    def test_a_step_whose_program_keeps_more_and_more(self):
        self.check("kept")

    def test_a_step_whose_samples_get_longer(self):
        self.check("longer")

    def test_batches_of_a_program_that_keeps_its_results(self):
        self.check("batches")


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


# What is noted before each step costs little, and must still tell all that happened.


class FailsAt(TorchFunctionMode):
    """Fails before one of the functions of torch that a step calls.

    Getters of tensors do not count; nor does the switch of gradients, which would stay as a failure leaves it.
    """

    NOT_COUNTED = ("__get__", "_set_grad_enabled")

    def __init__(self, number):
        super().__init__()
        self.left = number

    def __torch_function__(self, function, types, arguments=(), named=None):
        if getattr(function, "__name__", "") not in self.NOT_COUNTED:
            self.left -= 1
            if self.left < 0:
                raise out_of_memory()
        return function(*arguments, **(named or {}))


def optimizers():
    """Each kind that counts its steps in tensors, in each way that it can be made."""
    names = ("Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD")
    kinds = [getattr(torch.optim, name) for name in (*names, "NAdam", "RAdam", "RMSprop", "Rprop")]
    for kind, way in itertools.product(kinds, ({"foreach": False}, {"foreach": True})):
        yield kind, way
    for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad):
        yield kind, {"fused": True}
    for kind in (torch.optim.Adam, torch.optim.AdamW):
        yield kind, {"weight_decay": 0.1, "amsgrad": True}


ONE_TYPE = (torch.float32,) * 3
# Foreach and fused kinds go through types in an order of their own.
TWO_TYPES = (torch.float32, torch.float64, torch.float64)


def stepped_once(kind, way, types=ONE_TYPE):
    """Three parameters, the last of which gets its first gradient, and so its states, in the next step."""
    torch.manual_seed(0)
    weights = [torch.nn.Parameter(torch.randn(3, 2, dtype=one)) for one in types]
    optimizer = kind(weights, lr=0.1, **way)
    for weight in weights[:2]:
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    return weights, optimizer


def held(weights, optimizer):
    values = [weight.detach().clone() for weight in weights]
    for state in optimizer.state.values():
        values += [torch.as_tensor(one).clone() for one in state.values() if one is not None]
    return values


class Counters(unittest.TestCase):
    def test_a_step_that_failed_anywhere_is_undone_whole_or_refused(self):
        refused = undone = 0
        self.addCleanup(lambda: self.assertTrue(torch.is_grad_enabled()))
        for (kind, way), types in itertools.product(optimizers(), (ONE_TYPE, TWO_TYPES)):
            for number in itertools.count():
                weights, optimizer = stepped_once(kind, way, types)
                self.assertTrue(Counted(optimizer).mark(), kind.__name__)
                guard = OptimizerGuard(optimizer, "first")
                before = held(weights, optimizer)
                guard.before_step()
                try:
                    with FailsAt(number):
                        optimizer.step()
                    break
                except torch.OutOfMemoryError:
                    pass
                try:
                    guard.roll_back()
                except plimsoll.Failure:
                    refused += 1
                    continue
                undone += 1
                after = held(weights, optimizer)
                self.assertEqual(len(before), len(after), f"{kind.__name__} {way} {number}")
                for one, other in zip(before, after):
                    self.assertTrue(torch.equal(one, other), f"{kind.__name__} {way} {number}")
            self.assertGreater(number, 0)
        self.assertGreater(refused, 50)
        self.assertGreater(undone, 50)

    def test_others_are_looked_at_whole(self):
        weight = torch.nn.Parameter(torch.ones(2))
        weight.grad = torch.ones(2)
        for optimizer in (
            torch.optim.SGD([weight], lr=0.1, momentum=0.9),
            type("Own", (torch.optim.Adam,), {})([weight]),
        ):
            self.assertFalse(Counted(optimizer).mark())
            optimizer.step()
            self.assertFalse(Counted(optimizer).mark())


class Numpy(unittest.TestCase):
    def setUp(self):
        self.addCleanup(numpy.random.set_state, numpy.random.get_state())

    def same(self):
        ours, theirs = numpy_state(), numpy.random.get_state()
        self.assertTrue(numpy.array_equal(ours[1], theirs[1]))
        self.assertEqual((ours[0], *ours[2:]), (theirs[0], *theirs[2:]))

    def test_its_state_is_what_numpy_says_whatever_was_drawn(self):
        for act in (
            lambda: numpy.random.seed(3),
            lambda: numpy.random.rand(5),
            numpy.random.randn,
            numpy.random.randn,
            lambda: None,
            lambda: numpy.random.seed(3),
            lambda: numpy.random.rand(1000),
        ):
            act()
            self.same()
            self.same()

    def test_another_generator_in_its_place_is_read_each_time(self):
        if not hasattr(numpy.random, "set_bit_generator"):
            self.skipTest("this numpy has one generator")
        real = numpy.random.get_bit_generator()
        self.addCleanup(numpy.random.set_bit_generator, real)
        numpy.random.set_bit_generator(numpy.random.MT19937(5))
        self.same()
        numpy.random.set_bit_generator(numpy.random.PCG64(5))
        first = numpy_state()
        numpy.random.rand()
        self.assertNotEqual(str(numpy_state()), str(first))

    def test_a_retry_draws_what_the_first_try_drew(self):
        numpy_state()
        before = RandomState()
        drawn = numpy.random.randn(3).tolist()
        before.restore()
        self.assertEqual(numpy.random.randn(3).tolist(), drawn)


def made(folder, **options):
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    return model, plimsoll.checkpointing(folder, model, optimizer, **{"every": 1, **options})


def files(folder):
    return sorted(name for name in os.listdir(folder) if name.endswith(".pt"))


class Checkpoints(unittest.TestCase):
    def setUp(self):
        found = tempfile.TemporaryDirectory()
        self.addCleanup(found.cleanup)
        self.folder = os.path.join(found.name, "checkpoints")

    def test_a_training_killed_at_random_moments_ends_bit_equal(self):
        program = os.path.join(FOLDER, "killed_training.py")
        done = warm.run(
            [sys.executable, "-W", "ignore", program, PACKAGE, self.folder, "12", "7"],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        told = json.loads(done.stdout)
        self.assertTrue(told["same"], told)
        self.assertGreater(told["killed"], 2)
        self.assertGreater(told["stood"], told["killed"] // 2)
        self.assertLessEqual(told["files"], 2)

    def test_the_last_two_are_kept_and_the_newest_is_taken_up(self):
        model, saved = made(self.folder)
        with saved:
            for _ in range(5):
                with torch.no_grad():
                    model.weight += 1
                saved.step()
        self.assertEqual([name[:23] for name in files(self.folder)], [
            "checkpoint-000000000004", "checkpoint-000000000005",
        ])  # fmt: skip
        wanted = model.weight.clone()
        again, saved = made(self.folder)
        with saved:
            self.assertTrue(saved.resumed)
            self.assertEqual(saved.steps, 5)
            self.assertTrue(torch.equal(again.weight, wanted))

    def test_a_damaged_file_is_passed_over_and_a_damaged_folder_is_one_clear_error(self):
        _, saved = made(self.folder)
        with saved:
            saved.step()
            saved.step()
        draw = random.Random(3)
        newest, oldest = files(self.folder)[1], files(self.folder)[0]
        for name, steps in ((newest, 1), (oldest, None)):
            path = os.path.join(self.folder, name)
            with open(path, "r+b") as file:
                size = os.path.getsize(path)
                file.seek(draw.randrange(size))
                at = file.tell()
                byte = file.read(1)
                file.seek(at)
                file.write(bytes([byte[0] ^ 0x55]))
            if steps is None:
                with self.assertRaises(plimsoll.Failure) as caught:
                    made(self.folder)
                self.assertEqual(caught.exception.code, "checkpoints-damaged")
            else:
                _, saved = made(self.folder)
                with saved:
                    self.assertEqual(saved.steps, steps)

    def test_a_second_process_a_wrong_model_and_wrong_arguments_are_refused(self):
        model, saved = made(self.folder)
        with saved:
            with self.assertRaises(plimsoll.Failure) as caught:
                made(self.folder)
            self.assertEqual(caught.exception.code, "checkpoints-in-use")
            saved.save()
        other = nn.Linear(3, 3)
        for optimizer in (None, torch.optim.AdamW(other.parameters())):
            with self.assertRaises(plimsoll.Failure) as caught:
                plimsoll.checkpointing(self.folder, other, optimizer)
            self.assertEqual(caught.exception.code, "checkpoint-unusable")
        # What was refused left the folder free.
        made(self.folder)[1].close()
        for options in ({"every": 0}, {"keep": 0}, {"seconds": -1}, {"also": {"x": 7}}):
            with self.assertRaises(plimsoll.Failure):
                plimsoll.checkpointing(self.folder, model, **options)
        with self.assertRaises(plimsoll.Failure) as caught:
            plimsoll.checkpointing("/dev/null/x", model)
        self.assertEqual(caught.exception.code, "checkpoints-unwritable")

    def test_a_pass_over_other_data_is_refused(self):
        _, saved = made(self.folder)
        with saved:
            for _ in saved.epochs(1):
                for index, _ in enumerate(saved.batches(range(5))):
                    if index == 3:
                        break
        _, saved = made(self.folder)
        with saved, self.assertRaises(plimsoll.Failure) as caught:
            for _ in saved.epochs(1):
                list(saved.batches(range(2)))
        self.assertEqual(caught.exception.code, "position-of-another-dataset")


if __name__ == "__main__":
    unittest.main()
