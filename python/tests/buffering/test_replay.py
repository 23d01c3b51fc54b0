"""`plimsoll.replay()`: what is sampled is what was added, to the bit; priorities are followed."""

import random
import tempfile
import unittest

import numpy

import plimsoll
from plimsoll.replaying.replay import SumTree


def episodes(steps, environments, seed, end=0.1):
    """Transitions with their number in the first place of the observation, and episodes that end."""
    draw = numpy.random.default_rng(seed)
    now = draw.normal(size=(environments, 3)).astype(numpy.float32)
    made = []
    for _ in range(steps):
        later = draw.normal(size=(environments, 3)).astype(numpy.float32)
        terminated = draw.random(environments) < end
        truncated = ~terminated & (draw.random(environments) < end)
        action = draw.integers(0, 9, environments)
        made.append((now, action, draw.normal(size=environments), later, terminated, truncated))
        begin = draw.normal(size=(environments, 3)).astype(numpy.float32)
        now = numpy.where((terminated | truncated)[:, None], begin, later)
    return made


FIELDS = ("observation", "action", "reward", "next_observation", "terminated", "truncated")


def key_of(transition):
    return b"".join(numpy.ascontiguousarray(one).tobytes() for one in transition)


def sampled(memory, batch=4000):
    found = memory.sample(batch)
    return {key_of([found[name][at] for name in FIELDS]) for at in range(batch)}


