"""Loops over numbers in programs: which turns are run, and what comes after them."""

import ast
import json
import os
import sys
import tempfile
import unittest
import weakref
from types import SimpleNamespace
from unittest import mock

import torch

import warm
from warm import PACKAGE

from plimsoll_trace import ledger as ledgers
from plimsoll_trace.observer import Observer
from plimsoll_trace.programs.loops import syntax
from plimsoll_trace.programs.loops.batch_loops import BatchLoop
from plimsoll_trace.programs.loops.patience import Items, Patience, Running
from plimsoll_trace.programs.loops.rewritten import Counter, Turns, is_the_programs
from plimsoll_trace.programs.watch import Finished
from plimsoll_trace.programs.watch import Watch as RealWatch

TRAINING = """
import torch
from torch import nn

model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(20)]).cuda()
optimizer = torch.optim.Adam(model.parameters())


def train(step, kept):
    optimizer.zero_grad()
    loss = model(torch.randn(32, 64, device="cuda")).sum()
    loss.backward()
    optimizer.step()
    ran.append(step)


ran, kept = [], []
for step in BEGIN:
    train(step, kept)
    if (step + 1) % 500 == 0:
        torch.zeros(64 << 20, dtype=torch.uint8, device="cuda")
    if step == 1234:
        torch.zeros(128 << 20, dtype=torch.uint8, device="cuda")
END
print("RAN", ran)
torch.zeros(256 << 20, dtype=torch.uint8, device="cuda")
"""


# No turn is like the one before, and some hold on to more.
UNLIKE = (
    TRAINING.replace("torch.randn(32, 64", "torch.randn(32 + step % 7, 64")
    .replace(
        "    ran.append(step)", "    ran.append(step)\n    kept.append(loss) if step < 40 else None"
    )
    .replace("BEGIN", "range(100_000)")
    .replace("END", "")
)


# Its texts grow, and one of them takes more ops than a whole trace.
GENERATES = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(8, 8) for _ in range(60)])

    def generate(self, x):
        for _ in range(100_000):
            x = torch.cat((x, self(x)[:1]))
        return x

    def forward(self, x):
        return self.layers(x)


model = Model().cuda()
optimizer = torch.optim.Adam(model.parameters())
for step in range(25):
    model(torch.ones(4, 8, device="cuda")).sum().backward()
    optimizer.step()
    if step == 0:
        with torch.no_grad():
            model.generate(torch.ones(1, 8, device="cuda"))
    if step == 20:
        torch.zeros(64 << 20, dtype=torch.uint8, device="cuda")
torch.zeros(256 << 20, dtype=torch.uint8, device="cuda")
"""


class Ledger:
    def __init__(self):
        self.events, self.live_bytes = [], 0

    def mark(self, name):
        self.events.append(["m", name])


class Watch:
    """A loop's surroundings: each turn asks for the same, unless told otherwise."""

    def __init__(self):
        self.observer = self
        self.ledger = Ledger()
        self.ops = self.optimizer_steps = self.backwards = self.jumps = self.more_bytes = 0
        self.notes, self.batch_loop = set(), None
        # The program would be ended after so many.
        self.max_ops = 10**9

    def leaves_out(self):
        self.jumps += 1

    def would_end(self, taken, trains):
        return self.ops + taken > self.max_ops

    def train(self, size=1000, ops=100, grown=0):
        self.ledger.events.extend([["a", len(self.ledger.events), size], ["f", -1]])
        self.ledger.live_bytes += grown
        self.ops += ops
        self.optimizer_steps += 1


