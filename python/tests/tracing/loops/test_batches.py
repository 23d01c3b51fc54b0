"""Loops over the batches of a loader: what a program does seldom comes before the loader ends."""

import ast
import os
import unittest
import weakref
from types import SimpleNamespace

import torch

from tracing.watching import rows_of

from plimsoll_trace.programs.loops import syntax
from plimsoll_trace.programs.loops.batch_loops import BatchLoop, Numbered
from plimsoll_trace.programs.loops.loaders import Growing, Repeated, growth_of
from plimsoll_trace.programs.loops.reading_ahead import NotPassedOn, pack, unpack

PROGRAM = """
import torch
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.zeros(1003, 16))
train, test = DataLoader(data, batch_size=4), DataLoader(data, batch_size=1000)
model = torch.nn.Linear(16, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def evaluate():
    with torch.no_grad():
        for (batch,) in test:
            model(batch.cuda())


class state:
    step = 0


step, seen = 0, []
for epoch in range(2):
    {begin}
        model(batch.cuda()).sum().backward()
        {count}
        if {condition}:
            evaluate()
            seen.append(({number}, len(batch)))
    seen.append(len(batch))
assert seen == {seen}, seen
"""


class WhatALoopDoesSeldom(unittest.TestCase):
    def check(self, begin, count, condition, number, seen):
        text = PROGRAM.format(
            begin=begin, count=count, condition=condition, number=number, seen=seen
        )
        rows = rows_of(self, text)
        names = {row[1]: row[2] for row in rows[1:-1] if row[0] == "s"}
        sizes = [row[2] for row in rows[1:-1] if row[0] == "a"]
        self.assertIn("aten.addmm.default", names.values())
        self.assertIn(1000 * 64 * 4, sizes)
        self.assertEqual(rows[-1]["notes"], [])

    def test_a_number_of_its_own_is_as_in_a_real_run(self):
        stepped = "optimizer.step(); step += 1"
        # 251 batches, the last of them with three samples.
        seen = [(100, 4), (200, 4), 3, 3]
        self.check("for (batch,) in train:", stepped, "step % 100 == 0", "step", seen)
        stepped = stepped.replace("step +=", "state.step +=")
        self.check("for (batch,) in train:", stepped, "not state.step % 100", "state.step", seen)

    def test_the_number_of_a_batch_is_as_in_a_real_run(self):
        begin = "for i, (batch,) in enumerate(train):"
        seen = [(99, 4), (199, 4), 3, 3]
        self.check(begin, "optimizer.step()", "(i + 1) % 100 == 0", "i", seen)
        seen = [(250, 3), 3] * 2
        self.check(begin, "optimizer.step()", "i == len(train) - 1", "i", seen)

    def test_what_comes_after_so_many_steps_of_several_batches_each(self):
        begin = "for i, (batch,) in enumerate(train, 1):"
        count = """if i % 4 == 0:
            optimizer.step(); step += 1"""
        condition = "i % 4 == 0 and step % 50 == 0"
        # Whatever the numbers are: the evaluation is reached.
        self.check(begin, count, condition, "step", "seen")


