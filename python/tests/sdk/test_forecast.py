"""The forecast inside a program: asked of the command."""

import json
import os
import unittest
from unittest import mock

from sdk import PACKAGE

from plimsoll.failure import Failure
from plimsoll.forecasting import forecaster as asking
from plimsoll.forecasting.forecaster import RISKS, Forecaster, MemoryPoint

ROOT = os.path.dirname(PACKAGE)
MIB = 2**20


def recorded_points(name):
    with open(os.path.join(ROOT, "bench", "truth", "traces", name), encoding="utf-8") as file:
        trace = json.load(file)
    columns = [trace["columns"].index(key) for key in ("seconds", "reserved", "allocated")]
    for row in trace["rows"]:
        seconds, reserved, allocated = (row[column] for column in columns)
        yield MemoryPoint(seconds, trace["capacity"], reserved, allocated)


def risks_of(points):
    forecaster, found = Forecaster(), []
    for point in points:
        forecaster.add(point)
        found.append(forecaster.forecast()["risk"])
    return found


class Forecasts(unittest.TestCase):
    def test_a_leak_is_announced_and_steady_work_is_not(self):
        leak = risks_of(recorded_points("leak-linear-0.json"))
        self.assertIn("critical", leak)
        steady = risks_of(recorded_points("steady-0.json"))
        self.assertFalse({"high", "critical"} & set(steady))
        self.assertLessEqual(set(leak) | set(steady), {*RISKS, "unknown"})

    def test_a_forecast_has_probabilities_and_says_why(self):
        forecaster = Forecaster()
        self.assertEqual(forecaster.forecast()["reason"], "Nothing has been read yet.")
        for second in range(40):
            forecaster.add(MemoryPoint(second * 0.5, 2**30, (100 + 5 * second) * MIB))
        forecast = forecaster.forecast()
        self.assertRegex(forecast["reason"], r"grows by [\d.]+ MiB a second")
        shares = list(forecast["probability"].values())
        self.assertEqual(shares, sorted(shares))
        self.assertEqual(forecast["source"], "estimated")

    def test_each_forecaster_follows_a_series_of_its_own(self):
        level, full = Forecaster(), Forecaster()
        for second in range(10):
            level.add(MemoryPoint(float(second), 2**30, 100 * MIB))
            full.add(MemoryPoint(float(second), 2**30, 2**30))
        self.assertEqual([level.forecast()["risk"], full.forecast()["risk"]], ["none", "critical"])

    def test_without_the_command_the_forecast_is_unknown_and_says_what_to_do(self):
        missing = Failure("no-command", "the command plimsoll was not found", "install the wheel")
        with (
            mock.patch.object(asking, "command", side_effect=missing),
            mock.patch.object(asking, "_asked", None),
        ):
            forecaster = Forecaster()
            forecaster.add(MemoryPoint(0.0, 2**30, MIB))
            forecast = forecaster.forecast()
        self.assertEqual(forecast["risk"], "unknown")
        self.assertIn("install the wheel", forecast["reason"])

    def test_a_command_that_ends_leaves_the_program_running(self):
        with mock.patch.object(asking, "_asked", None):
            forecaster = Forecaster()
            forecaster.add(MemoryPoint(0.0, 2**30, MIB))
            forecaster.forecast()
            asking._asked._process.kill()
            asking._asked._process.wait()
            forecaster.add(MemoryPoint(1.0, 2**30, MIB))
            forecaster.add(MemoryPoint(2.0, 2**30, MIB))
            self.assertEqual(forecaster.forecast()["risk"], "unknown")