class WhichTurns(unittest.TestCase):
    def ran(self, numbers, turn, condition=None, max_ops=10**9):
        watch, numbers_run = Watch(), []
        watch.max_ops = max_ops
        turns = Turns(numbers, watch, Patience("train.py:1", watch))
        for number in turns:
            numbers_run.append(number)
            if condition is not None:
                turns.looked(*condition(number))
            turn(watch, number)
        self.watch = watch
        return numbers_run

    def test_the_first_some_between_and_the_last(self):
        ran = self.ran(range(10_000), lambda watch, _: watch.train())
        self.assertEqual(ran[:6], [0, 1, 2, 3, 4, 5])
        self.assertEqual(ran[6:], [1999, 3999, 5999, 7999, 9999])

    def test_where_the_program_looks_at_the_number(self):
        ran = self.ran(
            range(10_000), lambda watch, _: watch.train(), lambda number: (number + 1, 0, 700)
        )
        self.assertIn(699, ran)
        self.assertIn(1399, ran)
        ran = self.ran(
            range(10_000), lambda watch, _: watch.train(), lambda number: (number, 4321, 0)
        )
        self.assertTrue({4320, 4321, 4322} <= set(ran))

    def test_turns_that_differ_are_all_run(self):
        ran = self.ran(range(300), lambda watch, n: watch.train(1000 + n))
        self.assertEqual(ran, list(range(300)))

    def test_a_turn_that_differs_is_followed_by_others_until_they_are_alike(self):
        ran = self.ran(
            range(10_000), lambda watch, n: watch.train(5000 + n % 3 if 3998 < n < 4100 else 1000)
        )
        self.assertTrue(set(range(3999, 4100)) <= set(ran))

    def test_a_cheap_loop_and_one_that_does_not_train_are_run_as_a_whole(self):
        self.assertEqual(len(self.ran(range(50), lambda watch, _: watch.train())), 50)
        self.assertEqual(len(self.ran(range(5000), lambda watch, _: None)), 5000)

    def test_long_turns_are_run_less_often(self):
        ran = self.ran(range(300), lambda watch, _: watch.train(ops=5000))
        self.assertEqual(ran, [0, 1, 2, 299])

    def test_memory_that_grows_is_not_left_out(self):
        ran = self.ran(range(500), lambda watch, _: watch.train(grown=1 << 20))
        self.assertEqual(len(ran), 500)
        # A loss that is kept of each turn is little in all.
        ran = self.ran(range(500), lambda watch, _: watch.train(grown=512))
        self.assertLess(len(ran), 30)

    def test_turns_that_differ_are_left_out_where_the_program_would_be_ended(self):
        ran = self.ran(
            range(10_000),
            lambda watch, n: watch.train(1000 + n, grown=1 << 20),
            lambda number: (number + 1, 0, 700),
            max_ops=25_000,
        )
        self.assertEqual(ran[:251], [*range(250), 699])
        self.assertEqual(ran[-1], 9999)
        self.assertLess(len(ran), 260)
        self.assertEqual(self.watch.more_bytes, (10_000 - 250) << 20)
        self.assertIn("250", "".join(self.watch.notes))

    def test_a_first_turn_may_take_far_more_than_the_next_ones(self):
        ran = self.ran(
            range(100),
            lambda watch, n: watch.train(1000 + n, ops=100 if n else 30_000),
            max_ops=45_000,
        )
        self.assertEqual(len(ran), 100)

    def test_what_was_there_before_a_loop_was_not_held_on_to_by_its_first_turn(self):
        watch = Watch()
        watch.ledger.live_bytes, watch.max_ops = 5 << 30, 25_000
        for _ in Turns(range(2), watch, Patience("train.py:1", watch)):
            watch.train(ops=30_000, grown=1 << 20)
        self.assertEqual(watch.jumps, 1)
        self.assertEqual(watch.more_bytes, 1 << 20)

    def test_a_short_loop_in_the_step_at_which_the_program_would_be_ended_is_run(self):
        ran = self.ran(range(100), lambda watch, n: watch.train(1000 + n), max_ops=5000)
        self.assertEqual(len(ran), 100)


class Sampling:
    """A text that is sampled by hand: a turn makes its cache longer, and gives back the one before it."""

    def __init__(self, max_ops=10**9):
        self.watch = Watch()
        self.watch.ledger = self.ledger = ledgers.Ledger()
        self.watch.max_ops = max_ops
        self.watch.moved = self.moved
        self._live = {}
        self.put("weights", 1 << 20)
        self.put("cache", 0)

    def put(self, name, size):
        """As a program that binds a name: what had it before ends after this was made."""
        before = self._live.get(name)
        ident = self.ledger.allocate(size, "op", "module", "x")
        self._live[name] = SimpleNamespace(ident=ident)
        if before:
            self.ledger.free(before.ident)

    def moved(self, to):
        Observer.moved(self, to)

    def turn(self, number, size=3000):
        self.put("scratch", 4096)
        self.put("cache", (number + 1) * size)
        self.ledger.free(self._live.pop("scratch").ident)
        self.put("word", 8)
        self.watch.ops += 100

    def ends(self):
        for one in self._live.values():
            self.ledger.free(one.ident)
        kinds = [(e[0], e[2] if e[0] == "a" else None) for e in self.ledger.events]
        return kinds, self.ledger.peak_bytes, self.ledger.live_bytes


