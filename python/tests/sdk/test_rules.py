"""The rules of recovery, by the cases that the supervisor's tests read, too (src/run/ladder/rules.test.ts)."""

import json
import logging
import os
import unittest
from collections import Counter
from types import SimpleNamespace
from unittest import mock

import torch

from warm import PACKAGE

import plimsoll
from plimsoll.batching import next_size
from plimsoll.distributed import ranks
from plimsoll.distributed.agreement import FAILED, OK, Agreement, Verdict, Word
from plimsoll.leaks.kept import _confidence, came_at_once, kept
from plimsoll.leaks.tracker import Census, holder_of, take_census
from plimsoll.memory.gauge import HostGauge
from plimsoll.memory.load_line import LOAD_LINE
from plimsoll.recovery import restore
from plimsoll.recovery.parts import BatchRun, Splitter
from plimsoll.recovery.rules.decider import Decider, Fitting, wait_seconds
from plimsoll.recovery.rules.ladder import Failed, decide
from plimsoll.recovery.rules.sizer import MAX_SIZES, Ahead, Peaks, Reading, Sizer, keep_below
from plimsoll.recovery.rules.sizes import (
    Growth,
    Measured,
    aligned_part,
    even_part,
    grow_back,
    smaller,
)
from plimsoll.recovery.steps.step import loss_of

with open(
    os.path.join(PACKAGE, os.pardir, "test", "fixtures", "recovery-rules.json"), encoding="utf-8"
) as file:
    RULES = json.load(file)


def measured(case):
    return Measured(
        [tuple(one) for one in case.get("fitted", [])],
        case.get("baseBytes"),
        case.get("limitBytes"),
    )


class Rules(unittest.TestCase):
    def each(self, name):
        self.assertTrue(RULES[name])
        for case in RULES[name]:
            with self.subTest(case["name"]):
                yield case

    def test_the_load_line(self):
        self.assertEqual(LOAD_LINE, RULES["loadLine"])

    def test_a_batch_is_cut_into_even_parts(self):
        for case in self.each("parts"):
            self.assertEqual(even_part(case["batch"], case["most"]), case["parts"][0])
            taken = []
            function = plimsoll.recovering(
                lambda part, taken=taken: taken.append(len(part)), microbatch=case["most"]
            )
            function(torch.zeros(case["batch"], 1))
            self.assertEqual(taken, case["parts"])

    def test_parts_of_a_trainers_batch_come_in_eights_where_that_takes_no_more_of_them(self):
        parts, left = [], 256
        while left:
            parts.append(aligned_part(left, 60))
            left -= parts[-1]
        self.assertEqual(parts, [56, 56, 48, 48, 48])
        # More would not fit; few samples stay even; what is left is never exceeded.
        self.assertEqual(
            [aligned_part(120, 23), aligned_part(64, 10), aligned_part(18, 64)], [20, 10, 18]
        )

    def test_the_size_after_a_failure(self):
        for case in self.each("smaller"):
            answer, _ = smaller(
                case["failed"], measured(case), case.get("peakBytes"), case.get("askedBytes")
            )
            self.assertEqual(answer, case["answer"])

    def test_growing_back(self):
        for case in self.each("grow"):
            at = Growth(
                case["microbatch"],
                case["batch"],
                case["cleanSteps"],
                case.get("failedGrowths", 0),
                case.get("smallestFailed"),
                case.get("growAfter", 20),
                case.get("mayGuess", False),
            )
            self.assertEqual(grow_back(at, measured(case)), case["answer"])

    def test_what_follows_a_failure_in_a_step(self):
        for case in self.each("step"):
            failed = Failed(
                case["microbatch"],
                case["attempt"],
                case.get("failures", 1) > 1,
                case.get("othersHold", False),
                case.get("hooks", []),
                case.get("askedBytes"),
                case.get("peakBytes"),
                case.get("cachedBytes"),
            )
            decision = decide(failed, measured(case))
            rung = None if decision.rung == "none" else decision.rung
            found = (decision.action, rung, decision.microbatch)
            self.assertEqual(found, (case["action"], case["rung"], case["answer"]))

    def test_the_size_before_a_step_that_would_not_fit(self):
        for case in self.each("ahead"):
            readings = [Reading(*one) for one in case["readings"]]
            told = keep_below(Ahead(case["step"], case["microbatch"], readings, measured(case)))
            self.assertEqual(None if told is None else told[0], case["answer"])

    def test_a_line_that_rises_by_a_byte_is_one(self):
        self.assertEqual(Measured([(1, 1000), (2, 1001)]).line(), (999, 1))

    def test_cached_memory_is_enough_from_what_was_asked_for_on(self):
        for cached, rung in ((100, "give-back-cache"), (99, "smaller-microbatch")):
            failed = Failed(32, attempt=2, asked_bytes=100, cached_bytes=cached)
            self.assertEqual(decide(failed, Measured()).rung, rung)

    def test_growth_is_named_where_there_is_some(self):
        known = Measured(base_bytes=500, limit_bytes=1000)
        told = keep_below(Ahead(2, 8, [Reading(1, 8, 400, 880)], known))
        self.assertEqual(told, (6, "8 samples will need 0.0 GiB of 0.0 GiB"))

    def test_batches_that_follow_the_memory(self):
        for case in self.each("follow"):
            resting = case.get("restingPercent")
            answer = next_size(
                case["size"],
                32,
                case.get("smallest", 1),
                [used / 100 for used in case["usedPercents"]],
                0.85,
                0.5,
                None if resting is None else resting / 100,
            )
            self.assertEqual(answer, case["answer"])


