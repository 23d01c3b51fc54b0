"""`plimsoll.loader()`: advice from figures, every sample once, fewer workers when memory runs short."""

import dataclasses
import gc
import multiprocessing
import random
import threading
import tracemalloc
import unittest
import weakref
from itertools import chain
from unittest import mock

import torch
from torch.utils.data import Dataset, IterableDataset

import plimsoll
from plimsoll import data_loading
from plimsoll.data_loading import AdvisedLoader, LoadingAdvice, LoadingFigures, advise
from plimsoll.leaks.collection import PauseMeter

FIGURES = LoadingFigures(
    cores=8, batch_seconds=0.1, slow_batch_seconds=0.12, batch_bytes=2**20, step_seconds=0.05,
    worker_bytes=50 * 2**20, free_bytes=16 * 2**30, has_card=False,
)  # fmt: skip


class Numbers(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if not 0 <= index < self.count:
            raise IndexError(index)
        random.random()
        return torch.tensor(index)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(3))


def advised(**changes):
    return advise(dataclasses.replace(FIGURES, **changes))


class Advice(unittest.TestCase):
    def test_workers_are_as_many_as_keep_up_with_the_steps(self):
        self.assertEqual(advised().workers, 2)
        self.assertEqual(advised(step_seconds=0.01).workers, 7)
        self.assertEqual(advised(step_seconds=None).workers, 7)
        self.assertEqual(advised(step_seconds=3.0).workers, 0)
        self.assertEqual(advised(step_seconds=None, batch_seconds=0.001).workers, 0)
        self.assertEqual(advised(cores=1).workers, 0)

    def test_memory_of_the_host_limits_them_and_the_reason_says_so(self):
        few = advised(step_seconds=0.01, free_bytes=320 * 2**20)
        self.assertEqual(few.workers, 3)
        self.assertIn("3 instead of 7", " ".join(few.reasons))
        self.assertEqual(advised(free_bytes=0).workers, 0)

    def test_the_rest_follows(self):
        none, some = advised(cores=1), advised(has_card=True, slow_batch_seconds=1.0)
        self.assertEqual(
            (none.prefetch_factor, none.persistent_workers, none.pin_memory), (None, False, False)
        )
        self.assertEqual(
            (some.prefetch_factor, some.persistent_workers, some.pin_memory), (4, True, True)
        )


class Loader(unittest.TestCase):
    def test_every_sample_comes_once_in_batches_like_those_of_a_data_loader(self):
        for workers in (None, 0, 2):
            torch.manual_seed(3)
            data = plimsoll.loader(Numbers(103), batch_size=10, shuffle=True, workers=workers)
            ours = [batch.tolist() for batch in data]
            torch.manual_seed(3)
            plain = torch.utils.data.DataLoader(Numbers(103), batch_size=10, shuffle=True)
            wanted = [batch.tolist() for batch in plain]
            self.assertEqual(sorted(chain.from_iterable(ours)), list(range(103)))
            self.assertEqual([len(batch) for batch in ours], [len(batch) for batch in wanted])
            self.assertEqual(len(data), 11)
            self.assertEqual(
                sorted(chain.from_iterable(batch.tolist() for batch in data)), list(range(103))
            )

    def test_measuring_draws_no_random_numbers_of_the_program(self):
        random.seed(5)
        torch.manual_seed(5)
        wanted = random.random(), torch.rand(1).item()
        random.seed(5)
        torch.manual_seed(5)
        plimsoll.loader(Numbers(50), batch_size=5)
        self.assertEqual((random.random(), torch.rand(1).item()), wanted)

    def test_short_of_memory_it_goes_on_with_fewer_workers_and_loses_nothing(self):
        settings = LoadingAdvice(2, 2, False, True, ("test",))
        batches = [[index, index + 1] for index in range(0, 60, 2)]
        looks = []

        def used_share():
            looks.append(1)
            return 0.95 if len(looks) >= 2 else 0.5

        import plimsoll.data_loading as module

        before, module.LOOK_SECONDS = module.LOOK_SECONDS, 0.0
        try:
            data = AdvisedLoader(Numbers(60), batches, torch.stack, settings, 0.9, used_share)
            seen = [batch.tolist() for batch in data]
        finally:
            module.LOOK_SECONDS = before
        self.assertEqual(seen, batches)
        self.assertEqual((data.workers, len(data.backoffs)), (0, 2))

    def test_memory_of_workers_is_counted(self):
        data = plimsoll.loader(Numbers(40), batch_size=2, workers=2)
        self.assertEqual(data.worker_bytes(), 0)
        batches = iter(data)
        next(batches)
        self.assertGreater(data.worker_bytes(), 2**20)
        self.assertEqual(len(list(batches)), 19)

    def test_workers_end_with_their_loader_without_a_collection(self):
        before = set(multiprocessing.active_children())
        data = plimsoll.loader(Numbers(40), batch_size=2, workers=2)
        gc.disable()
        try:
            self.assertEqual(len(list(data)), 20)
            running = set(multiprocessing.active_children()) - before
            self.assertEqual(len(running), 2)
            del data
            for worker in running:
                worker.join(600)
            self.assertEqual(running & set(multiprocessing.active_children()), set())
        finally:
            gc.enable()

    def test_workers_that_gain_nothing_in_a_trial_are_left_out(self):
        measure = data_loading._seconds

        def as_fast_with_them(batches, step_seconds):
            self.assertGreater(measure(batches, step_seconds), 0)
            return 0.001

        settings = LoadingAdvice(2, 2, False, True, ("two workers", "pinned memory off"))
        batches = [[index] for index in range(12)]
        # Trials that really run. What they measure is up to what else this machine does.
        with mock.patch.object(data_loading, "_seconds", as_fast_with_them):
            data = plimsoll.loader(Numbers(64), batch_size=2)
            kept = data_loading.tried(Numbers(12), batches, torch.stack, settings, 0.0, {})
        self.assertEqual(data.workers, 0)
        self.assertEqual((kept.workers, kept.persistent_workers), (0, False))
        self.assertIn("in a trial", kept.reasons[0])
        # A loader that waited for its workers in vain for some seconds ends them, and goes on.
        for worker in multiprocessing.active_children():
            worker.join(600)
        self.assertEqual(multiprocessing.active_children(), [])

    def test_wrong_arguments_are_one_clear_error(self):
        wrong = [
            (Stream(), {}), (7, {}), (Numbers(3), {"batch_size": 0}), (Numbers(3), {"shuffle": "yes"}),
            (Numbers(3), {"workers": -1}), (Numbers(3), {"step_seconds": -1}), (Numbers(3), {"above": 90}),
        ]  # fmt: skip
        for dataset, options in wrong:
            with self.assertRaises(plimsoll.Failure):
                plimsoll.loader(dataset, **options)
        self.assertEqual(list(plimsoll.loader(Numbers(0), batch_size=4)), [])


