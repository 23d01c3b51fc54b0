"""A session: its configuration, each key of it, what it measures and reports, and that it leaves nothing behind."""

import contextlib
import gc
import http.server
import json
import os
import random
import sys
import tempfile
import threading
import tracemalloc
import unittest
from collections import Counter
from unittest import mock

import torch
from torch import nn

from sdk.test_tools import FakeGauge

import plimsoll
from plimsoll.debugging.alerts import THRESHOLDS
from plimsoll.failure import Failure
from plimsoll.leaks.tracker import Census
from plimsoll.sessions.batch_choice import (
    Line,
    choose_batch,
    line_tried,
    measure_samples,
    recommend,
)
from plimsoll.sessions.session import MeteredStep
from plimsoll.settings.read import OF_THE_COMMAND, checked, leaves, read_settings, variable_of


class Settings(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.mkdir(os.path.join(self.folder.name, ".git"))

    def write(self, text, name="plimsoll.config.json"):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return path

    def read(self, config=None, **environment):
        return read_settings(config, environment, self.folder.name)

    def refused(self, code, *given, **environment):
        with self.assertRaises(Failure) as caught:
            self.read(*given, **environment)
        self.assertEqual(caught.exception.code, code)
        return str(caught.exception)

    def test_there_is_none_unless_one_is_found(self):
        self.assertEqual(self.read(), {})

    def test_finds_the_file_above_and_takes_variables_over_it(self):
        self.write('{"training": {"batch": 8, "precision": "bf16"}}')
        deep = os.path.join(self.folder.name, "a", "b")
        os.makedirs(deep)
        variables = {"PLIMSOLL_TRAINING_BATCH": "16", "PLIMSOLL_BUFFERS_COMPRESS": "False"}
        found = read_settings(None, variables, deep)
        self.assertEqual(found["training"], {"batch": 16, "precision": "bf16"})
        self.assertEqual(found["buffers"], {"compress": False})

    def test_takes_a_named_file_and_a_dict(self):
        path = self.write('{"gc": {"threshold0": 700}}', "other.json")
        self.assertEqual(self.read(path), {"gc": {"threshold0": 700}})
        self.assertEqual(self.read(PLIMSOLL_CONFIG=path), {"gc": {"threshold0": 700}})
        self.assertEqual(self.read({"memoryLimitBytes": 8}), {"memoryLimitBytes": 8})

    def test_refuses_what_is_wrong_in_one_line(self):
        told = self.refused("unknown-key", {"gc": {"treshold0": 1}})
        self.assertIn('Did you mean "threshold0"?', told)
        self.refused("bad-config-value", {"training": {"batch": 2.5}})
        self.refused("bad-config-value", {"training": {"batch": True}})
        self.refused("bad-config-value", {"training": {"batch": 0}})
        self.refused("bad-config-value", {"training": {"precision": "fp8"}})
        self.refused("bad-config-value", {"gc": 3})
        self.refused("bad-config-value", {"gpus": [{"name": "Ours"}]})
        self.refused("bad-config-value", {}, PLIMSOLL_TRAINING_BATCH="many")
        self.refused("unreadable-config-file", os.path.join(self.folder.name, "none.json"))
        for text in ("{", '{"a": 1, "a": 2}', b"\xff\xfe", "[" * 100_000):
            self.refused("bad-config-file", self.write(text))
        self.refused("config-file-too-large", self.write(" " * (256 * 1024 + 1)))

    def test_takes_no_file_of_another_user_that_was_only_found(self):
        if not hasattr(os, "getuid") or os.getuid() != 0:
            self.skipTest("only root can give a file to another user")
        path = self.write("{}")
        os.chown(path, 12345, 12345)
        self.refused("foreign-config-file")
        self.assertEqual(self.read(path), {})

    def test_answers_settings_or_a_failure_whatever_the_document_is(self):
        draw = random.Random(7)
        atoms = [None, True, 0, -1, 2.5, 1e308, "", "x", [], {}, "PLIMSOLL", [1], [{}]]
        paths = [path for path, _ in leaves()]
        for _ in range(2000):
            document = {}
            for _ in range(draw.randrange(4)):
                at = document
                *above, last = draw.choice(paths)
                for key in above:
                    at = at.setdefault(key, {})
                    at = at if isinstance(at, dict) else {}
                at[last] = draw.choice(atoms)
            try:
                self.assertEqual(checked(document, "test"), document)
            except Failure:
                continue

    def test_names_variables_as_the_command_does(self):
        self.assertEqual(variable_of(("alerts", "enabled", "out-of-memory-risk")),
                         "PLIMSOLL_ALERTS_ENABLED_OUT_OF_MEMORY_RISK")  # fmt: skip

    def test_takes_the_example_of_the_documentation(self):
        page = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "configuration.md")
        with open(page, encoding="utf-8") as file:
            example = file.read().split("## Jobs and sessions")[1].split("```json\n")[1]
        document = json.loads(example.split("```")[0])
        self.assertEqual(self.read(document), document)


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


