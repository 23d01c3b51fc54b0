"""`plimsoll.buffers()` and `plimsoll.pool()`: values come back, limits hold, damage is found, kills are survived."""

import os
import random
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy
import torch

import warm

import plimsoll
from plimsoll.buffering import store
from plimsoll.buffering.adaptive_cache import Frequencies, WindowCache
from plimsoll.buffering.packing import pack, parts_of
from plimsoll.buffering.store import BufferStore, ItemFolder, Record, auto_limit, decode, encode
from plimsoll.replay_buffer import SumTree

VALUES = {
    "bytes": b"\x00\x01",
    "no bytes": b"",
    "numbers": numpy.sin(numpy.arange(5000, dtype=numpy.float32) / 500),
    "a column": numpy.arange(12.0).reshape(3, 4)[:, 1],
    "one number": numpy.array(7, dtype=numpy.int64),
    "truth": numpy.array([[True], [False]]),
    "other byte order": numpy.arange(5, dtype=">i4"),
    "tensor": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "half a tensor": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "dict": {"obs": numpy.ones((2, 2)), "done": b"\x01", "t": torch.zeros(3)},
    "empty dict": {},
}

# Puts items without end, each key again and again with another value, and tells which is done.
WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy, plimsoll
store = plimsoll.buffers(limit=2**20, folder=sys.argv[2], file_above=0)
for round in range(int(sys.argv[3]), 10**9):
    store.put(f"k{round % 5}", numpy.full(20_000, round))
    print(f"k{round % 5} {round}", flush=True)