class TurnsOfALoop(unittest.TestCase):
    def setUp(self):
        self.ends = False
        self.watch = SimpleNamespace(
            observer=SimpleNamespace(ops=0),
            batch_loop=None,
            would_end=lambda _taken: self.ends,
            leaves_out=lambda: None,
        )
        self.loop = BatchLoop(self.watch)

    def ran(self, batches, look, first=4):
        """The numbers of a loop over batches of which only the first would be run."""
        number, done, given = self.loop.number("i"), [], 0
        items = iter(int, 1)
        turns = Numbered(items, 0, "i", self.loop)
        while given < batches:
            with self.loop.asking():
                if len(done) >= first:
                    skipped = self.loop.leads(batches - given)
                    if skipped is None:
                        break
                    given += skipped
                value, _ = next(turns)
            given += 1
            self.assertEqual(value, given - 1)
            done.append(value)
            look(number, value)
        return done

    def test_an_item_is_held_until_the_next_is_there_as_by_python(self):
        class Batch:
            pass

        def held_when_made(numbered):
            made, found = [], []

            def batches():
                for _ in range(4):
                    found.append(sum(one() is not None for one in made))
                    batch = Batch()
                    made.append(weakref.ref(batch))
                    yield (batch,)
                    del batch

            for _, (batch,) in numbered(batches()):
                del batch
            return [*found, sum(one() is not None for one in made)]

        expected = held_when_made(enumerate)
        self.assertEqual(expected, [0, 1, 1, 1, 0])
        found = held_when_made(lambda given: Numbered(given, 0, "i", self.loop))
        self.assertEqual(found, expected)

    def test_a_modulus_is_met_twice(self):
        done = self.ran(1000, lambda number, i: number.looked(i + 1, 0, 100))
        self.assertEqual(done, [0, 1, 2, 3, 99, 199])

    def test_a_goal_is_met_with_the_turns_beside_it(self):
        done = self.ran(1000, lambda number, i: number.looked(i, 500, 0))
        self.assertEqual(done, [0, 1, 2, 3, 499, 500, 501])

    def test_nothing_is_run_where_nothing_is_looked_at_or_the_program_would_be_ended(self):
        self.assertEqual(self.ran(1000, lambda *_: None), [0, 1, 2, 3])
        self.ends = True
        done = self.ran(1000, lambda number, i: number.looked(i + 1, 0, 100))
        self.assertEqual(done, [0, 1, 2, 3])

    def test_two_loaders_of_one_loop_are_led_once(self):
        number = self.loop.number("i")
        for value in range(3):
            with self.loop.asking():
                self.assertEqual(self.loop.begins_turn("i", value), value)
            number.looked(value, 0, 10)
        with self.loop.asking():
            self.assertEqual(self.loop.leads(100), 7)
            self.assertEqual(self.loop.leads(100), 0)


class WhichFunctions(unittest.TestCase):
    def is_wrapped(self, decorator):
        text = f"{decorator}\ndef main():\n    for batch in loader:\n        pass\n"
        return syntax.ITEMS in ast.unparse(syntax.Loops("train.py").visit(ast.parse(text)))

    def test_decorated_ones_unless_they_are_compiled(self):
        self.assertTrue(self.is_wrapped("@hydra.main(config_path='conf')"))
        self.assertTrue(self.is_wrapped("@torch.no_grad()"))
        self.assertFalse(self.is_wrapped("@torch.compile(dynamic=True)"))
        self.assertFalse(self.is_wrapped("@triton.jit"))


# Batches that a program asks for with `next`: a loader that ended early would end the program.

BATCHES_BY_HAND_PROGRAM = """
import torch
from torch.utils.data import DataLoader, IterableDataset


class Endless(IterableDataset):
    def __iter__(self):
        while True:
            yield torch.zeros(16)


class Held(torch.utils.data.Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        return torch.zeros(16)


loader = DataLoader({data}, batch_size=4)
model = torch.nn.Linear(16, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
given, ends = iter(loader), 0
for epoch in range(2):
    for step in range(40):
        {ask}
        model(batch.cuda()).sum().backward()
        optimizer.step()
    with torch.no_grad():
        model(torch.zeros(1000, 16, device="cuda"))
assert {holds}, ends
"""

STARTS_AGAIN = """try:
            batch = next(given)
        except StopIteration:
            given, ends = iter(loader), ends + 1
            batch = next(given)"""


class AskedForWithNext(unittest.TestCase):
    def check(self, data, ask, holds):
        rows = rows_of(self, BATCHES_BY_HAND_PROGRAM.format(data=data, ask=ask, holds=holds))
        sizes = [row[2] for row in rows[1:-1] if row[0] == "a"]
        self.assertIn(1000 * 64 * 4, sizes)
        self.assertEqual(rows[-1]["notes"], [])

    def test_a_stream_goes_on_as_long_as_it_is_asked(self):
        self.check("Endless()", "batch = next(given)", "ends == 0")

    def test_so_do_batches_that_the_program_counted(self):
        self.check("Held()", "batch = next(given)", "ends == 0")

    def test_a_program_that_knows_of_the_end_is_led_to_it(self):
        self.check("Held()", STARTS_AGAIN, "ends > 0")


