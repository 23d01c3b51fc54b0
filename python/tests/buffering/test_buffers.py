"""`plimsoll.buffers()` and `plimsoll.pool()`: values come back, limits hold, damage is found, kills are survived."""

import os
import random
import subprocess
import sys
import tempfile
import unittest

import numpy
import torch
import warm

import plimsoll
from plimsoll.buffering.auto_limit import auto_limit
from plimsoll.buffering.packing import pack
from plimsoll.buffering.parts import parts_of
from plimsoll.buffering.record import Record, decode, encode
from plimsoll.buffering.store import BufferStore

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


if __name__ == "__main__":
    unittest.main()
