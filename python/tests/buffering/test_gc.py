"""Pauses of the collector are counted; a schedule freezes, collects by the clock, and puts all back."""

import gc
import threading
import tracemalloc
import unittest
import weakref

import plimsoll
from plimsoll.leaks.pauses import PauseMeter


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