# Pauses of the collector are counted; a schedule freezes, collects by the clock, and puts all back.


class Node:
    """A cycle with itself: only a collection frees it."""

    def __init__(self):
        self.me = self


class Pauses(unittest.TestCase):
    def test_each_collection_is_counted_with_its_time(self):
        times = iter([1.0, 1.5, 10.0, 12.0])
        meter = PauseMeter(clock=lambda: next(times))
        gc.disable()
        self.addCleanup(gc.enable)
        gc.collect()
        Node()
        with meter:
            gc.collect(0)
            gc.collect(2)
        gc.collect()
        found = meter.report()
        self.assertEqual(
            (found["collections"], found["totalSeconds"], found["longestSeconds"]), (2, 2.5, 2.0)
        )
        self.assertGreaterEqual(found["collectedObjects"], 1)
        self.assertEqual(sum(one["collections"] for one in found["generations"].values()), 2)

    def test_it_leaves_no_callback_behind(self):
        before = list(gc.callbacks)
        with plimsoll.gc_pauses() as meter:
            meter.start()
            self.assertEqual(len(gc.callbacks), len(before) + 1)
        meter.stop()
        self.assertEqual(gc.callbacks, before)


class Schedule(unittest.TestCase):
    def test_it_freezes_and_puts_thresholds_and_objects_back(self):
        before = gc.get_threshold()
        frozen = gc.get_freeze_count()
        with plimsoll.schedule_gc(every=1000, young=5000) as garbage:
            self.assertEqual(gc.get_threshold(), (5000, 20, 1000))
            self.assertGreater(gc.get_freeze_count(), frozen + 1000)
            garbage.start()
        garbage.stop()
        self.assertFalse(garbage._thread.is_alive())
        self.assertEqual(gc.get_threshold(), before)
        self.assertEqual(gc.get_freeze_count(), 0)

    def test_it_looks_twice_a_minute_where_nothing_else_is_said(self):
        with plimsoll.schedule_gc(freeze=False) as garbage:
            self.assertEqual(garbage._every, 30)
            self.assertEqual(gc.get_threshold()[0], 20_000)

    def test_garbage_is_found_by_the_clock(self):
        with plimsoll.schedule_gc(every=0.005, young=10**6):
            done = threading.Event()
            seen = weakref.ref(Node(), lambda _: done.set())
            self.assertTrue(done.wait(600))
            self.assertIsNone(seen())

    def test_wrong_arguments_are_refused_and_change_nothing(self):
        before = gc.get_threshold()
        for wrong in ({"every": 0}, {"young": 0}, {"freeze": "yes"}):
            with self.assertRaises(plimsoll.Failure):
                plimsoll.schedule_gc(**wrong)
        self.assertEqual(gc.get_threshold(), before)


class Released(unittest.TestCase):
    def test_a_watched_object_that_outlives_its_steps_is_released_once(self):
        released = []
        leaks = plimsoll.track_leaks()
        kept, gone = Node(), Node()
        leaks.watch(kept, "kept", stale_after=2, release=released.append)
        leaks.watch(gone, "gone", stale_after=2, release=released.append)
        leaks.check()
        del gone
        gc.collect()
        leaks.check()
        self.assertEqual(released, [])
        self.assertEqual(leaks.check()["released"], ["kept"])
        self.assertEqual(released, [kept])
        leaks.check()
        self.assertEqual((len(released), leaks.alive()), (1, []))

    def test_what_ended_is_forgotten_and_tracing_that_others_began_goes_on(self):
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        with plimsoll.track_leaks() as leaks:
            leaks.watch(set(), "gone", stale_after=2, release=print)
        self.assertEqual((leaks._watched, leaks._stale), ({}, {}))
        self.assertTrue(tracemalloc.is_tracing())

    def test_a_release_that_fails_does_not_end_the_check(self):
        def fail(_):
            raise RuntimeError("no")

        leaks = plimsoll.track_leaks()
        kept = Node()
        leaks.watch(kept, "kept", stale_after=1, release=fail)
        leaks.check()
        with self.assertLogs("plimsoll", "WARNING"):
            self.assertEqual(leaks.check()["released"], [])
        self.assertIn("kept", leaks.alive())

    def test_both_arguments_belong_together(self):
        leaks = plimsoll.track_leaks()
        for wrong in ({"stale_after": 2}, {"release": print}, {"stale_after": 0, "release": print}):
            with self.assertRaises(plimsoll.Failure):
                leaks.watch(Node(), **wrong)


if __name__ == "__main__":
    unittest.main()