CONFIG = {
    "intervalSeconds": 0.05,
    "training": {"batch": 8, "minBatch": 2, "maxBatch": 64, "memoryPercent": 85,
                 "precision": "amp-bf16", "checkpointing": True, "segments": 2},
    "loading": {"workers": 0},
    "gc": {"threshold0": 701, "threshold1": 11, "threshold2": 12, "intervalSeconds": 60},
    "buffers": {"limitBytes": 2**20, "compress": True},
}  # fmt: skip


def model_and_optimizer():
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(32, 32) for _ in range(6)], nn.Linear(32, 1))
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def batch_of(samples):
    return {"x": torch.ones(samples, 32), "y": torch.zeros(samples, 1)}


class Sessions(unittest.TestCase):
    def test_applies_the_configuration_and_puts_everything_back(self):
        before, threads = gc.get_threshold(), set(threading.enumerate())
        callbacks = len(gc.callbacks)
        with plimsoll.session(CONFIG) as session:
            self.assertEqual(gc.get_threshold(), (701, 11, 12))
            self.assertIn("cpu", session.report()["devices"])
        self.assertEqual(gc.get_threshold(), before)
        self.assertEqual(len(gc.callbacks), callbacks)
        # Threads of tests before may end meanwhile.
        self.assertLessEqual(set(threading.enumerate()), threads)
        with self.assertRaises(Failure), plimsoll.session(CONFIG) as session:
            session.__enter__()
        self.assertEqual(gc.get_threshold(), before)

    def test_names_lines_of_python_that_grow_and_records_for_moments_alone(self):
        session = plimsoll.session({"profiling": {"enabled": True, "top": 3}})
        self.assertFalse(tracemalloc.is_tracing())
        with session:
            kept = [bytes(1000) for _ in range(2000)]
        self.assertFalse(tracemalloc.is_tracing())
        self.assertEqual(len(kept), 2000)
        [line, *others] = session.report()["leaks"]["python"]
        self.assertRegex(line["where"], r"test_session\.py:\d+$")
        self.assertGreater(line["bytes"], 1_000_000)
        self.assertLessEqual(len(others), 2)

    def test_the_share_of_the_host_is_that_of_the_machine(self):
        # 2 of 10 GiB are this program's; others hold 6.
        machine = {"MemTotal": 10 * 2**30, "MemAvailable": 2 * 2**30}
        with (
            mock.patch("plimsoll.memory.host.machine", lambda: machine),
            mock.patch("plimsoll.memory.host.resident_bytes", lambda: 2 * 2**30),
            mock.patch("plimsoll.memory.host.cgroup_use", lambda: None),
        ):
            host = plimsoll.session({}).report()["devices"]["cpu"]["currentUsage"]
        self.assertEqual((host["usedPercent"], host["totalBytes"]), (80.0, 10 * 2**30))
        self.assertEqual((host["freeBytes"], host["allocatedBytes"]), (2 * 2**30, 2 * 2**30))

    def test_reports_training_model_garbage_and_buffers(self):
        model, optimizer = model_and_optimizer()
        data = [(torch.ones(32), torch.zeros(1)) for _ in range(24)]
        with plimsoll.session(CONFIG) as session:
            done = session.optimize_model(model, optimizer)
            self.assertIn("checkpointing", [change.what for change in done.changes])
            step = session.training_step(
                model, optimizer, lambda b: nn.functional.mse_loss(model(b[0]), b[1])
            )
            for batch in session.loader(data, shuffle=True):
                step(batch)
            store = session.buffers()
            store.put("a", b"1" * 1000)
            store.get("a")
            gc.collect()
            report = session.report()
        training = report["training"]
        self.assertEqual((training["steps"], training["samples"], training["batch"]), (3, 24, 8))
        self.assertGreater(training["samplesPerSecond"], 0)
        self.assertGreater(training["stepSeconds"], 0)
        self.assertEqual(report["model"]["parameters"], sum(p.numel() for p in model.parameters()))
        self.assertEqual(report["model"]["bytes"], 4 * report["model"]["parameters"])
        self.assertEqual(report["gc"]["thresholds"], [701, 11, 12])
        self.assertGreaterEqual(report["gc"]["collections"], 1)
        self.assertEqual(report["buffers"][0]["hits"], 1)
        self.assertEqual(json.loads(json.dumps(report))["source"], "measured")

    def test_finds_the_batch_and_changes_nothing_but_the_model(self):
        model, optimizer = model_and_optimizer()
        seed = torch.random.get_rng_state()
        weights = [p.detach().clone() for p in model.parameters()]
        with plimsoll.session(CONFIG) as session:
            found = session.optimize_training(
                model, optimizer,
                lambda b: nn.functional.mse_loss(model(b["x"]), b["y"]), batch_of(4),
            )  # fmt: skip
        self.assertEqual(
            found["settings"],
            {"batch": 8, "accumulation": 1, "precision": "amp-bf16", "checkpointing": True},
        )
        self.assertGreater(found["sampleBytes"], 0)
        self.assertTrue(all(p.grad is None for p in model.parameters()))
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(weights, model.parameters())))
        self.assertTrue(torch.equal(seed, torch.random.get_rng_state()))
        self.assertEqual(len(optimizer.state), 0)

    def test_weights_that_are_trained_keep_their_type_in_every_precision(self):
        for precision, found in (("fp32", "fp32"), ("bf16", "amp-bf16"), ("amp-bf16", "amp-bf16")):
            model, optimizer = model_and_optimizer()
            model.eval()
            with plimsoll.session({"training": {"precision": precision}}) as session:
                settings = session.optimize_training(
                    model, optimizer, lambda b, model=model: model(b["x"]).sum(), batch_of(4)
                )["settings"]
            self.assertEqual(settings["precision"], found)
            self.assertEqual({p.dtype for p in model.parameters()}, {torch.float32})
            self.assertFalse(model.training)

    def test_needs_two_samples(self):
        model, optimizer = model_and_optimizer()
        with plimsoll.session({}) as session, self.assertRaises(ValueError):
            session.optimize_training(model, optimizer, lambda b: model(b["x"]).sum(), batch_of(1))
        self.assertTrue(all(p.grad is None for p in model.parameters()))

    def test_writes_its_report_whole(self):
        with tempfile.TemporaryDirectory() as folder, plimsoll.session({}) as session:
            path = os.path.join(folder, "report.json")
            session.write_report(path)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["training"]["steps"], 0)
            self.assertEqual(os.listdir(folder), ["report.json"])

    def test_tells_a_callback_when_memory_is_short(self):
        heard = []
        limits = {"intervalSeconds": 86400, "alerts": {"gpuWarningPercent": 60}}
        with plimsoll.session(limits, on_warning=heard.append) as session:
            session.debugger._gauges = lambda: [FakeGauge("cuda:0", 0.5)]
            session.debugger.sample()
            self.assertEqual(heard, [])
            session.debugger._gauges = lambda: [FakeGauge("cuda:1", 0.7)]
            session.debugger.sample()
        self.assertEqual(
            [(one["device"], one["kind"]) for one in heard], [("cuda:1", "gpu-warning")]
        )

    def test_tells_callbacks_of_tensors_that_were_kept(self):
        heard, added, kept = [], [], []
        limits = {"intervalSeconds": 86400, "alerts": {"leakGrownBytes": 2**20}}
        with plimsoll.session(limits, on_warning=heard.append) as session:
            session.add_callback(added.append)
            kept += [torch.zeros(2**10, 16) for _ in range(40)]
        self.assertEqual([one["kind"] for one in heard], ["leak"])
        self.assertEqual(heard, added)
        self.assertGreaterEqual(heard[0]["grownBytes"], 40 * 2**16)
        self.assertIn("[1024, 16]", heard[0]["recommendations"][0])
        with self.assertRaises(plimsoll.Failure):
            session.add_callback(None)