class Bar:
    """Shows how far a loop is, as tqdm does."""

    def __init__(self, iterable):
        self.iterable = iterable

    def __iter__(self):
        return iter(self.iterable)


class CopiedTurns(unittest.TestCase):
    def sampled(self, turns, max_ops=10**9, before=None, turn=Sampling.turn, bar=True):
        """What the record holds after a loop, and how many turns were run."""
        self.sampling = sampling = Sampling(max_ops)
        watch, ran = sampling.watch, 0
        if bar:
            running = Running("train.py:1", watch, before)
            items = Items(Bar(range(turns)), running, BatchLoop(watch))
            self.patience = running.patience
        else:
            self.patience = Patience("train.py:1", watch, before)
            items = Turns(range(turns), watch, self.patience)
        for number in items:
            turn(sampling, number)
            ran += 1
        return sampling.ends(), ran

    def test_turns_that_grow_by_the_same_are_in_the_record_as_if_they_were_run(self):
        whole, ran = self.sampled(1000)
        self.assertEqual(ran, 1000)
        for bar in (True, False):
            short, ran = self.sampled(1000, 25_000, bar=bar)
            self.assertEqual(ran, 250)
            # Not assertEqual, which looks for minutes where two long records differ.
            self.assertTrue(short == whole)
            self.assertEqual(self.sampling.watch.more_bytes, 0)
            self.assertIn("next 750 were copied", "".join(self.sampling.watch.notes))

    def test_the_next_time_four_turns_tell(self):
        whole, _ = self.sampled(1000)
        self.sampled(1000, 25_000)
        before = SimpleNamespace(patience=self.patience)
        short, ran = self.sampled(1000, 25_000, before=before)
        self.assertEqual(ran, 4)
        self.assertTrue(short == whole)

    def test_turns_that_do_not_follow_from_the_last_ones_are_left_out(self):
        def squares(sampling, number):
            sampling.turn(number, size=3000 * number)

        def keeps(sampling, number):
            sampling.turn(number)
            sampling.put(f"kept {number}", 512)

        def trains(sampling, number):
            sampling.turn(number)
            sampling.watch.backwards += 1

        def other(sampling, number):
            sampling.turn(number)
            if number % 2:
                sampling.put("word", 8)

        for turn in (squares, keeps, trains, other):
            _, ran = self.sampled(1000, 25_000, turn=turn)
            self.assertEqual((turn, ran), (turn, 250))
            self.assertIn("were left out", "".join(self.sampling.watch.notes))
        # A loop without end would make a record without end.
        self.sampled(1_000_000, 25_000)
        self.assertIn("were left out", "".join(self.sampling.watch.notes))


class WhenItEnds(unittest.TestCase):
    def watch(self, ops, news, steps=4):
        observer = SimpleNamespace(ledger=Ledger(), ops=0, notes=set(), category="")
        observer.ledger.mark = lambda _: None
        watch = RealWatch(observer, None)
        observer.ops = news
        watch.news()
        observer.ops, watch.optimizer_steps = ops, steps
        return watch

    def test_a_turn_without_news_is_followed_by_one_that_would_end_the_program(self):
        self.assertTrue(self.watch(70_000, 32_000).would_end(2_000, True))
        self.assertFalse(self.watch(60_000, 32_000).would_end(2_000, True))
        # It may be before the first steps, or prepare something.
        self.assertFalse(self.watch(70_000, 32_000, steps=0).would_end(2_000, True))

    def test_a_turn_with_news_is_followed_by_another_while_there_is_room(self):
        self.assertFalse(self.watch(70_000, 52_000).would_end(30_000, True))
        self.assertTrue(self.watch(160_000, 159_000).would_end(30_000, True))

    def test_samples_drawn_between_the_first_steps_leave_half_for_these(self):
        self.assertFalse(self.watch(80_000, 0, steps=1).would_end(2_000, False))
        self.assertTrue(self.watch(89_000, 0, steps=1).would_end(2_000, False))
        self.assertFalse(self.watch(89_000, 0, steps=1).would_end(2_000, True))
        self.assertFalse(self.watch(89_000, 0, steps=0).would_end(2_000, False))

    def test_games_before_the_first_step_of_an_optimizer_take_as_much_again(self):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])
        watch = self.watch(250_000, 0, steps=0)
        self.assertTrue(watch.would_end(2_000, False))
        watch.observer.ledger.peak_bytes = 1
        watch.optimizer_made(optimizer)
        watch.ticked()
        self.assertFalse(watch.would_end(2_000, False))
        watch.optimizer_ends(optimizer)
        watch.observer.ops = 300_000
        watch.optimizer_steps = 4
        watch.news()
        self.assertFalse(watch.would_end(2_000, True))
        watch.observer.ops = 361_000
        self.assertRaises(Finished, watch.ticked)