class Replay(unittest.TestCase):
    def test_samples_are_the_newest_transitions_to_the_bit(self):
        draw = random.Random(2)
        for environments in (1, 3):
            memory = plimsoll.replay(30 * environments, environments=environments, seed=1)
            held = []
            for step in episodes(100, environments, seed=environments):
                if environments == 1 and draw.random() < 0.5:
                    memory.add(*(one[0] for one in step))
                else:
                    memory.extend(*step)
                held = [*held, *([one[at] for one in step] for at in range(environments))]
                held = held[-30 * environments :]
                self.assertEqual(len(memory), len(held))
                self.assertLessEqual(sampled(memory, 200), {key_of(one) for one in held})
            self.assertEqual(sampled(memory), {key_of(one) for one in held})

    def test_many_at_once_are_the_same_as_one_by_one(self):
        steps = episodes(500, 2, seed=9)
        one, many = (plimsoll.replay(60, environments=2, seed=1) for _ in range(2))
        for step in steps:
            one.extend(*step)
        many.extend(*(numpy.concatenate([step[at] for step in steps]) for at in range(6)))
        self.assertEqual(sampled(one), sampled(many))

    def test_odd_numbers_come_back_as_they_were(self):
        memory = plimsoll.replay(10, seed=1)
        values = [0.0, -0.0, float("nan"), float("inf"), -0.0]
        for now, later in zip(values, values[1:]):
            memory.add(numpy.array([now]), 0, 1.0, numpy.array([-later]), False)
        wanted = {numpy.float64(-later).tobytes() for later in values[1:]}
        found = memory.sample(200)["next_observation"]
        self.assertEqual({one.tobytes() for one in found[:, 0]}, wanted)

    def test_it_holds_two_fifths_less_than_plain_arrays(self):
        rows = 10_000
        draw = numpy.random.default_rng(1)
        states = draw.normal(size=(rows + 1, 17)).astype(numpy.float32)
        actions = draw.normal(size=(rows, 6)).astype(numpy.float32)
        rewards, ends = numpy.zeros(rows, dtype=numpy.float32), numpy.zeros(rows, dtype=bool)
        memory = plimsoll.replay(rows)
        memory.extend(states[:-1], actions, rewards, states[1:], ends)
        plain = 2 * states[:-1].nbytes + actions.nbytes + rewards.nbytes + ends.nbytes
        self.assertLess(memory.nbytes, 0.6 * plain)

    def test_priorities_decide_how_often_a_row_comes(self):
        memory = plimsoll.replay(8, priority=1.0, seed=4)
        for step in episodes(8, 1, seed=3):
            memory.extend(*step)
        memory.update_priorities(numpy.arange(8), numpy.array([0, 0, 0, 1, 0, 0, 0, 3.0]))
        found = memory.sample(4000, beta=1.0)
        counts = numpy.bincount(found["row"], minlength=8)
        self.assertEqual(counts.sum(), 4000)
        self.assertAlmostEqual(counts[7] / counts[3], 3, delta=0.1)
        self.assertLess(counts[[0, 1, 2, 4, 5, 6]].sum(), 10)
        self.assertAlmostEqual(found["weight"][found["row"] == 7].max() * 3, 1, delta=1e-6)

    def test_the_tree_finds_rows_by_their_share_and_never_an_empty_one(self):
        draw = numpy.random.default_rng(6)
        for rows in (1, 2, 7, 100):
            tree, plain = SumTree(rows), numpy.zeros(rows)
            for _ in range(20):
                chosen = draw.integers(0, rows, 5)
                values = draw.random(5) * (draw.random(5) < 0.7)
                tree.set(chosen, values)
                plain[chosen] = values
            if plain.sum() == 0:
                continue
            self.assertAlmostEqual(tree.total, plain.sum(), places=4)
            asked = numpy.append(draw.random(200) * tree.total, tree.total)
            found = tree.find(asked)
            self.assertTrue((plain[found] > 0).all())
            wanted = numpy.searchsorted(plain.cumsum(), asked[:-1], side="right")
            self.assertGreater((found[:-1] == wanted).mean(), 0.99)

    def test_it_is_saved_in_a_store_and_taken_up_again(self):
        with tempfile.TemporaryDirectory() as folder:
            steps = episodes(90, 2, seed=5)
            memory = plimsoll.replay(100, environments=2, priority=0.6, seed=1)
            for step in steps[:70]:
                memory.extend(*step)
            memory.update_priorities(numpy.arange(100), numpy.arange(100.0))
            for _ in range(2):
                with plimsoll.buffers(limit=2**20, folder=folder, file_above=0) as store:
                    memory.save(store, "memory")
            with plimsoll.buffers(limit=2**20, folder=folder) as store:
                self.assertEqual(len(store), 3)
                again = plimsoll.replay(100, environments=2, priority=0.6, seed=1)
                again.restore(store, "memory")
                for both in (memory, again):
                    both.extend(*steps[70])
                self.assertEqual(len(again), len(memory))
                self.assertEqual(sampled(again, 20_000), sampled(memory, 20_000))
                with self.assertRaises(plimsoll.Failure):
                    plimsoll.replay(50).restore(store, "memory")
                store.delete("memory/2/own")
                with self.assertRaises(plimsoll.Failure) as caught:
                    again.restore(store, "memory")
                self.assertEqual(caught.exception.code, "replay-gone")

    def test_wrong_use_is_one_clear_error(self):
        memory = plimsoll.replay(10)
        zeros = numpy.zeros((2, 3))
        wrong = [
            lambda: memory.sample(1),
            lambda: memory.extend(zeros, [1], [1], zeros, [False]),
            lambda: memory.extend(zeros, [1, 2], [1, 2], zeros.astype("float32"), [False, False]),
            lambda: memory.update_priorities([0], [1.0]),
            lambda: plimsoll.replay(0),
            lambda: plimsoll.replay(5, priority=2),
        ]
        for act in wrong:
            with self.assertRaises(plimsoll.Failure):
                act()
        memory.extend(zeros, [1, 2], [1, 2], zeros, [False, False])
        for act in (
            lambda: memory.sample(0),
            lambda: memory.add(numpy.zeros(4), 1, 1, numpy.zeros(4), False),
        ):
            with self.assertRaises(plimsoll.Failure):
                act()


if __name__ == "__main__":
    unittest.main()
