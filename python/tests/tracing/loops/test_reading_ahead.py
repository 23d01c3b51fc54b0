"""Batches that another process reads ahead, against those of real workers."""

import os
import random
import threading
import time
import unittest
from unittest import mock

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from plimsoll.tracing.programs.loops import order, reading_ahead


class Observer:
    """That of a trace: it counts what a data set does."""

    def __init__(self):
        self.ops = self.host_ops = 0
        self.notes = set()

    def count_host_ops(self, count):
        self.host_ops += count

    def ticks_of_host(self, before):
        return 0


class Drawn(Dataset):
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
        for name, value in (("_SECONDS", 0.0), ("_REFUSED", reading_ahead.Living()), patient):
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
        return DataLoader(Drawn(extra), 3, shuffle=True, num_workers=2, collate_fn=as_they_are)

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


if __name__ == "__main__":
    unittest.main()
