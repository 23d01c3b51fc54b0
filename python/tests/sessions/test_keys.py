"""Every key of the configuration changes what a session does, or is refused."""

import contextlib
import gc
import http.server
import json
import os
import sys
import tempfile
import threading
import unittest
from collections import Counter
from unittest import mock

import torch
from torch import nn

from sdk.test_debugger import FakeGauge

import plimsoll
from plimsoll.debugging.alerts import THRESHOLDS
from plimsoll.leaks.tracker import Census
from plimsoll.settings.read import OF_THE_COMMAND, leaves, read_settings

DOCS = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "configuration.md")
DATA = [torch.ones(4) for _ in range(8)]
LEAK = {
    "found": True,
    "confidence": 0.6,
    "tensors": [{"bytes": 2**25, "device": "cpu", "looks": 3, "count": 40, "shape": [2]}],
    "objects": [],
    "containers": [],
}
NO_LEAK = {**LEAK, "found": False, "tensors": []}


def config_of(path, value):
    """{"alerts": {"enabled": {"leak": False}}} of ("alerts", "enabled", "leak") and False."""
    for key in reversed(path):
        value = {key: value}
    return value


def merged(one, other):
    found = dict(one)
    for key, value in other.items():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = merged(found[key], value) if both else value
    return found


class Watched:
    """A session whose clock and devices are a test's."""

    def __init__(self, config, device="cuda:0"):
        self.heard, self.now = [], 0.0
        self.session = plimsoll.session(config, on_warning=self._hear)
        self.gauge = FakeGauge(device, 0.1)
        debugger = self.session.debugger
        debugger._gauges, debugger._clock = (lambda: [self.gauge]), (lambda: self.now)

    def _hear(self, warning):
        self.heard.append((self.now, warning["kind"], warning["severity"]))

    def use(self, *shares):
        for share in shares:
            self.gauge.share = share
            self.now += 1
            self.session.debugger.sample()
        return self.heard

    def leak(self, *found):
        for leaks in found:
            self.now += 1
            self.session.debugger._tell_leak(leaks, sure=True)
        return self.heard


def used(device, *shares):
    return lambda config: [one[1:] for one in Watched(config, device).use(*shares)]


def risk(config):
    """Memory that fills up, a percent in two seconds: the forecast gets worse and worse."""
    watched = Watched(merged({"alerts": {"repeatSeconds": 0}}, config))
    watched.use(*[0.1] * 10, *[0.1 + 0.005 * step for step in range(130)])
    return [one for one in watched.heard if one[1] == "out-of-memory-risk"]


def leaking(*found, **alerts):
    return lambda config: Watched(merged({"alerts": alerts}, config), "cpu").leak(*found)


def inside(look):
    def probe(config):
        with plimsoll.session(config) as session:
            return look(session)

    return probe


def threads(name):
    return lambda _: sum(one.name == name for one in threading.enumerate())


def loaded(look):
    return inside(lambda session: look(session.loader(DATA)))


def chosen(key):
    def look(session):
        model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(4)])
        optimizer = torch.optim.SGD(model.parameters())
        found = session.optimize_training(
            model, optimizer, lambda batch: model(batch).float().sum(), torch.ones(4, 8)
        )
        notes = [one["note"] for one in found["changes"] if one["what"] == "checkpointing"]
        return {**found["settings"], "notes": notes, "roomBytes": found["roomBytes"]}[key]

    return inside(look)


def rows_of_python(config):
    with plimsoll.session(merged({"profiling": {"enabled": True}}, config)) as session:
        kept = [[bytes(100) for _ in range(2000)], [bytes(300) for _ in range(2000)]]
        kept.append([bytes(500) for _ in range(2000)])
    return min(2, len(session.report()["leaks"]["python"]))


def compressed(session):
    store = session.buffers()
    store.put("a", bytes(2**20))
    return store.statistics()["memoryBytes"] < 2**19


