"""The forecast inside a program: the rules of `plimsoll oom`, by the same cases."""

import json
import math
import os
import re
import unittest

from sdk import PACKAGE

from plimsoll.forecasting.forecaster import Forecaster, MemoryPoint

ROOT = os.path.dirname(PACKAGE)
MIB = 2**20

# The same file is read by src/watch/diagnosis/forecast-rules.test.ts: both must answer alike.
with open(os.path.join(ROOT, "test", "fixtures", "forecast-rules.json"), encoding="utf-8") as file:
    RULES = json.load(file)


def value_at(corners, seconds):
    """Straight between two corners, a jump where their seconds are the same."""
    later = next((index for index, (at, _) in enumerate(corners) if at > seconds), len(corners))
    before, low = corners[later - 1]
    after, high = corners[later] if later < len(corners) else (before, low)
    share = (seconds - before) / (after - before) if after > before else 0
    return math.floor((low + (high - low) * share) * MIB + 0.5)


def points_of(case):
    count = math.ceil(case["held"][-1][0] / case["intervalSeconds"])
    for seconds in (index * case["intervalSeconds"] for index in range(count)):
        held = value_at(case["held"], seconds)
        live = value_at(case["live"], seconds) if "live" in case else None
        yield MemoryPoint(seconds, case["limitMib"] * MIB, held, live)


def recorded_points(name):
    with open(os.path.join(ROOT, "bench", "truth", name), encoding="utf-8") as file:
        trace = json.load(file)
    columns = [trace["columns"].index(key) for key in ("seconds", "reserved", "allocated")]
    for row in trace["rows"]:
        seconds, reserved, allocated = (row[column] for column in columns)
        yield MemoryPoint(seconds, trace["capacity"], reserved, allocated)


def changes_in(points):
    """The forecast each time its risk changes, and at the end."""
    forecaster, changes, risk, last = Forecaster(), [], None, None
    for point in points:
        forecaster.add(point)
        now = forecaster.forecast()
        last = [
            point.seconds,
            now["risk"],
            now["etaSeconds"],
            now["lowSeconds"],
            now["highSeconds"],
            now["confidence"],
            now["bytesPerSecond"],
        ]
        if now["risk"] != risk:
            risk = now["risk"]
            changes.append(last)
    return changes if changes[-1] is last else [*changes, last]


class Rules(unittest.TestCase):
    def same(self, changes, expected):
        self.assertEqual([one[:2] for one in changes], [one[:2] for one in expected])
        for one, other in zip(changes, expected):
            for value, wanted in zip(one, other):
                if isinstance(wanted, str):
                    self.assertEqual(value, wanted, (one, other))
                else:
                    # Logarithms may differ in their last digit from one machine to another.
                    within = max(0.005, 1e-6 * abs(wanted))
                    self.assertAlmostEqual(value, wanted, delta=within, msg=(one, other))

    def test_series_are_judged_as_in_typescript(self):
        for case in RULES["series"]:
            with self.subTest(case["name"]):
                self.same(changes_in(points_of(case)), case["changes"])

    def test_recorded_runs_are_judged_as_in_typescript(self):
        self.assertGreater(len(RULES["recorded"]), 10)
        for case in RULES["recorded"]:
            with self.subTest(case["file"]):
                self.same(changes_in(recorded_points(case["file"])), case["changes"])

    def test_a_forecast_says_why(self):
        forecaster = Forecaster()
        self.assertEqual(forecaster.forecast()["reason"], "Nothing has been read yet.")
        for second in range(40):
            forecaster.add(MemoryPoint(second * 0.5, 2**30, (100 + 5 * second) * MIB))
        self.assertRegex(
            forecaster.forecast()["reason"], r"^Memory grows by 10\.0 MiB a second, seen for \d"
        )

    def test_the_figures_of_a_reason_follow_from_one_another(self):
        for held in (lambda at: 100 + 10 * at, lambda at: 100 + 2 * math.exp(at / 8)):
            forecaster, checked = Forecaster(), 0
            for step in range(90):
                forecaster.add(MemoryPoint(step * 0.5, 2**30, round(held(step * 0.5) * MIB)))
                forecast = forecaster.forecast()
                if forecast["etaSeconds"] in ("unknown", "never", 0.0):
                    continue
                figures = re.findall(r"([\d.]+) MiB", forecast["reason"])
                rate, room = (float(figure) for figure in figures[-2:])
                self.assertAlmostEqual(room / rate / forecast["etaSeconds"], 1, delta=0.05)
                checked += 1
            self.assertGreater(checked, 0)

    def test_points_at_one_time_and_memory_of_nothing_break_nothing(self):
        forecaster = Forecaster()
        for held in range(50):
            forecaster.add(MemoryPoint(1.0, 0, held * MIB))
        for _ in range(50):
            forecaster.add(MemoryPoint(9.0, 0, 0, 0))
        self.assertEqual(forecaster.forecast()["risk"], "critical")