class OtherLoops(unittest.TestCase):
    def turns(self, watch, given, before=None, ops=100):
        running = Running("train.py:1", watch, before)
        count = 0
        for _ in Items(given, running, BatchLoop(watch)):
            count += 1
            watch.ops += ops
        return count, running

    def test_they_end_where_the_program_would_be_ended_and_sooner_the_next_time(self):
        watch = Watch()
        self.assertEqual(self.turns(watch, [0] * 1000)[0], 1000)
        watch.max_ops = watch.ops + 30_000
        count, running = self.turns(watch, iter(int, 1))
        self.assertEqual(count, 300)
        watch.max_ops = watch.ops + 30_000
        self.assertEqual(self.turns(watch, iter(int, 1), running)[0], 3)
        self.assertEqual(watch.jumps, 2)

    def test_the_last_of_a_list_is_run(self):
        watch, ran = Watch(), []
        watch.max_ops = 25_000
        running = Running("train.py:1", watch, None)
        for item in Items([*range(1000)], running, BatchLoop(watch)):
            ran.append(item)
            watch.ops += 100
        self.assertEqual(ran, [*range(250), 999])

    def test_those_that_ask_nothing_of_the_gpu_are_run_as_they_are(self):
        watch = Watch()
        watch.max_ops = 0
        self.assertEqual(self.turns(watch, range(100_000), ops=0)[0], 100_000)

    def test_no_item_is_held_while_the_body_runs(self):
        class Item:
            pass

        watch = Watch()
        running = Running("train.py:1", watch, None)
        for item in Items((Item() for _ in range(3)), running, BatchLoop(watch)):
            gone = weakref.ref(item)
            del item
            self.assertIsNone(gone())


class WhichCounts(unittest.TestCase):
    def ran(self, ends, turn, conditions=(), limit=1000, max_ops=10**9):
        """The numbers that `while True: ...; number += 1; if number >= ends: break` comes to."""
        watch, numbers_run = Watch(), []
        watch.max_ops = max_ops
        counter = Counter(0, watch, Patience("train.py:1", watch))
        numbers_run.append(0)
        while len(numbers_run) < limit:
            number = counter.number
            numbers_run.append(number)
            for goal, modulo in conditions:
                counter.looked(number, goal, modulo)
            turn(watch, number)
            number = counter.counted()
            if ends is not None:
                counter.looked(number, ends, 0)
                if number >= ends:
                    break
        self.watch = watch
        return numbers_run

    def test_up_to_where_it_ends_by_way_of_what_it_does_seldom(self):
        ran = self.ran(10_000, lambda watch, _: watch.train(), [(0, 700), (4321, 0)])
        self.assertTrue({0, 1, 2, 3, 4, 5, 700, 4320, 4321, 4322, 9999} <= set(ran), ran)
        self.assertLess(len(ran), 25)
        self.assertGreater(self.watch.jumps, 4)

    def test_turns_in_between_are_beside_what_it_does_seldom(self):
        ran = self.ran(5000, lambda watch, _: watch.train(), [(0, 250)])
        self.assertEqual([number for number in ran if number % 250 == 0], [0, 250])
        self.assertTrue({1001, 2001, 3001, 4001} <= set(ran), ran)

    def test_what_would_come_after_the_end_is_not_run(self):
        ran = self.ran(1000, lambda watch, _: watch.train(), [(0, 5000)])
        self.assertEqual(ran[-1], 999)

    def test_without_an_end_what_it_does_seldom_is_met_twice_and_then_all_are_run(self):
        ran = self.ran(None, lambda watch, _: watch.train(), [(0, 500)])
        self.assertEqual([number for number in ran if number % 500 == 0][:3], [0, 500, 1000])
        self.assertEqual(ran[-1] - ran[-100], 99)

    def test_turns_that_differ_that_grow_that_do_not_train_or_are_few_are_all_run(self):
        turns = {
            "differ": lambda watch, number: watch.train(1000 + number),
            "grow": lambda watch, _: watch.train(grown=1 << 20),
            "do not train": lambda watch, _: None,
        }
        for name, turn in turns.items():
            with self.subTest(name):
                self.assertEqual(self.ran(300, turn, [(0, 100)]), list(range(300)))
        self.assertEqual(len(self.ran(50, lambda watch, _: watch.train())), 50)

    def test_turns_that_differ_are_left_out_where_the_program_would_be_ended(self):
        ran = self.ran(10_000, lambda watch, n: watch.train(1000 + n), [(0, 700)], max_ops=25_000)
        self.assertEqual(ran[-1], 9999)
        self.assertIn(700, ran)
        self.assertLess(len(ran), 260)