FULL = [0.5, 0.97]
# For each key: a value, how to see its effect, and (where given) what else is set on both sides.
EFFECTS = {
    "intervalSeconds": (0.02, lambda c: plimsoll.session(c).debugger._interval),
    "devices": (["gpus"], inside(lambda session: list(session.report()["devices"]))),
    "loadLinePercent": (70, loaded(lambda data: data._above)),
    "memoryLimitBytes": (2**30, chosen("roomBytes")),
    "alerts.missedEndCost": (0.01, risk),
    "alerts.falseAlarmCost": (200, risk),
    "alerts.memoryWarningPercent": (40, used("cpu", 0.5)),
    "alerts.memoryCriticalPercent": (80, used("cpu", 0.85)),
    "alerts.gpuWarningPercent": (40, used("cuda:0", 0.5)),
    "alerts.gpuCriticalPercent": (85, used("cuda:0", 0.9)),
    "alerts.hysteresisPercent": (
        1,
        lambda c: used("cuda:0", 0.82, 0.78, 0.82)(merged({"alerts": {"repeatSeconds": 0}}, c)),
    ),
    "alerts.leakBytesPerSecond": (2**26, leaking(LEAK)),
    "alerts.leakGrownBytes": (2**26, leaking(LEAK)),
    "alerts.leakConfidence": (0.7, leaking(LEAK)),
    "alerts.riskWarning": ("low", risk),
    "alerts.riskCritical": ("high", risk),
    "alerts.clearAfterSeconds": (1, leaking(LEAK, NO_LEAK, NO_LEAK, LEAK, repeatSeconds=0)),
    "alerts.repeatSeconds": (2, leaking(LEAK, NO_LEAK, NO_LEAK, LEAK, clearAfterSeconds=0)),
    "alerts.enabled.memory-warning": (False, used("cpu", *FULL)),
    "alerts.enabled.memory-critical": (False, used("cpu", *FULL)),
    "alerts.enabled.gpu-warning": (False, used("cuda:0", *FULL)),
    "alerts.enabled.gpu-critical": (False, used("cuda:0", *FULL)),
    "alerts.enabled.leak": (False, leaking(LEAK)),
    "alerts.enabled.out-of-memory-risk": (False, risk),
    "training.batch": (2, chosen("batch")),
    "training.minBatch": (3, lambda c: chosen("batch")(merged({"memoryLimitBytes": 1}, c))),
    "training.maxBatch": (5, chosen("batch")),
    "training.memoryPercent": (40, chosen("roomBytes")),
    "training.precision": ("fp32", chosen("precision")),
    "training.checkpointing": (False, chosen("checkpointing")),
    "training.segments": (1, chosen("notes")),
    "loading.workers": (1, loaded(lambda data: data.advice.workers)),
    "loading.pinMemory": (True, loaded(lambda data: data.advice.pin_memory)),
    "loading.persistentWorkers": (
        False,
        lambda c: loaded(lambda data: data.advice.persistent_workers)(
            merged({"loading": {"workers": 1}}, c)
        ),
    ),
    "loading.prefetch": (7, loaded(lambda data: data.advice.prefetch_factor)),
    "gc.threshold0": (777, inside(lambda _: gc.get_threshold()[0])),
    "gc.threshold1": (77, inside(lambda _: gc.get_threshold()[1])),
    "gc.threshold2": (78, inside(lambda _: gc.get_threshold()[2])),
    "gc.intervalSeconds": (500, inside(threads("plimsoll-gc"))),
    "gc.abovePercent": (99, inside(threads("plimsoll-collect"))),
    "buffers.limitBytes": (12345, inside(lambda session: session.buffers().statistics()["memoryLimitBytes"])),
    "buffers.compress": (False, inside(compressed)),
    "profiling.enabled": (False, rows_of_python),
    "profiling.top": (1, rows_of_python),
}  # fmt: skip
DELIVER = ("alerts.deliver.log", "alerts.deliver.command", "alerts.deliver.webhook")


