"""A session: what it applies, what it measures, what it reports, and that it leaves nothing behind."""

import gc
import json
import os
import tempfile
import threading
import tracemalloc
import unittest
from unittest import mock

import torch
from torch import nn

from sdk.test_debugger import FakeGauge

import plimsoll
from plimsoll.failure import Failure
from plimsoll.sessions.batch_choice import (
    Line,
    choose_batch,
    line_tried,
    measure_samples,
    recommend,
)
from plimsoll.sessions.session import MeteredStep

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