class WhatIsKnown(unittest.TestCase):
    def test_a_size_that_fails_is_forgotten_with_all_larger_ones(self):
        peaks = Peaks()
        for size in (4, 8, 16):
            peaks.measured(size, size * 100)
        peaks.forget_from(8)
        self.assertEqual(peaks.all(), [(4, 400)])
        self.assertEqual([size in peaks for size in (4, 8, 16)], [True, False, False])

    def test_the_highest_peak_of_a_size_counts_and_the_newest_sizes_stay(self):
        peaks = Peaks()
        for peak in (700, 900, 800):
            peaks.measured(1, peak)
        self.assertEqual(peaks.all(), [(1, 900)])
        for size in range(2, MAX_SIZES + 1):
            peaks.measured(size, size)
        peaks.measured(1, 100)
        peaks.measured(MAX_SIZES + 1, 5)
        self.assertEqual(len(peaks.all()), MAX_SIZES)
        self.assertEqual(peaks.all()[:2], [(1, 900), (3, 3)])

    def test_peaks_rise_with_what_is_held_between_steps(self):
        peaks = Peaks()
        peaks.rests_at(100)
        peaks.measured(4, 500)
        for used, held, peak in ((100, 100, 500), (90, 100, 500), (130, 130, 530)):
            peaks.rests_at(used)
            self.assertEqual((peaks.base_bytes, peaks.all()), (held, [(4, peak)]))

    def test_others_fill_a_card_with_more_than_a_tenth_of_it(self):
        for others, said in ((0, False), (10, False), (11, True), (19, True)):
            gauge = SimpleNamespace(
                others_bytes=lambda others=others: others, total_bytes=lambda: 100
            )
            decider = Decider(gauge, sizer=None, bridge=None, patience=0)
            self.assertEqual(decider.others_hold(), said, others)
        gauge = SimpleNamespace(total_bytes=lambda: 100)
        self.assertFalse(Decider(gauge, sizer=None, bridge=None, patience=0).others_hold())


class Gauge:
    """A device as it is said to be."""

    def __init__(self, used=100, peak=500, capacity=1000, others=0):
        self.used, self.peak, self.capacity, self.others = used, peak, capacity, others
        self.resets = 0

    def used_bytes(self):
        return self.used

    def peak_bytes(self):
        return self.peak

    def cached_bytes(self):
        return 0

    def capacity_bytes(self):
        return self.capacity

    def total_bytes(self):
        return 100

    def others_bytes(self):
        return self.others

    def reset_peak(self):
        self.resets += 1


class Supervisor:
    """The other end of a bridge: it gives one answer, or none."""

    def __init__(self, answer=None, dies=False):
        self.answer, self.dies, self.alive, self.told = answer, dies, True, []

    def ask_about(self, *_):
        self.alive = self.alive and not self.dies
        return self.answer

    def ask_ahead(self, *_):
        return self.answer

    def report_rung(self, rung, why):
        self.told.append(rung)


FOUND = SimpleNamespace(kind="cuda", asked_bytes=None, message="out of memory")


