"""Loops over the batches of a loader: what a program does seldom comes before the loader ends."""

import ast
import unittest
import weakref
from types import SimpleNamespace

from tracing.kinds.traced_program import rows_of

from plimsoll.tracing.programs.loops import syntax
from plimsoll.tracing.programs.loops.batch_loops import BatchLoop, Numbered

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


if __name__ == "__main__":
    unittest.main()