# The trace says how many batches, or turns of a loop, a real run has where it leaves them out.

LEFT_OUT_BATCHES_PROGRAM = """
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = [torch.zeros({length}, 8) for i in range({samples})]
step = 0
for batch in DataLoader(rows, batch_size=4, collate_fn=torch.cat):
    model(batch.cuda()).sum().backward()
    step += 1
    if step % {each} == 0:
        optimizer.step()
        optimizer.zero_grad()
    {then}
print("steps", step)
"""

TURNS = """
import torch

model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(30):
    torch.zeros(2, device="cuda")
for step in range(3000):
    optimizer.zero_grad()
    model(torch.rand(4, 8, device="cuda")).sum().backward()
    optimizer.step()
    if step == 1000:
        model(torch.rand(64, 8, device="cuda"))
"""


class LeftOut(unittest.TestCase):
    def marks(self, samples=400, length="8", then="pass", each=1):
        text = LEFT_OUT_BATCHES_PROGRAM.format(length=length, samples=samples, then=then, each=each)
        rows = rows_of(self, text)
        return [row[1] for row in rows[1:-1] if row[0] == "m" and not row[1].startswith("phase:")]

    def in_all(self, marks):
        """Batches that the trace ran and left out; the last mark of a pass comes before its end."""
        left = sum(int(mark.split(":")[2]) for mark in marks if mark.startswith("left-out:0:"))
        return marks.count("batch:0") - 1 + left

    def test_those_that_were_run_and_left_out_are_all(self):
        # With a short one at the end, and without.
        for samples, batches in ((400, 100), (402, 101)):
            marks = self.marks(samples)
            self.assertEqual(self.in_all(marks), batches, marks)
            self.assertIn("left-out:0:94:1", marks)

    def test_a_step_may_be_of_several(self):
        marks = self.marks(each=3)
        self.assertEqual({mark.split(":")[3] for mark in marks if "left-out:" in mark}, {"3"})

    def test_those_before_a_step_at_which_more_is_done_are_told_apart(self):
        marks = self.marks(then="if step == 50: model(batch.cuda())")
        left = [int(mark.split(":")[2]) for mark in marks if mark.startswith("left-out:")]
        self.assertEqual(len(left), 2)
        self.assertEqual(self.in_all(marks), 100, marks)

    def test_turns_of_a_loop_that_trains_are_told_as_well(self):
        rows = rows_of(self, TURNS)
        marks = [row[1] for row in rows[1:-1] if row[0] == "m" and "phase:" not in row[1]]
        left = [mark for mark in marks if mark.startswith("left-out:")]
        self.assertEqual(len({mark.split(":")[1] for mark in marks}), 1, marks)
        self.assertGreaterEqual(len(left), 2)
        # The first turn is not marked: whether the loop trains is not known before.
        turns = len(marks) - len(left) + 1
        self.assertEqual(turns + sum(int(mark.split(":")[2]) for mark in left), 3000)

    def test_nothing_is_said_where_all_are_run_or_they_differ(self):
        for marks in (self.marks(samples=16), self.marks(length="8 + i")):
            self.assertEqual([mark for mark in marks if mark.startswith("left-out:")], [])