"""


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, torch.Tensor):
        return (
            isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
        )
    if isinstance(one, numpy.ndarray):
        return one.shape == other.shape and bool((one == other).all())
    return one == other


class Store(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = made.name

    def in_files(self):
        return plimsoll.buffers(limit=2**20, folder=self.folder, file_above=0)

    def only_file(self):
        (name,) = os.listdir(self.folder)
        return os.path.join(self.folder, name)

    def test_values_come_back_from_memory_and_files(self):
        with plimsoll.buffers(limit=2**20) as memory, self.in_files() as files:
            for key, value in VALUES.items():
                for store in (memory, files):
                    self.assertTrue(store.put(key, value))
                    self.assertTrue(same(value, store.get(key)), key)
        with self.in_files() as again:
            for key, value in VALUES.items():
                self.assertTrue(same(value, again.get(key)), key)
            self.assertEqual(again.statistics()["hits"], len(VALUES))

    def test_what_was_put_does_not_change_with_the_array(self):
        with plimsoll.buffers(limit=2**20) as store:
            mine = numpy.zeros(4)
            store.put("a", mine)
            mine[0] = 9
            got = store.get("a")
            self.assertEqual(got[0], 0)
            with self.assertRaises(ValueError):
                got[0] = 1

    def test_limits_hold_whatever_is_put(self):
        draw = random.Random(5)
        store = plimsoll.buffers(
            limit=10_000, folder=self.folder, file_above=2000, file_limit=9000, compression="none"
        )
        for _ in range(400):
            key = f"k{draw.randrange(30)}"
            store.put(key, bytes(draw.randrange(4000)))
            self.assertIn(key, store)
            held = store.statistics()
            self.assertLessEqual(held["memoryBytes"], 10_000)
            self.assertLessEqual(held["fileBytes"], 9000)
        for key in list(store.keys()):
            store.delete(key)
        self.assertEqual(os.listdir(self.folder), [])
        self.assertEqual(store.statistics()["rawBytes"], 0)

    def test_automatic_size_gives_memory_back_and_takes_it_again(self):
        used = [20_000]
        store = BufferStore("auto", None, 2**20, 2**30, "none", lambda: (used[0], 100_000))
        self.addCleanup(store.close)
        for key in range(10):
            store.put(f"k{key}", bytes(2000))
        self.assertEqual(len(store), 10)
        used[0] = 105_000
        store.adjust()
        self.assertEqual(len(store), 4)
        self.assertFalse(store.put("large", bytes(20_000)))
        used[0] = 20_000
        store.adjust()
        self.assertTrue(store.put("large", bytes(20_000)))
        self.assertEqual(auto_limit(used_bytes=99, total_bytes=100, held_bytes=5), 0)

    def test_what_cannot_be_kept_is_refused_and_changes_nothing(self):
        with plimsoll.buffers(limit=2000, compression="none") as store:
            store.put("a", b"1")
            for value in (
                None,
                7,
                "text",
                [1],
                {1: b""},
                numpy.array(["x"]),
                numpy.zeros(2, complex),
            ):
                with self.assertRaises(plimsoll.Failure):
                    store.put("a", value)
            for key in ("", 7, "x" * 5000, "\ud800"):
                with self.assertRaises(plimsoll.Failure):
                    store.put(key, b"")
            with self.assertRaises(plimsoll.Failure):
                store.put("a", bytes(3000))
            self.assertEqual(store.get("a"), b"1")
        for wrong in ({"limit": -1}, {"limit": "lots"}, {"compression": "lots"}):
            with self.assertRaises(plimsoll.Failure):
                plimsoll.buffers(**wrong)
        with open(os.path.join(self.folder, "file"), "w", encoding="ascii"):
            pass
        with self.assertRaises(plimsoll.Failure) as caught:
            plimsoll.buffers(limit=1, folder=os.path.join(self.folder, "file", "below"))
        self.assertEqual(caught.exception.code, "cannot-write")

    def test_any_changed_byte_gives_the_value_or_nothing(self):
        value = {"a": numpy.arange(600, dtype=numpy.float32), "b": b"\x05"}
        self.in_files().put("k", value)
        path = self.only_file()
        with open(path, "rb") as file:
            whole = file.read()
        draw = random.Random(3)
        for _ in range(300):
            changed = bytearray(whole)
            changed[draw.randrange(len(whole))] ^= draw.randrange(1, 256)
            cut = bytes(changed) if draw.random() < 0.8 else whole[: draw.randrange(len(whole))]
            with open(path, "wb") as file:
                file.write(cut)
            with self.in_files() as store:
                got = store.get("k")
                self.assertTrue(same(value, got) if got is not None else not os.path.exists(path))

    def test_any_bytes_are_read_or_refused(self):
        draw = random.Random(4)
        _, ((about, data),) = parts_of(numpy.arange(100.0))
        whole = b"".join(map(bytes, encode(Record("k", False, (pack(about, data, True),)))))
        self.assertIsNotNone(decode(whole))
        for _ in range(2000):
            start = whole[: draw.randrange(0, 60)]
            decode(start + draw.randbytes(draw.randrange(0, 200)))

    def test_a_killed_process_leaves_every_acknowledged_item(self):
        package = os.path.dirname(os.path.dirname(os.path.abspath(plimsoll.__file__)))
        done = {}
        for lines in (1, 4, 17):
            first = max(done.values(), default=0) + 1
            arguments = [sys.executable, "-c", WRITER, package, self.folder, str(first)]
            with warm.Popen(arguments, stdout=subprocess.PIPE, text=True) as writer:
                result = [writer.stdout.readline() for _ in range(lines)]
                writer.kill()
                result += writer.stdout.read().splitlines(keepends=True)
            for line in (one for one in result if one.endswith("\n")):
                key, number = line.split()
                done[key] = int(number)
            with self.in_files() as store:
                self.assertEqual(store.statistics()["damaged"], 0)
                for key, number in done.items():
                    value = store.get(key)
                    self.assertIsNotNone(value, f"{key} is gone")
                    self.assertEqual(len(set(value.tolist())), 1)
                    # The next value of a key may be complete before it was told.
                    self.assertIn(int(value[0]), (number, number + 5))
                    done[key] = int(value[0])
            self.assertTrue(all(name.endswith(".buffer") for name in os.listdir(self.folder)))


class Pool(unittest.TestCase):
    def test_what_is_given_back_is_lent_again(self):
        pool = plimsoll.pool(limit=2**20)
        first = pool.take((3, 4))
        place = first.data_ptr()
        self.assertEqual((first.shape, first.dtype), (torch.Size([3, 4]), torch.float32))
        pool.give(first)
        with pool.borrow((2, 5), dtype=torch.int64) as second:
            self.assertEqual(second.data_ptr(), place)
            self.assertNotEqual(pool.take((1,)).data_ptr(), place)
        result = pool.statistics()
        self.assertEqual((result["taken"], result["reused"], result["lentBytes"]), (3, 1, 4096))

    def test_it_keeps_no_more_than_its_limit_and_no_block_that_is_far_too_large(self):
        pool = plimsoll.pool(limit=20_000)
        lent = [pool.take((4096,), dtype=torch.uint8) for _ in range(10)]
        for tensor in lent:
            pool.give(tensor)
        self.assertEqual(pool.statistics()["idleBytes"], 16_384)
        large = pool.take((16_384,), dtype=torch.uint8)
        pool.give(large)
        self.assertEqual(pool.take((5000,), dtype=torch.uint8).untyped_storage().nbytes(), 8192)

    def test_the_block_that_was_idle_for_longest_goes_first(self):
        pool = plimsoll.pool(limit=8192)
        lent = [pool.take((4096,), dtype=torch.uint8) for _ in range(3)]
        for tensor in lent:
            pool.give(tensor)
        held = pool.statistics()
        self.assertEqual((held["released"], held["idleBytes"]), (1, 8192))
        again = {pool.take((4096,), dtype=torch.uint8).data_ptr() for _ in range(2)}
        self.assertEqual(again, {tensor.data_ptr() for tensor in lent[1:]})

    def test_a_block_is_used_for_half_of_it_and_the_smallest_that_fits_is_taken(self):
        for needed, reused in ((4096, 1), (4095, 0)):
            pool = plimsoll.pool(limit=2**20)
            pool.give(pool.take((8192,), dtype=torch.uint8))
            pool.take((needed,), dtype=torch.uint8)
            self.assertEqual(pool.statistics()["reused"], reused, needed)
        pool = plimsoll.pool(limit=2**20)
        large, small = (pool.take((size,), dtype=torch.uint8) for size in (12_288, 8192))
        for tensor in (large, small):
            pool.give(tensor)
        self.assertEqual(pool.take((8192,), dtype=torch.uint8).data_ptr(), small.data_ptr())

    def test_wrong_use_is_one_clear_error(self):
        pool = plimsoll.pool(limit=100)
        tensor = pool.take((2,))
        pool.give(tensor)
        for wrong in (tensor, torch.zeros(2), 7):
            with self.assertRaises(plimsoll.Failure):
                pool.give(wrong)
        with self.assertRaises(plimsoll.Failure):
            pool.take((2,), device="gpu:0")
        if not torch.cuda.is_available():
            with self.assertRaises(plimsoll.Failure):
                pool.take((2,), pinned=True)


class Files(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.items = ItemFolder(made.name)

    def path(self, name):
        return os.path.join(self.items.folder, name)

    def put(self, key):
        """The name of the file of a new item."""
        before = set(os.listdir(self.items.folder))
        about, data = parts_of(b"value")[1][0]
        self.items.write(key, encode(Record(key, False, (pack(about, data, True),))))
        (name,) = set(os.listdir(self.items.folder)) - before
        return name

    def keys(self):
        records, damaged = self.items.open()
        return [record.key for record, _ in records], damaged

    def test_items_come_oldest_first_and_can_be_read_by_their_owner_alone(self):
        for key, changed in (("b", 30), ("a", 10), ("c", 20)):
            name = self.put(key)
            self.assertEqual(os.stat(self.path(name)).st_mode & 0o777, 0o600)
            os.utime(self.path(name), (changed, changed))
        self.assertEqual(self.keys(), (["a", "c", "b"], 0))

    def test_a_file_under_the_name_of_another_key_is_damaged(self):
        one, other = self.put("one"), self.put("other")
        os.replace(self.path(one), self.path(other))
        self.assertIsNone(self.items.read("other"))
        self.assertEqual(self.keys(), ([], 1))
        self.assertEqual(os.listdir(self.items.folder), [])

    def test_unfinished_files_go_unless_another_process_still_writes_them(self):
        gone, foreign = 2**22 + 1, 1
        names = {pid: f"{'a' * 32}.{pid}.tmp" for pid in (gone, foreign, 77, os.getpid())}
        kill = {gone: ProcessLookupError(), foreign: PermissionError(), 77: None}
        for name in (*names.values(), "notes.txt"):
            with open(self.path(name), "w", encoding="ascii"):
                pass
        with mock.patch("os.kill", side_effect=lambda pid, _: _raised(kill[pid])):
            self.assertEqual(self.keys(), ([], 0))
        left = {names[foreign], names[77], "notes.txt"}
        self.assertEqual(set(os.listdir(self.items.folder)), left)

    def test_what_an_earlier_process_of_this_number_left_is_no_part_of_an_item(self):
        name = self.put("a")
        os.unlink(self.path(name))
        unfinished = self.path(f"{name[:32]}.{os.getpid()}.tmp")
        with open(unfinished, "wb") as file:
            file.write(bytes(10_000))
        self.put("a")
        self.assertIsNotNone(self.items.read("a"))
        self.assertEqual(os.listdir(self.items.folder), [name])

    def test_a_write_that_fails_is_one_clear_error_and_leaves_nothing(self):
        name = self.put("a")
        os.unlink(self.path(name))
        os.mkdir(self.path(name))
        with self.assertRaises(plimsoll.Failure):
            self.put("a")
        self.assertEqual(os.listdir(self.items.folder), [name])


def _raised(error):
    if error is not None:
        raise error


class Cache(unittest.TestCase):
    """Keys of ten bytes; all that is outside the window may hold 80 of 100."""

    def cache(self, *keys, limit=100, share=0.2):
        self.asked = Frequencies()
        cache = WindowCache(limit, share, self.asked)
        for key in keys:
            self.assertEqual(cache.add(key, 10), [])
        return cache

    def held(self, cache, keys):
        return "".join(key for key in keys if cache.size(key) is not None)

    def test_a_new_key_stays_only_if_it_was_asked_for_more_often(self):
        for asked, gone in (("", "i"), ("i", "a"), ("ai", "i"), ("iia", "a")):
            cache = self.cache(*"abcdefghij")
            for key in asked:
                self.asked.count(key, 10)
            # `i` leaves the window for this one, and is held against `a`.
            self.assertEqual(cache.add("k", 10), [gone], asked)
            self.assertEqual((cache.bytes, cache.count), (100, 10))
            self.assertIsNone(cache.size(gone))

    def test_the_newest_stays_however_large_it_is(self):
        cache = self.cache(*"abcdefgh")
        self.assertEqual(sorted(cache.add("large", 95)), list("abcdefgh"))
        self.assertEqual((cache.size("large"), cache.bytes), (95, 95))

    def test_what_was_used_again_outlives_what_was_not_up_to_a_share(self):
        cache = self.cache(*"abcdefghij")
        for key in "abcdefgh":
            self.assertTrue(cache.touch(key))
        self.assertFalse(cache.touch("none"))
        # Of 80 bytes 16 are the window's and 51 protected: `i` leaves the window, and the oldest that were used go.
        self.assertEqual(cache.resize(80, 0.2), ["i", "a"])
        self.assertEqual(cache.resize(50, 0.2), ["b", "c", "d"])
        self.assertEqual(self.held(cache, "abcdefghij"), "efghj")
        self.assertEqual(cache.resize(0, 0.2), list("efghj"))
        self.assertEqual((cache.bytes, cache.count), (0, 0))

    def test_a_new_key_is_held_against_the_oldest_that_is_not_protected(self):
        cache = self.cache(*"abcdefghij")
        for key in "abcdefgh":
            cache.touch(key)
        self.asked.count("i", 10)
        self.assertEqual(cache.add("k", 10), ["a"])
        self.assertEqual(cache.resize(80, 0.2), ["j", "b"])
        self.assertEqual(cache.resize(70, 0.2), ["i"])
        # It leaves the protected ones when another is used, not when room is needed.
        cache = self.cache(*"abcdefghij")
        for key in "abcdefg":
            cache.touch(key)
        cache.remove("b")
        self.assertEqual(cache.add("k", 10), [])
        for newer, candidate, gone in (("l", "j", "h"), ("m", "k", "a")):
            self.asked.count(candidate, 10)
            self.assertEqual(cache.add(newer, 10), [gone])
        # With less memory less is protected.
        cache = self.cache(*"abcdefghij")
        for key in "abcdefgh":
            cache.touch(key)
        self.assertEqual(cache.resize(60, 0.2), list("iabc"))
        self.asked.count("j", 10)
        self.assertEqual(cache.add("k", 10), ["d"])

    def test_a_key_that_was_removed_takes_no_bytes(self):
        cache = self.cache(*"abc")
        cache.touch("a")
        for key in ("a", "b", "none"):
            cache.remove(key)
        self.assertEqual((cache.bytes, cache.count, cache.touch("a")), (10, 1, False))

    def test_with_a_window_of_all_the_one_used_longest_ago_goes(self):
        cache = self.cache(*"abcdefghij", share=1.0)
        cache.touch("a")
        self.assertEqual(cache.add("k", 10), ["b"])
        self.assertEqual(self.held(cache, "abck"), "ack")


class AutomaticSize(unittest.TestCase):
    def test_what_is_free_below_the_load_line_up_to_half_of_the_machine(self):
        for used, total, held, limit in (
            (95, 100, 20, 15),
            (95, 100, 3, 0),
            (60, 100, 0, 30),
            (10, 100, 0, 50),
            (10, 100, 70, 50),
        ):
            self.assertEqual(auto_limit(used, total, held), limit)

    def test_the_tighter_of_machine_and_cgroup_counts(self):
        machine = {"MemTotal": 100, "MemAvailable": 40}
        for figures, cgroup, resident, found in (
            (machine, None, 5, (60, 100)),
            (machine, 100, 70, (60, 100)),
            (machine, 120, 70, (60, 100)),
            (machine, 70, 5, (30, 70)),
            (machine, 50, 20, (20, 50)),
            ({"MemTotal": 100}, 50, 20, None),
            ({"MemAvailable": 40}, 50, 20, None),
        ):
            with mock.patch.multiple(
                store.host,
                machine=lambda figures=figures: figures,
                cgroup_limit=lambda cgroup=cgroup: cgroup,
                resident_bytes=lambda resident=resident: resident,
            ):
                self.assertEqual(store.host_memory(), found)


# `plimsoll.replay()`: what is sampled is what was added, to the bit; priorities are followed.


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