class EveryKey(unittest.TestCase):
    def setUp(self):
        # The looks at all objects are another matter, and take their time.
        nothing = Census(Counter(), {}, Counter(), Counter(), {}, frozenset())
        for name, value in (("take_census", lambda: nothing), ("gc", mock.Mock())):
            patch = mock.patch(f"plimsoll.debugging.debugger.{name}", value)
            patch.start()
            self.addCleanup(patch.stop)

    def test_the_table_has_all_keys(self):
        known = {".".join(path) for path, _ in leaves() if path[0] not in OF_THE_COMMAND}
        self.assertEqual(known, {*EFFECTS, *DELIVER, "$schema"})

    def test_each_has_an_effect(self):
        for key, (value, probe) in EFFECTS.items():
            with self.subTest(key), self.assertNoLogs("plimsoll", "ERROR"):
                self.assertNotEqual(probe(config_of(key.split("."), value)), probe({}))

    def test_a_key_of_the_command_is_refused_in_a_dict_and_left_to_it_in_a_file(self):
        values = {"processIntervalSeconds": 1, "nvmlLibrary": "a", "simulate": "leak",
                  "gpus": [{"name": "a", "capacityBytes": 1}], "slurm": {}, "ray": {}}  # fmt: skip
        self.assertEqual(set(values), set(OF_THE_COMMAND))
        for key, value in values.items():
            with self.assertRaises(plimsoll.Failure) as caught:
                plimsoll.session({key: value})
            self.assertEqual(
                (caught.exception.code, caught.exception.where), ("key-of-command", key)
            )
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plimsoll.config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(values, file)
            self.assertEqual(plimsoll.session(path).settings, values)

    def test_what_contradicts_itself_is_one_clear_error(self):
        for config, where in (
            ({"training": {"minBatch": 9, "maxBatch": 8}}, "training.minBatch"),
            ({"alerts": {"memoryWarningPercent": 95}}, "alerts.memoryWarningPercent"),
            ({"alerts": {"gpuCriticalPercent": 70}}, "alerts.gpuWarningPercent"),
            ({"devices": ["gpu:a"]}, "devices"),
        ):
            with self.subTest(config), self.assertRaises(plimsoll.Failure) as caught:
                plimsoll.session(config)
            self.assertEqual(
                (caught.exception.code, caught.exception.where), ("bad-config-value", where)
            )
        for config in (5, ["a"], {"gc": {1: object()}}):
            with self.assertRaises(plimsoll.Failure):
                plimsoll.session(config)

    def test_the_lines_are_those_of_the_command(self):
        with open(DOCS, encoding="utf-8") as file:
            rows = [line.split(" | ") for line in file if line.startswith("| `alerts.")]
        stated = {row[0][len("| `alerts.") : -1]: row[2].strip("`") for row in rows}
        for key, value in THRESHOLDS.items():
            self.assertEqual(str(value), stated[key])

    def test_a_variable_may_be_a_list_or_one_of_two_kinds(self):
        found = read_settings(
            {},
            {
                "PLIMSOLL_DEVICES": "host, gpu:1",
                "PLIMSOLL_ALERTS_DELIVER_COMMAND": '["a b", "c"]',
                "PLIMSOLL_ALERTS_DELIVER_LOG": "false",
            },
        )
        self.assertEqual(found["devices"], ["host", "gpu:1"])
        self.assertEqual(found["alerts"]["deliver"], {"command": ["a b", "c"], "log": False})


class Delivered(unittest.TestCase):
    def test_to_a_file_a_command_and_a_webhook(self):
        got = []

        class Hook(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            server = stack.enter_context(http.server.HTTPServer(("127.0.0.1", 0), Hook))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
            program = (
                "import sys, os; kind = os.environ['PLIMSOLL_ALERT_KIND'];"
                "open(sys.argv[1], 'w').write(kind + sys.stdin.read())"
            )
            by_command = os.path.join(folder, "by-command")
            config = {
                "alerts": {
                    "deliver": {
                        "log": "alerts.log",
                        "command": [sys.executable, "-c", program, by_command],
                        "webhook": f"http://127.0.0.1:{server.server_address[1]}/memory",
                    }
                },
                "intervalSeconds": 86400,
            }
            path = os.path.join(folder, "plimsoll.config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(config, file)
            watched = Watched(path)
            with watched.session:
                watched.use(0.85)
            with open(os.path.join(folder, "alerts.log"), encoding="utf-8") as file:
                self.assertRegex(
                    file.read(),
                    r"^\S+Z \[WARNING\] gpu-warning: gpu:0: 85\.0 % of .* \(measured\)\n$",
                )
            with open(by_command, encoding="utf-8") as file:
                said = file.read()
        self.assertEqual(said[: len("gpu-warning")], "gpu-warning")
        self.assertEqual([json.loads(said[len("gpu-warning") :])], got)
        self.assertEqual((got[0]["kind"], got[0]["deviceId"]), ("gpu-warning", "gpu:0"))

    def test_a_place_that_fails_is_told_and_the_session_goes_on(self):
        deliver = {"log": "/nowhere/alerts.log", "command": ["/nowhere/program"]}
        watched = Watched({"alerts": {"deliver": deliver}, "intervalSeconds": 86400})
        with self.assertLogs("plimsoll", "WARNING") as logs, watched.session:
            watched.use(0.85)
        self.assertEqual(sum("could not be delivered" in line for line in logs.output), 2)

    def test_false_keeps_alerts_off_stderr(self):
        with self.assertNoLogs("plimsoll", "WARNING"):
            Watched({"alerts": {"deliver": {"log": False}}}).use(0.85)


if __name__ == "__main__":
    unittest.main()