class Batches(unittest.TestCase):
    def passed(self, value):
        words, file = pack(value)
        try:
            return unpack(words, file)
        finally:
            os.close(file)

    def test_tensors_keep_values_types_shapes_and_strides(self):
        large = torch.rand(3, 400, 600)
        given = [
            large,
            large.permute(1, 2, 0),
            torch.arange(5),
            torch.tensor(2.5),
            torch.tensor([True, False]),
            torch.rand(4).bfloat16(),
            torch.rand(3, 1).expand(3, 7),
            torch.empty(0, 4),
        ]
        for one, other in zip(given, self.passed(given)):
            self.assertTrue(torch.equal(one, other))
            self.assertEqual(
                (one.dtype, one.shape, one.stride()), (other.dtype, other.shape, other.stride())
            )
            self.assertIsNone(other._base)

    def test_what_is_one_tensor_stays_one(self):
        one = torch.zeros(2)
        first, second = self.passed({"a": one, "b": [one]}).values()
        self.assertIs(first, second[0])

    def test_what_is_given_can_be_written_to(self):
        given = self.passed(torch.zeros(1 << 19))
        given += 1
        self.assertEqual(given.sum().item(), 1 << 19)

    def test_what_may_not_be_the_same_elsewhere_is_refused(self):
        for one in (
            torch.zeros(2, device="meta"),
            torch.zeros(2, requires_grad=True),
            torch.nn.Parameter(torch.zeros(2)),
            torch.zeros(2).untyped_storage(),
            torch.nn.Linear(1, 1),
            torch.zeros(1000, 1000)[:, 0],
        ):
            self.assertRaises(NotPassedOn, pack, [one])


# Batches that are all alike, and such that are not: which are read, and what the trace says of them.

REPEATED_BATCHES_PROGRAM = """
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

{seed}
model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = [torch.zeros({length}, 4) for i in range({rows})]
for batch in DataLoader(rows, batch_size=2, shuffle={shuffle}, collate_fn=pad_sequence):
    model(batch.cuda()).sum().backward()
    optimizer.step()
"""


OF_A_CLASS = """
import torch
from torch.utils.data import DataLoader

class Batch:
    def __init__(self, rows):
        self.rows, self.count = torch.cat(rows), len(rows)
        self.itself = self

torch.manual_seed(3)
model = torch.nn.Linear(4, 4).cuda()
rows = [torch.zeros(8 + i, 4) for i in range(40)]
for batch in DataLoader(rows, batch_size=2, shuffle=True, collate_fn=Batch):
    model(batch.rows.cuda()).sum().backward()
"""


class BatchesOfAProgram(unittest.TestCase):
    def is_ragged(self, length, seed="", shuffle=True, rows=15):
        text = REPEATED_BATCHES_PROGRAM.format(length=length, seed=seed, shuffle=shuffle, rows=rows)
        self.rows = rows_of(self, text)
        return self.rows[-1]["ragged"]

    def marked(self):
        marks = (row[1] for row in self.rows[1:-1] if row[0] == "m")
        return [mark for mark in marks if mark.startswith("batch:")]

    def test_a_short_last_batch_is_usual_and_other_lengths_are_not(self):
        self.assertFalse(self.is_ragged("8"))
        self.assertTrue(self.is_ragged("8 + i"))
        # Each run draws another order.
        self.assertTrue(self.rows[-1]["drawn"])
        # Where they may change places.
        self.assertGreater(len(self.marked()), 3)
        self.assertEqual(len(set(self.marked())), 1)
        # Where their order is that of a real run, nothing is guessed.
        self.assertFalse(self.is_ragged("8 + i", shuffle=False))
        self.assertFalse(self.is_ragged("8 + i", seed="torch.manual_seed(3)"))
        self.assertTrue(self.is_ragged("8 + i", seed="torch.manual_seed(3); torch.seed()"))

    def test_two_lengths_of_as_many_samples_differ_where_not_all_are_run(self):
        # Which would take too long.
        self.assertTrue(self.is_ragged("8 if i < 4 else 16", shuffle=False, rows=60000))
        self.assertFalse(self.rows[-1]["drawn"])

    def test_traces_of_a_program_without_a_seed_draw_the_same_order(self):
        self.is_ragged("8 + i")
        first = [row[2] for row in self.rows[1:-1] if row[0] == "a"]
        self.is_ragged("8 + i")
        self.assertEqual(first, [row[2] for row in self.rows[1:-1] if row[0] == "a"])

    def test_batches_of_a_class_of_the_program_s_own_are_told_apart(self):
        self.rows = rows_of(self, OF_A_CLASS)
        # All 20 are run, and one more was asked for in vain.
        self.assertEqual(len(self.marked()), 21)


