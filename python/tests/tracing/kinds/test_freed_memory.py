"""Host memory that was freed is used again, without new pages from the system, or given back before much is taken."""

import os
import platform
import resource
import sys
import unittest
from unittest import mock

import warm

from tracing import PACKAGE

from plimsoll.tracing.programs import run

ROUNDS = """
import random, resource, torch
from plimsoll.tracing.known.freed_memory import keep_freed_memory

torch.set_num_threads(1)
keep_freed_memory()
random.seed(0)

def round_of_arrays():
    live, size = [], 0
    for _ in range(24):
        live.append(torch.ones(random.randint(1, 30) << 18))
        size += live[-1].nbytes
        del live[:-3]
    return size

for _ in range(3):
    round_of_arrays()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
size = sum(round_of_arrays() for _ in range(6))
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(faults * resource.getpagesize() / size)
"""


GIVEN_BACK = """
import torch
from plimsoll.tracing.known.freed_memory import give_freed_memory_back, keep_freed_memory

def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])

keep_freed_memory()
arrays = [torch.ones(4 << 18) for _ in range(32)]
most = held()
del arrays[:-1]
before = held()
give_freed_memory_back()
print(most - before, most - held())
"""


class Reached(Exception):
    pass


class FreedMemory(unittest.TestCase):
    @unittest.skipUnless(platform.libc_ver()[0] == "glibc", "only glibc's allocator is set")
    def test_large_arrays_one_after_another_take_few_new_pages(self):
        self.assertLess(float(_printed(ROUNDS)), 0.06)

    @unittest.skipUnless(platform.libc_ver()[0] == "glibc", "only glibc's allocator is set")
    def test_what_was_kept_is_given_back(self):
        kept, given_back = (int(n) * resource.getpagesize() for n in _printed(GIVEN_BACK).split())
        self.assertLess(kept, 8 << 20)
        self.assertGreater(given_back, 100 << 20)

    def test_programs_are_run_so(self):
        with mock.patch.object(run, "keep_freed_memory", side_effect=Reached):
            self.assertRaises(Reached, run.record, [], None, mock.Mock())


def _printed(code: str) -> str:
    return warm.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": PACKAGE},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