class Choosing(unittest.TestCase):
    def test_takes_the_largest_part_that_fits_and_accumulates_the_rest(self):
        self.assertEqual(choose_batch(10, 32, 1, None), {"batch": 10, "accumulation": 4})
        self.assertEqual(choose_batch(990, 32, 1, None)["batch"], 32)
        self.assertEqual(choose_batch(990, 32, 1, 16)["batch"], 16)

    def test_never_goes_below_the_least_batch_nor_below_one(self):
        self.assertEqual(choose_batch(0, 32, 8, None)["batch"], 8)
        self.assertEqual(choose_batch(0, 32, 1, None)["batch"], 1)

    def test_tries_what_should_fit_and_draws_the_line_again(self):
        # Small parts take 100 whatever their size: the line through them is too steep.
        line, tried = line_tried(Line(4, 140, 30, 1100), 512, lambda samples: 100 + 10 * samples)
        self.assertEqual(tried[0], 36)
        self.assertEqual(line.fits(), 100)

    def test_comes_down_where_memory_ran_out_or_pieces_are_lost(self):
        def attempt(samples):
            return None if samples > 80 else 12 * samples

        line, tried = line_tried(Line(4, 40, 10, 1000), 512, attempt)
        self.assertEqual(tried[0], 100)
        self.assertLessEqual(line.fits(), 80)
        self.assertGreater(line.fits(), 60)

    def test_measures_on_a_card_by_what_its_allocator_holds(self):
        # A simulated card: a sample takes 1 KiB, and more than 40 samples do not fit.
        ran = []

        class Card:
            index = 0
            used_bytes = staticmethod(lambda: 0)
            reset_peak = staticmethod(lambda: None)
            peak_bytes = staticmethod(lambda: 1024 * ran[-1])

        def loss(batch):
            ran.append(len(batch["x"]))
            if ran[-1] > 40:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            return model(batch["x"]).sum()

        model, optimizer = model_and_optimizer()
        room = 1024 * 64 + 3 * sum(4 * p.numel() for p in model.parameters())
        with (
            mock.patch("plimsoll.sessions.batch_choice.gauge_of", return_value=Card()),
            mock.patch("torch.cuda.memory_reserved", return_value=0),
            mock.patch("torch.cuda.max_memory_reserved", lambda _: 1024 * ran[-1]),
            mock.patch("torch.cuda.empty_cache"),
        ):
            found = measure_samples(
                model, optimizer, loss, batch_of(64), None, room=room, wanted=64
            )
        self.assertEqual(found["sampleBytes"], 1024)
        self.assertEqual(found["measuredWith"], [1, 4, 64, 56, 49, 42])
        self.assertLessEqual(found["fitsSamples"], 40)
        self.assertTrue(all(p.grad is None for p in model.parameters()))

    def test_tries_no_more_samples_than_there_are(self):
        line, tried = line_tried(Line(4, 40, 10, 1000), 16, lambda samples: 20 * samples)
        self.assertEqual(tried, [16])
        self.assertEqual(line.fits(), 44)
        self.assertEqual(line_tried(Line(4, 40, 10, 1000), 4, self.fail)[1], [])

    def test_counts_steps_by_a_clock(self):
        times = iter([0.0, 2.0, 2.0, 3.0])

        class Step:
            events = ()
            microbatch = 4

            def __call__(self, batch, loss):
                return len(batch["x"])

        step = MeteredStep(Step(), None, clock=lambda: next(times))
        step(batch_of(4))
        step(batch_of(2))
        found = step.report()
        self.assertEqual((found["samples"], found["samplesPerSecond"]), (6, 2.0))
        self.assertEqual((found["stepSeconds"], found["longestStepSeconds"]), (1.5, 2.0))