class RepeatedBatches(unittest.TestCase):
    def setUp(self):
        self.asked = []

    def fetch(self, index):
        self.asked.append(index)
        return {"images": torch.zeros(len(index), 2), "labels": torch.tensor(index)}

    def test_after_two_that_are_alike_the_last_is_given_again_as_a_copy(self):
        repeated = Repeated(seconds=0)
        for index in ([1, 2], [3, 4], [5, 6], [7, 8]):
            batch = repeated.fetch("train", index, self.fetch)
            batch["images"] += 1
        self.assertEqual(self.asked, [[1, 2], [3, 4], [3]])
        self.assertEqual(batch["labels"].tolist(), [3, 4])
        self.assertEqual(batch["images"].tolist(), [[1, 1], [1, 1]])
        # The last of an epoch is shorter, and another data set is another.
        self.assertEqual(len(repeated.fetch("train", [9], self.fetch)["labels"]), 1)
        self.assertEqual(repeated.fetch("other", [7, 8], self.fetch)["labels"].tolist(), [7, 8])

    def test_a_data_set_that_is_made_anew_is_read_for_one_sample(self):
        repeated, kind = Repeated(seconds=0), ("images", 600)
        for index in ([1, 2], [3, 4]):
            repeated.fetch("first epoch", index, self.fetch, kind)
        self.asked.clear()
        for index in ([5, 6], [7, 8]):
            again = repeated.fetch("second epoch", index, self.fetch, kind)
            self.assertEqual(again["labels"].tolist(), [3, 4])
        self.assertEqual(self.asked, [[5]])
        # Larger images, and another number of samples, are read.
        large = repeated.fetch("large", [5, 6], lambda index: torch.zeros(len(index), 9), kind)
        self.assertEqual(large.shape, (2, 9))
        self.assertEqual(len(repeated.fetch("rest", [9], self.fetch, kind)["labels"]), 1)

    def test_batches_of_different_shapes_and_quick_ones_are_all_read(self):
        ragged = Repeated(seconds=0)
        lengths = iter((2, 3, 3, 3))
        read = [
            ragged.fetch("train", [0, 1], lambda index: torch.zeros(len(index), next(lengths)))
            for _ in range(4)
        ]
        self.assertEqual([batch.shape[1] for batch in read], [2, 3, 3, 3])
        quick = Repeated(seconds=3600)
        for _ in range(4):
            quick.fetch("train", [0, 1], self.fetch)
        self.assertEqual(len(self.asked), 4)


# Calls of `generate()` on prompts of the same shape: two that ask for the same are run, the next are written down.

REPEATED_TEXTS_PROGRAM = """
import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=320, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4
)
model = LlamaForCausalLM(config).cuda().eval()
runs = []
model.model.layers[0].register_forward_pre_hook(lambda *_: runs.append(1))
prompts = torch.arange(3, 35).view(4, 8)
texts = []

def generate(**settings):
    before = len(runs)
    texts.append(model.generate(prompts.cuda(), pad_token_id=0, eos_token_id=2, **settings))
    return len(runs) - before

ran = [generate(max_new_tokens=12, num_beams=2) for _ in range(6)]
assert ran[0] > 0 and ran[1] > 0 and ran[-2:] == [0, 0], ran
# Other settings are another kind of call, those of the model as well.
assert generate(max_new_tokens=16, num_beams=2) > 0
assert generate(generation_config=GenerationConfig(max_new_tokens=12, num_beams=3)) > 0
model.generation_config.repetition_penalty = 1.5
assert generate(max_new_tokens=12, num_beams=2) > 0
model.generation_config.repetition_penalty = None
assert generate(max_new_tokens=12, num_beams=2) == 0
# Trainers write the defaults down.
defaults = GenerationConfig._get_default_generation_params()
model.generation_config.update(**{**defaults, "max_length": None})
assert generate(max_new_tokens=12, num_beams=2) == 0
model.half()
assert generate(max_new_tokens=12, num_beams=2) > 0

first, last = texts[0], texts[5]
assert last.shape == first.shape == (4, 20) and last.dtype == first.dtype and last.is_cuda
assert last[:, :8].tolist() == prompts.tolist()
assert all(2 < word < 320 for word in last[0].tolist())
last[0, 0] = 7
assert texts[4][0, 0].item() == prompts[0, 0].item()
"""