class OwnFiles(unittest.TestCase):
    def test_packages_in_a_folder_of_any_name_are_not_the_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("carried/tools-1.0.dist-info", "carried/tools", "program/parts"):
                os.makedirs(os.path.join(folder, name))
            path = [os.path.join(folder, name) for name in ("program", "carried")]
            with mock.patch.object(sys, "path", ["", *path]):
                own = [
                    is_the_programs(os.path.join(folder, name))
                    for name in ("program/train.py", "program/parts/a.py", "carried/tools/a.py")
                ]
        self.assertEqual(own, [True, True, False])


class WhichOfAModel(unittest.TestCase):
    def wraps(self, function):
        text = "class Model(nn.Module):\n    " + function + "\n        for _ in range(9): pass"
        return syntax.TURNS in ast.unparse(syntax.Loops("train.py").visit(ast.parse(text)))

    def test_loops_that_generate_and_none_of_its_passes(self):
        self.assertTrue(self.wraps("def generate(self):"))
        self.assertTrue(self.wraps("def p_sample_loop(self):"))
        self.assertTrue(self.wraps("@torch.no_grad()\n    def write(self):"))
        self.assertFalse(self.wraps("def forward(self):"))
        self.assertFalse(self.wraps("def attend(self):"))
        self.assertFalse(self.wraps("def downsample(self):"))
        self.assertFalse(self.wraps("@torch.compile\n    def generate(self):"))


