"""The rules of recovery, by the cases that the supervisor's tests read, too (src/run/ladder/rules.test.ts)."""

import json
import os
import unittest
from types import SimpleNamespace

import torch

from sdk import PACKAGE

import plimsoll
from plimsoll.batching.sizing import next_size
from plimsoll.memory.load_line import LOAD_LINE
from plimsoll.recovery.rules.decider import Decider
from plimsoll.recovery.rules.keep_below import Ahead, Reading, keep_below
from plimsoll.recovery.rules.ladder import Failed, decide
from plimsoll.recovery.rules.peaks import MAX_SIZES, Peaks
from plimsoll.recovery.rules.sizes import (
    Growth,
    Measured,
    aligned_part,
    even_part,
    grow_back,
    smaller,
)

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