class RepeatedTexts(unittest.TestCase):
    def test_the_next_calls_ask_for_the_same_without_being_run(self):
        asked = 0
        calls = []
        for row in rows_of(self, REPEATED_TEXTS_PROGRAM)[1:-1]:
            if row[0] == "a":
                asked += 1
            elif row[0] == "m":
                calls.append((row[1], asked))
                asked = 0
        generating = [
            count for (phase, _), (_, count) in zip(calls, calls[1:]) if phase == "phase:generating"
        ]
        # The first brings what is made once; those that are written are the same as those that are run.
        self.assertEqual(len(set(generating[1:6])), 1, generating)


# Outputs that a program collects over an epoch: none of them is left out, or the interval says so.

GROWING_BATCHES_PROGRAM = """
import torch
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.zeros({batches} * 8, 16)), batch_size=8)
model = torch.nn.Linear(16, 4096).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    kept = []
    for (batch,) in loader:
        out = model(batch.cuda())
        out.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        kept.append(out.{keep})
    together = torch.cat(kept) if kept[0].dim() else sum(kept)
"""


class CollectedOutputs(unittest.TestCase):
    def sizes_of(self, op, **settings):
        rows = rows_of(self, GROWING_BATCHES_PROGRAM.format(**settings))
        self.footer = rows[-1]
        names = {row[1]: row[2] for row in rows[1:-1] if row[0] == "s"}
        return [row[2] for row in rows[1:-1] if row[0] == "a" and names[row[3]] == op]

    def test_all_of_an_epoch_are_joined(self):
        joined = self.sizes_of("aten.cat.default", batches=90, keep="detach()")
        self.assertEqual(joined, [90 * 8 * 4096 * 4] * 3)
        self.assertEqual(self.footer["maybeMoreBytes"], 0)

    def test_numbers_for_a_report_do_not_make_an_epoch_longer(self):
        forward = self.sizes_of("aten.addmm.default", batches=90, keep="detach().mean()")
        self.assertLess(len(forward), 90)


class GrowthOfALoader(unittest.TestCase):
    def setUp(self):
        self.watch = SimpleNamespace(more_bytes=0, observer=SimpleNamespace(notes=set()))
        self.growing = Growing(self.watch)

    def test_what_the_last_two_batches_both_left(self):
        self.assertEqual(growth_of([0, 9]), 0)
        self.assertEqual(growth_of([0, 9, 9]), 0)
        self.assertEqual(growth_of([0, 9, 12, 14]), 2)
        self.assertEqual(growth_of([0, 9, 12, 11]), 0)

    def test_a_trainer_that_ends_its_epochs_early_leaves_out_what_would_be_held(self):
        self.growing.left_out("data", [0, 2 << 20, 3 << 20], 100)
        self.growing.left_out("data", [0, 2 << 20, 3 << 20], 100)
        self.assertEqual(self.watch.more_bytes, 2 * 100 << 20)

    def test_an_epoch_of_many_ops_makes_the_interval_higher_once(self):
        held = [0, 2 << 20, 3 << 20]
        self.assertFalse(self.growing.runs_rest("data", held, 100, 1_000_000))
        self.assertEqual(self.watch.more_bytes, 2 * 100 << 20)
        self.assertEqual(len(self.watch.observer.notes), 1)
        self.assertFalse(self.growing.runs_rest("data", held, 100, 1_000_000))
        self.assertEqual(self.watch.more_bytes, 2 * 100 << 20)

    def test_a_later_epoch_is_run_to_its_end_from_its_first_batch(self):
        self.assertTrue(self.growing.runs_rest("data", [0, 2 << 20, 3 << 20], 100, 1_000))
        self.assertTrue(self.growing.runs_rest("data", [0], 100, 1_000))
        self.assertFalse(self.growing.runs_rest("other data", [0], 100, 1_000))
        self.assertFalse(self.growing.runs_rest("data", [0], 0, 1_000))


if __name__ == "__main__":
    unittest.main()