class Recommending(unittest.TestCase):
    def report(self, **parts):
        usage = {
            "totalBytes": 10 * 2**30,
            "freeBytes": 9 * 2**30,
            "reservedBytes": 0,
            "allocatedBytes": 0,
            "peakReservedBytes": 6 * 2**30,
            "usedPercent": 10.0,
        }
        return {
            "devices": {"cuda:0": {"currentUsage": {**usage, **parts.pop("usage", {})}}},
            "leaks": {"tensors": []},
            "gc": {"totalSeconds": 0.0},
            "training": {"steps": 0},
            "model": {"parameters": "unknown", "bytes": "unknown", "changes": []},
            **parts,
        }

    def codes(self, **parts):
        return [one["code"] for one in recommend(self.report(**parts), 0.85, 10.0)]

    def test_has_nothing_to_say_of_a_quiet_program(self):
        self.assertEqual(self.codes(), [])

    def test_orders_by_what_is_saved(self):
        usage = {"reservedBytes": 2**30, "freeBytes": 0, "usedPercent": 100.0}
        found = self.codes(
            usage=usage,
            gc={"totalSeconds": 0.5},
            model={"parameters": 5, "bytes": 20, "changes": []},
        )
        self.assertEqual(found, ["device-full", "allocator-cache", "garbage", "model"])

    def test_names_an_unused_card_after_steps_alone(self):
        usage = {"peakReservedBytes": 2**30}
        self.assertEqual(self.codes(usage=usage), [])
        self.assertEqual(self.codes(usage=usage, training={"steps": 5}), ["batch"])


if __name__ == "__main__":
    unittest.main()