def run_of(count=16, **others):
    run = SimpleNamespace(
        count=count, done=0, attempt=1, failures=1, lost=Counter(), partition=[count]
    )
    vars(run).update(others)
    return run


class WhoDecides(unittest.TestCase):
    def decided(self, bridge=None, failed=16, gauge=None, patience=60, **run):
        gauge = gauge or Gauge(capacity=None)
        decider = Decider(gauge, Sizer(None, 20, gauge, True), bridge, patience)
        found = decider.decide(run_of(**run), failed, FOUND, "forward", [], None)
        return found.action, found.microbatch, found.rung

    def test_an_answer_is_followed_where_it_is_one(self):
        halved = ("retry", 8, "smaller-microbatch")
        for answer, run, decided in (
            ({"action": "retry", "microbatch": 5, "rung": "r"}, {}, ("retry", 5, "r")),
            ({"action": "wait", "microbatch": 16, "rung": "r"}, {}, ("wait", 16, "r")),
            ({"action": "raise", "microbatch": 4, "rung": "r"}, {}, ("raise", 4, "r")),
            ({"action": "dance", "microbatch": 4}, {}, ("raise", 4, "none")),
            ({"action": "retry", "rung": "r"}, {}, ("retry", 8, "r")),
            ({"action": "retry", "microbatch": 0, "rung": "r"}, {}, ("retry", 8, "r")),
            ({"action": "retry", "microbatch": 17, "rung": "r"}, {}, ("retry", 8, "r")),
            ({"action": "retry", "microbatch": "5", "rung": "r"}, {}, ("retry", 8, "r")),
            # The same again three times, and no more.
            ({"action": "retry", "microbatch": 16}, {"attempt": 3}, ("retry", 16, "none")),
            ({"action": "retry", "microbatch": 16}, {"attempt": 4}, halved),
            ({"action": "retry", "microbatch": 15}, {"attempt": 4}, ("retry", 15, "none")),
            ({"action": "retry", "microbatch": 5}, {"failures": 100}, ("retry", 5, "none")),
            ({"action": "retry", "microbatch": 5}, {"failures": 101}, ("raise", 5, "none")),
            (None, {}, halved),
        ):
            with self.subTest(answer=answer, run=run):
                self.assertEqual(self.decided(Supervisor(answer), **run), decided)

    def test_the_next_supervisor_hears_of_what_was_decided_here(self):
        for dies, alive, told in ((False, True, 0), (True, True, 1), (False, False, 1)):
            bridge = Supervisor(dies=dies)
            bridge.alive = alive
            self.decided(bridge)
            self.assertEqual(len(bridge.told), told, (dies, alive))

    def test_one_batch_fails_only_so_often(self):
        for run, action in (
            ({"attempt": 23}, "retry"),
            ({"attempt": 24}, "raise"),
            ({"failures": 100}, "retry"),
            ({"failures": 101}, "raise"),
        ):
            self.assertEqual(self.decided(**run)[0], action, run)

    def test_other_processes_are_waited_for_as_long_as_there_is_patience(self):
        for patience, failures, action in (
            (60, 22, "wait"),
            (60, 23, "raise"),
            (0, 7, "wait"),
            (0, 8, "raise"),
        ):
            run = {"failures": failures, "attempt": 2}
            found = self.decided(None, 1, Gauge(others=50, capacity=None), patience, **run)
            self.assertEqual(found[0], action, (patience, failures))
        for attempt, told in ((1, 0), (2, 1), (3, 0)):
            bridge = Supervisor({"action": "retry", "microbatch": 1})
            run = {"failures": 3, "attempt": attempt}
            self.decided(bridge, 1, Gauge(others=50, capacity=None), **run)
            self.assertEqual(len(bridge.told), told if attempt > 1 else 0)
        self.assertEqual([wait_seconds(one) for one in (1, 2, 8, 9)], [0.5, 1.0, 4.0, 4.0])

    def test_where_nothing_can_be_read_it_goes_by_halves(self):
        gauge = Gauge()
        gauge.peak_bytes = mock.Mock(side_effect=RuntimeError("no memory"))
        self.assertEqual(self.decided(gauge=gauge), ("retry", 8, "smaller-microbatch"))

    def test_all_failures_of_a_size_count_but_of_one_sample_those_in_a_row(self):
        gauge = Gauge()
        sizer = Sizer(None, 20, gauge, True)
        decider = Decider(gauge, sizer, None, 60)
        run = run_of(attempt=2, lost=Counter({8: 3, 1: 3}))
        self.assertEqual([decider._attempts(run, size) for size in (1, 2, 8)], [2, 2, 5])
        sizer.failed(8, 4, False, False)
        self.assertEqual([decider._attempts(run, size) for size in (1, 4, 8)], [2, 2, 6])

    def test_ahead_of_a_step_the_answer_counts_where_it_names_a_size(self):
        for answer, told in (
            (None, (6, "why")),
            ({"microbatch": 4, "why": "w"}, (4, "w")),
            ({"microbatch": 1}, (1, "why")),
            ({"microbatch": 0, "why": "w"}, (6, "w")),
            ({"microbatch": "4", "why": "w"}, (6, "w")),
        ):
            bridge = Supervisor(answer)
            decider = Decider(Gauge(), None, bridge, 60)
            self.assertEqual(decider.ask_ahead(None, 16, 6, "why"), told)
            self.assertEqual(len(bridge.told), answer is None)
        self.assertEqual(Decider(Gauge(), None, None, 60).ask_ahead(None, 16, 6, "why"), (6, "why"))