class Loops(unittest.TestCase):
    def trace(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        with open(os.path.join(folder.name, "train.py"), "w", encoding="utf-8") as file:
            file.write(text)
        output = os.path.join(folder.name, "trace.jsonl")
        command = [sys.executable, "-W", "ignore", "-m", "plimsoll_trace", "--output", output]
        done = warm.run(
            [*command, "--program", "train.py"],
            cwd=folder.name,
            env={**os.environ, "PYTHONPATH": PACKAGE, "PLIMSOLL_DEBUG": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(output, encoding="utf-8") as file:
            _, *events, self.footer = map(json.loads, file)
        sizes = {event[2] >> 20 for event in events if event[0] == "a"}
        printed = [line for line in done.stderr.splitlines() if line.startswith("RAN ")]
        return ast.literal_eval(printed[0][4:]) if printed else None, sizes

    def test_what_a_long_loop_does_seldom_and_what_follows_it_are_counted(self):
        for begin in ("range(100_000)", "zip(range(100_000), iter(int, 1))"):
            text = TRAINING.replace("BEGIN", begin).replace("END", "")
            if "zip" in begin:
                text = text.replace("for step in", "for step, _ in")
            ran, sizes = self.trace(text)
            self.assertLess(len(ran), 60)
            self.assertEqual(ran[-1], 99_999)
            self.assertTrue({499, 1234} <= set(ran), ran)
            self.assertTrue({64, 128, 256} <= sizes, sizes)

    def test_a_while_with_a_number_of_its_own_comes_to_its_end(self):
        ends = {
            "while True:": ("step", "if step > 99_999: break"),
            "while step < 1e5:": ("step", ""),
            "while state.step < last:": ("state.step", ""),
            "while True:\n  for _ in [0, 0, 0]:": (
                "step",
                "if step >= last: break\n  if step >= last: break",
            ),
        }
        for begin, (name, end) in ends.items():
            with self.subTest(begin):
                lines = TRAINING.partition("for step in BEGIN:\n")
                body = lines[2].partition("END")[0].replace("step", name)
                before = lines[0] + "class state: step = 0\nstep, last, turns = 0, 100_000, 0\n"
                after = (
                    f"    {name} += 1\n    turns += 1\n    {end}\n" + lines[2].partition("END")[2]
                )
                ran, sizes = self.trace(before + begin + "\n" + body + after)
                self.assertLess(len(ran), 60)
                self.assertEqual(ran[-1], 99_999)
                self.assertTrue({499, 1234} <= set(ran), ran)
                self.assertTrue({64, 128, 256} <= sizes, sizes)

    def test_what_follows_a_long_loop_whose_turns_differ_is_counted(self):
        loops = {
            "numbers": UNLIKE,
            "a list": UNLIKE.replace("in range(100_000)", "in list(range(100_000))"),
            "a condition": UNLIKE.replace(
                "for step in range(100_000):",
                "import itertools\ncount = itertools.count()\nwhile (step := next(count)) >= 0:",
            ),
        }
        for name, text in loops.items():
            with self.subTest(name):
                ran, sizes = self.trace(text)
                self.assertLess(len(ran), 1000)
                self.assertEqual(ran[-1] == 99_999, name != "a condition")
                self.assertEqual(128 in sizes, name == "numbers")
                self.assertIn(256, sizes)
                self.assertFalse(self.footer["ended"])
                before = text.partition("while (" if name == "a condition" else "for step in")[0]
                place = f"train.py:{before.count(chr(10)) + 1}"
                self.assertIn(place, " ".join(self.footer["notes"]))

    def test_a_loop_that_only_the_clock_ends_is_followed_by_the_rest(self):
        before, _, after = TRAINING.partition("for step in BEGIN:\n")
        ends = {
            "while time.time() < end:": "",
            "while True:": "    if time.time() > end: break\n",
        }
        for begin, end in ends.items():
            with self.subTest(begin):
                ran, sizes = self.trace(
                    f"{before}import time\nend = time.time() + 7200\n{begin}\n    train(0, kept)\n{end}"
                    + after.partition("END")[2]
                )
                self.assertLess(len(ran), 1000)
                self.assertIn(256, sizes)
                self.assertIn("were left out", " ".join(self.footer["notes"]))

    def test_a_model_that_generates_by_itself_is_followed_by_the_rest(self):
        _, sizes = self.trace(GENERATES)
        self.assertFalse(self.footer["ended"])
        self.assertIn("train.py:12", " ".join(self.footer["notes"]))
        # All of the steps after it, and what comes last.
        self.assertTrue({64, 256} <= sizes, sizes)

    def test_a_generator_goes_on_as_long_as_it_is_asked(self):
        numbers = (
            "\ndef numbers():\n    while True:\n        yield from range(50)\ngiven = numbers()\n"
        )
        text = UNLIKE.replace(
            "for step in range(100_000):", "for turn in range(100_000):\n    step = next(given)"
        )
        text = text.replace("ran, kept = [], []", "ran, kept = [], []" + numbers)
        ran, sizes = self.trace(text)
        self.assertGreater(len(ran), 100)
        self.assertIn(256, sizes)
        turns, shapes = self.footer["notes"]
        self.assertIn("were left out", turns)
        self.assertIn("batches differ in shape", shapes)

    def test_a_program_that_is_ended_says_so(self):
        ran, sizes = self.trace(
            UNLIKE.replace(
                "for step in range(100_000):",
                "for _ in [0]: [train(step, kept) for step in range(100_000)]\nfor step in []:",
            )
        )
        self.assertIsNone(ran)
        self.assertNotIn(256, sizes)
        self.assertTrue(self.footer["ended"])
        self.assertIn("was ended", " ".join(self.footer["notes"]))

    def test_a_program_that_counts_on_all_turns_ends_with_what_was_seen(self):
        ran, sizes = self.trace(
            TRAINING.replace("BEGIN", "range(100_000)").replace("END", "print(ran[50_000])")
        )
        self.assertIsNone(ran)
        self.assertIn(128, sizes)
        self.assertNotIn(256, sizes)
        self.assertIn("IndexError", " ".join(self.footer["notes"]))


if __name__ == "__main__":
    unittest.main()