class SizesOfAStep(unittest.TestCase):
    def test_a_rank_whose_size_must_be_the_same_wishes_for_another(self):
        sizer = Sizer(None, 20, Gauge(), may_differ=False)
        self.assertEqual((sizer.size, sizer.take_wish()), (1, 1))
        sizer.grow(4)
        self.assertEqual((sizer.size, sizer.take_wish(), sizer.take_wish()), (1, 4, 1))
        free = Sizer(None, 20, Gauge(), may_differ=True)
        self.assertIsNone(free.size)
        free.begin(8)
        free.grow(16)
        self.assertEqual(free.size, 16)

    def test_a_batch_is_tried_whole_until_a_size_is_known(self):
        sizer = Sizer(None, 20, Gauge(), may_differ=True)
        sizes = []
        for count in (8, 32):
            sizer.begin(count)
            sizes.append(sizer.size)
        sizer.failed(32, 16, False, False)
        sizer.begin(64)
        self.assertEqual([*sizes, sizer.size], [8, 32, 16])

    def test_after_others_left_the_size_before_they_came_is_tried(self):
        sizer = Sizer(16, 20, Gauge(), may_differ=True)
        sizer.failed(16, 8, waited=False, others_hold=True)
        sizer.failed(8, 4, waited=True, others_hold=True)
        self.assertEqual(sizer.size, 4)
        sizer.failed(4, 4, waited=True, others_hold=False)
        self.assertEqual(sizer.size, 16)
        sizer.failed(16, 8, waited=True, others_hold=False)
        self.assertEqual(sizer.size, 8)

    def test_the_smallest_size_that_failed_is_known_until_it_fits(self):
        gauge = Gauge()
        sizer = Sizer(32, 20, gauge, may_differ=True)
        for failed, size, smallest in ((32, 16, 32), (16, 8, 16), (24, 12, 16), (8, 8, 16)):
            sizer.failed(failed, size, False, False)
            self.assertEqual((sizer.smallest_failed, sizer.size), (smallest, size))
        self.assertEqual(gauge.resets, 4)
        for size, smallest in ((15, 16), (16, None)):
            run = run_of(partition=[size])
            sizer.clean_step(run, 1, 500, alone=False, grow=self.fail)
            self.assertEqual(sizer.smallest_failed, smallest)

    def test_a_size_failed_lately_until_twenty_clean_steps(self):
        sizer = Sizer(8, 20, Gauge(), may_differ=True)
        sizer.failed(8, 4, False, False)
        for step in range(20):
            self.assertTrue(sizer.failed_lately(8), step)
            self.assertFalse(sizer.failed_lately(4))
            sizer.clean_step(run_of(), step, None, alone=True, grow=self.fail)
        self.assertFalse(sizer.failed_lately(8))

    def test_a_size_is_new_until_two_steps_measured_it(self):
        gauge = Gauge()
        sizer = Sizer(8, 20, gauge, may_differ=True)
        news = []
        for step, peak in enumerate((500, None, 500, 500)):
            sizer.begin(8)
            news.append((sizer.is_new, gauge.resets))
            sizer.clean_step(run_of(8), step, peak, alone=False, grow=self.fail)
        self.assertEqual(news, [(True, 1), (True, 2), (True, 3), (False, 3)])
        sizer.set(8)
        self.assertFalse(sizer.is_new)
        sizer.failed(8, 8, waited=True, others_hold=True)
        self.assertTrue(sizer.is_new)
        sizer.set(4)
        self.assertTrue(sizer.is_new)

    def test_many_parts_of_a_batch_that_went_well_let_it_grow(self):
        for size, parts, done, peak, grown in (
            (4, 64, 256, 200, [8]),
            (4, 63, 252, 200, []),
            (4, 96, 384, 200, []),
            (4, 64, 1000, 200, []),
            # 100 bytes and 50 a sample: 8 need 500 of 900, and 16 would be 900.
            (8, 64, 512, 500, [16]),
            (8, 64, 512, 501, []),
        ):
            grows = []
            sizer = Sizer(size, 20, Gauge(peak=peak), may_differ=True)
            sizer.begin(1000)
            run = run_of(1000, partition=[size] * parts, done=done)
            sizer.clean_part(run, lambda to, why, grows=grows: grows.append(to))
            self.assertEqual(grows, grown, (size, parts, done, peak))

    def test_clean_steps_let_it_grow_where_no_supervisor_is_there(self):
        for alone, size, grown in ((True, 8, [16]), (False, 8, []), (True, 16, [])):
            grow = mock.Mock()
            sizer = Sizer(size, 2, Gauge(), may_differ=True)
            for step in range(2):
                sizer.begin(16)
                run = run_of(16, partition=[size])
                sizer.clean_step(run, step, 300, alone, grow)
            self.assertEqual([call.args[0] for call in grow.call_args_list], grown, (alone, size))

    def test_a_size_that_grew_and_failed_is_waited_for_twice_as_long(self):
        sizer = Sizer(8, 20, Gauge(), may_differ=True)
        counted = []
        for grown, failed in ((None, 8), (12, 12), (12, 8), (16, 16)):
            if grown is not None:
                sizer.set(8)
                sizer.grow(grown)
            sizer.failed(failed, failed // 2, False, False)
            counted.append(sizer._failed_growths)
        self.assertEqual(counted, [0, 1, 1, 2])

    def test_each_time_it_shrinks_it_waits_longer(self):
        sizer = Sizer(8, 20, Gauge(), may_differ=True)
        for count in (1, 2):
            sizer.shrink(8 // 2**count)
            self.assertEqual((sizer.size, sizer._failed_growths), (8 // 2**count, count))

    def test_a_careful_look_is_at_memory_that_the_heap_gave_back(self):
        gauge = Gauge()
        sizer = Sizer(8, 20, gauge, may_differ=True)
        ahead = Ahead(1, 8, [], Measured())
        with mock.patch("plimsoll.recovery.rules.sizer.give_back_heap") as gives:
            careful = sizer.be_careful(ahead)
        self.assertEqual((gives.call_count, gauge.resets), (1, 1))
        self.assertEqual((careful.measured.base_bytes, sizer.is_careful), (100, True))

    def test_it_looks_at_memory_four_times_a_second(self):
        sizer = Sizer(8, 20, Gauge(), may_differ=True)
        looks, aheads = [], []
        with mock.patch("time.monotonic", side_effect=[10.0, 10.25, 10.375, 10.4375, 10.5]):
            for step in range(5):
                aheads.append(sizer.look_ahead(16, step) is not None)
                looks.append(sizer.looking)
                run = run_of(16, partition=[8, 8])
                peak = 500 if sizer.looking else None
                sizer.clean_step(run, step, peak, alone=False, grow=self.fail)
        # Two while the size is new, of which the first knows of no step before it.
        self.assertEqual(looks, [True, True, False, False, True])
        self.assertEqual(aheads, [False, True, False, False, True])


class GrowthHere(unittest.TestCase):
    def test_growth_that_was_decided_here_is_told(self):
        bridge = Supervisor()
        with mock.patch("plimsoll.bridge.connection.current", return_value=bridge):
            fitting = Fitting("step", Gauge(), 8, 20, True, 60)
        fitting._grow(16, "why")
        self.assertEqual((bridge.told, fitting.sizer.size), (["grow-back"], 16))
        event = fitting.decider.events[-1]
        self.assertEqual((event["rung"], event["from"], event["to"]), ("grow-back", 8, 16))


class Ranks(unittest.TestCase):
    """One of two ranks; the words of both in each round."""

    def agreement(self, *rounds, gone=None):
        self.channel = mock.Mock()
        self.channel.wait.side_effect = lambda number, _: number < len(rounds)
        self.channel.words.side_effect = lambda number: rounds[number]
        self.channel.gone.return_value = gone
        return Agreement(0, 2, self.channel)

    def test_the_smallest_size_of_all_rounds_counts(self):
        agreement = self.agreement(
            [Word(OK, 8), Word(FAILED, 6)],
            [Word(FAILED, 4), Word(FAILED, 5)],
            [Word(OK, 8, "a"), Word(OK, 8, "b")],
        )
        self.assertEqual(agreement.finished(8, "a", 1), Verdict(True, 4, frozenset("ab")))
        self.assertEqual(agreement.round, 3)
        said = [call.args for call in self.channel.say.call_args_list]
        self.assertEqual(said, [(number, Word(OK, 8, "a")) for number in range(3)])

    def test_a_failure_is_said_and_begins_the_next_round(self):
        agreement = self.agreement([], [Word(OK, 2), Word(OK, 2)])
        first = agreement.reported_round
        agreement.failed(2)
        self.channel.say.assert_called_once_with(0, Word(FAILED, 2))
        self.assertEqual((agreement.round, agreement.reported_round), (1, first + 1))
        self.assertTrue(agreement.finished(2, "", 1).ok)

    def test_a_rank_that_is_gone_ends_the_others(self):
        for gone, said in ((None, "within 7 s"), ("1 no memory", "rank 1 no memory gave up")):
            with self.assertRaises(plimsoll.Failure) as caught:
                self.agreement(gone=gone).finished(8, "", 7)
            self.assertEqual(caught.exception.code, "rank-gone")
            self.assertIn(said, caught.exception.fact)

    def test_it_leaves_once_also_where_the_store_is_gone(self):
        agreement = self.agreement()
        self.channel.leave.side_effect = RuntimeError("no store")
        agreement.leave("why")
        agreement.leave("again")
        self.channel.leave.assert_called_once_with("why")

    def test_after_a_failure_the_supervisor_may_want_another_size(self):
        words = [[Word(FAILED, 6), Word(OK, 8)], [Word(OK, 8), Word(OK, 8)]]
        for answer, alive, size in (
            ({"microbatch": 3}, True, 3),
            ({"microbatch": 3}, False, 6),
            ({"microbatch": 0}, True, 6),
            ({"microbatch": "3"}, True, 6),
            ({}, True, 6),
            (None, True, 6),
        ):
            bridge = mock.Mock(alive=alive)
            bridge.wait_for.return_value = answer
            patched = mock.patch("plimsoll.bridge.connection.current", return_value=bridge)
            with self.subTest(answer=answer, alive=alive), patched:
                agreement = self.agreement(*words)
                told = {"type": "barrier", "round": agreement.reported_round, "rank": 0, "ok": True}
                self.assertEqual(agreement.finished(8, "", 1).microbatch, size)
                self.assertEqual(bridge.send.call_args_list[0].args, (told,))


class WhatWasKept(unittest.TestCase):
    def test_what_came_at_once_was_loaded(self):
        for counts, loaded in (
            ((0, 9, 9, 9, 9), True),
            ((0, 0, 0, 9, 9), True),
            # Too few looks, growth in two of them, growth in the last one, none at all.
            ((0, 9, 9, 9), False),
            ((0, 5, 9, 9, 9), False),
            ((0, 0, 0, 0, 9), False),
            ((9, 9, 9, 9, 9), False),
            ((0, 9, 9, 9, 8), True),
        ):
            self.assertEqual(came_at_once(counts), loaded, counts)

    def test_growth_in_more_looks_is_surer(self):
        found = [_confidence([{"looks": 1}, {"looks": looks}]) for looks in (1, 2, 4, 5)]
        self.assertEqual([_confidence([]), *found], [0.5, 0.5, 0.65, 0.95, 0.95])

    def test_tensors_are_told_where_they_are_many_or_many_of_few(self):
        def reported(**counts):
            kinds = {kind: ((3,), kind, "cpu") for kind in counts}
            tensors = Counter({kinds[kind]: count for kind, count in counts.items()})
            last = census(tensors=tensors, sizes=dict.fromkeys(kinds.values(), 4))
            found = kept(census(), last)["tensors"]
            return {one["dtype"]: (one["count"], one["bytes"]) for one in found}

        self.assertEqual(reported(a=10, b=9), {"a": (10, 40)})
        few = dict.fromkeys("abc", 9)
        self.assertEqual(reported(**few, d=2), {})
        self.assertEqual(len(reported(**few, d=3)), 4)

    def test_ten_of_a_kind_are_told(self):
        kinds = [((number,), "float32", "cpu") for number in range(12)]
        last = census(tensors=Counter(dict.fromkeys(kinds, 10)), sizes=dict.fromkeys(kinds, 4))
        self.assertEqual(len(kept(census(), last)["tensors"]), 10)

    def test_containers_of_the_program_count_that_no_collector_knows(self):
        containers = take_census().containers
        self.assertEqual(containers[id(TEXTS)], ("dict", 1000))
        self.assertNotIn(id(FEW_TEXTS), containers)

    def test_objects_are_told_from_a_thousand_on_but_those_of_imports(self):
        own, library = ("sdk.test_rules", "Keeper"), ("collections", "OrderedDict")
        for count, modules, told in (
            (999, 0, []),
            (1000, 0, [own, library]),
            (1099, 1, [own]),
            (1100, 1, [own, library]),
        ):
            last = census(
                objects=Counter({own: count, library: count}),
                modules=frozenset(map(str, range(modules))),
            )
            found = [one["type"] for one in kept(census(), last)["objects"]]
            self.assertEqual(sorted(found), sorted(".".join(name) for name in told))

    def test_a_container_that_grew_by_a_thousand_is_told_with_its_name(self):
        last = census(containers={id(GROWN): ("list", len(GROWN))})
        for before, more in (
            (None, 2000),
            (("list", 1000), 1000),
            (("list", 1001), None),
            # Another one that lay there before.
            (("dict", 1500), 2000),
        ):
            first = census(containers={} if before is None else {id(GROWN): before})
            row = {"type": "list", "of": "int", "length": 2000, "count": more}
            wanted = [] if more is None else [{**row, "where": f"{__name__}.GROWN"}]
            self.assertEqual(kept(first, last)["containers"], wanted)

    def test_who_holds_a_thing_is_named_as_the_program_does(self):
        thing = [object()]
        keeper = Keeper(thing)
        del thing
        self.assertEqual(holder_of(GROWN), f"{__name__}.GROWN")
        self.assertEqual(holder_of(keeper.things[0]), "Keeper.things")
        # Also once its dictionary was asked for.
        self.assertEqual(list(vars(keeper)), ["things"])
        self.assertEqual(holder_of(keeper.things), "Keeper.things")
        read = keeper.reader()
        self.assertEqual(holder_of(read.__closure__[0].cell_contents), READER)
        self.assertIsNone(holder_of(logging.root.manager.loggerDict))


GROWN = list(range(2000))
TEXTS = {str(number): number for number in range(1000)}
FEW_TEXTS = {str(number): number for number in range(999)}
READER = "a variable of Keeper.reader.<locals>.read"


def census(**parts):
    empty = Census(Counter(), {}, Counter(), Counter(), {}, frozenset())
    return empty._replace(**parts)


class Keeper:
    def __init__(self, things):
        self.things = things

    def reader(self):
        mine = [object()]

        def read():
            return mine

        return read


class PartsOfABatch(unittest.TestCase):
    def shares(self, batch, share, size=2, reduction="mean"):
        settings = SimpleNamespace(reduction=reduction, share=share, splitter=Splitter())
        run = BatchRun(batch, 4, settings, None)
        found = []
        while (part := run.part(size)) is not None:
            start, stop, _, weight = part
            found.append((start, stop, round(weight, 9)))
            run.finished(stop - start, torch.tensor(1.0), weight)
        self.assertEqual((run.done, sum(run.partition)), (4, 4))
        return found, float(run.loss)

    def test_a_part_weighs_as_much_as_it_has_of_what_the_mean_is_over(self):
        weights = torch.tensor([1.0, 2.0, 3.0, 4.0])
        whole = mock.Mock(side_effect=lambda part: float(part.sum()))
        self.assertEqual(self.shares(weights, whole)[0], [(0, 2, 0.3), (2, 4, 0.7)])
        self.assertEqual(whole.call_count, 3)
        self.assertEqual(self.shares(weights, whole, size=4), ([(0, 4, 1)], 1))
        self.assertEqual(
            self.shares(weights, whole, reduction="sum"), ([(0, 2, 1), (2, 4, 1)], 2.0)
        )
        self.assertEqual(self.shares(weights * 0, whole)[0], [(0, 2, 0.5), (2, 4, 0.5)])
        # A part without loss is left out.
        weights[:2] = 0
        self.assertEqual(self.shares(weights, whole), ([(2, 4, 1)], 1))
        for labels, found in (
            ([[1, 1], [1, -100], [1, -100], [-100, -100]], [(0, 2, 0.75), (2, 4, 0.25)]),
            ([[-100, -100]] * 4, [(0, 2, 0.5), (2, 4, 0.5)]),
        ):
            batch = (torch.zeros(4, 1), torch.tensor(labels))
            self.assertEqual(self.shares(batch, "tokens")[0], found)
            self.assertEqual(self.shares(batch, "samples")[0], [(0, 2, 0.5), (2, 4, 0.5)])

    def test_a_size_that_is_no_number_of_samples_is_one_clear_error(self):
        for size, code in (
            (0, "empty-batch"),
            (-1, "batch-size-unclear"),
            (True, "batch-size-unclear"),
            (1.5, "batch-size-unclear"),
            ("4", "batch-size-unclear"),
        ):
            with self.assertRaises(plimsoll.Failure) as caught:
                Splitter(size=lambda _, size=size: size).size([])
            self.assertEqual(caught.exception.code, code, size)

    def test_numbers_that_make_no_sense_are_refused(self):
        for wrong in ({"grow_after": 0}, {"patience": -1}, {"microbatch": 0}, {"clip": -1.0}):
            with self.subTest(wrong), self.assertRaises(plimsoll.Failure):
                plimsoll.recovering(**wrong)

    def test_on_the_host_a_step_fails_before_the_kernel_ends_the_process(self):
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for of_host, called in ((HostGauge(), 1), (Gauge(), 0)):
            at = "plimsoll.recovery.steps.step."
            with mock.patch(f"{at}gauge_of", return_value=of_host):
                with mock.patch(f"{at}fail_before_the_kernel_does") as fails:
                    plimsoll.recovering(model, optimizer)
            self.assertEqual(fails.call_count, called)

    def test_each_tensor_that_a_frame_holds_is_found_once(self):
        tensor = torch.zeros(1)
        held = [tensor, [tensor], {"a": (tensor, 7)}, "text"]
        self.assertEqual(len(list(restore._tensors(held, torch.Tensor))), 1)

    def test_the_loss_is_found_in_what_a_function_returned(self):
        loss = torch.tensor(1.0)
        for value in (loss, SimpleNamespace(loss=loss), {"loss": loss}, (loss, 7)):
            self.assertIs(loss_of(value), loss)
        for value in ((), (7, loss), {"other": loss}, None, 1.0, SimpleNamespace(loss=None)):
            with self.assertRaises(plimsoll.Failure):
                loss_of(value)

    def test_ranks_agree_where_there_are_several_and_the_model_is_theirs(self):
        class Wrapped:
            pass

        for available, initialized, world, model, several in (
            (True, True, 2, Wrapped(), True),
            (True, True, 1, Wrapped(), False),
            (True, False, 2, Wrapped(), False),
            (False, True, 2, Wrapped(), False),
            (True, True, 2, torch.nn.Linear(1, 1), False),
        ):
            with (
                mock.patch.multiple(
                    torch.distributed,
                    is_available=lambda available=available: available,
                    is_initialized=lambda initialized=initialized: initialized,
                    get_world_size=lambda world=world: world,
                ),
                mock.patch("torch.nn.parallel.DistributedDataParallel", Wrapped),
                mock.patch("plimsoll.distributed.ranks.DataParallelRanks", lambda model: "several"),
            ):
                found = ranks.of(model)
            self.assertEqual(found == "several", several)
            self.assertEqual(isinstance(found, ranks.Alone), not several)
