"""The debugger in the order people use it: start, train, stop, report."""

import gc
import json
import logging
import sys
import threading
import types
import unittest

import torch
from torch import nn

from sdk import HANG_SECONDS

import plimsoll
from plimsoll.leaks.kept import came_at_once, kept
from plimsoll.leaks.tracker import take_census

MODULE = sys.modules[__name__]
GIB = 2**30


class Node:
    pass


class FakeGauge:
    def __init__(self, device, share=0.5):
        self.device = device
        self.share = share

    def used_share(self):
        return self.share

    def memory_point(self):
        return GIB, int(self.share * GIB), None

    def figures(self):
        total = 1000
        held = {
            "allocatedBytes": 100,
            "reservedBytes": 200,
            "peakAllocatedBytes": 100,
            "peakReservedBytes": 200,
        }
        return {**held, "freeBytes": total - int(self.share * total), "totalBytes": total}


def train(steps, each):
    """A usual loop: a model and its optimizer are made in it."""
    model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(steps):
        loss = model(torch.randn(8, 16)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        each(step, loss)
    return model, optimizer


class Quiet(unittest.TestCase):
    def setUp(self):
        logger = logging.getLogger("plimsoll")
        self.addCleanup(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL)


class Leaks(Quiet):
    def monitored(self, each, steps=40):
        debug = plimsoll.debugger()
        debug.start()
        held = train(steps, each)
        debug.stop()
        report = debug.report()
        del held
        json.dumps(report)
        return report

    def test_forty_tensors_and_twenty_thousand_objects_are_found(self):
        tensors, nodes = [], []

        def each(step, loss):
            tensors.append(torch.zeros(64, 3))
            nodes.extend(Node() for _ in range(500))

        report = self.monitored(each)
        leaks = report["leaks"]
        self.assertTrue(leaks["found"])
        [found] = [one for one in leaks["tensors"] if one["shape"] == [64, 3]]
        self.assertEqual((found["count"], found["bytes"]), (40, 40 * 64 * 3 * 4))
        counts = {one["type"]: one["count"] for one in leaks["objects"]}
        self.assertEqual(counts[f"{__name__}.Node"], 20_000)
        self.assertTrue(any("[64, 3]" in said for said in report["recommendations"]))
        self.assertTrue(any("Node" in said for said in report["recommendations"]))
        self.assertGreaterEqual(leaks["confidence"], 0.5)

    def test_losses_kept_with_their_graph_are_told_as_such(self):
        losses = []
        report = self.monitored(lambda _, loss: losses.append(loss))
        [found] = [one for one in report["leaks"]["tensors"] if one["shape"] == []]
        self.assertGreaterEqual(found["withGraph"], 40)
        self.assertTrue(any("loss.item()" in said for said in report["recommendations"]))

    def test_what_the_collector_does_not_know_is_found_by_its_container(self):
        MODULE.cache = {}
        self.addCleanup(delattr, MODULE, "cache")
        report = self.monitored(
            lambda step, _: MODULE.cache.update((f"{step}-{n}", "x") for n in range(500))
        )
        [found] = [
            one for one in report["leaks"]["containers"] if one["where"] == f"{__name__}.cache"
        ]
        self.assertEqual((found["type"], found["of"], found["count"]), ("dict", "str", 20_000))

    def test_a_container_is_named_after_everything_was_frozen(self):
        gc.freeze()
        self.addCleanup(gc.unfreeze)
        self.test_what_the_collector_does_not_know_is_found_by_its_container()

    def test_a_loop_that_keeps_nothing_has_none(self):
        report = self.monitored(lambda *_: None)
        self.assertEqual(report["leaks"]["found"], False, report["leaks"])

    def test_cycles_that_were_not_collected_are_not_kept(self):
        def each(step, _):
            for _ in range(500):
                node = Node()
                node.itself, node.weight = node, torch.zeros(3, 7)

        gc.disable()
        self.addCleanup(gc.enable)
        self.assertFalse(self.monitored(each, steps=4)["leaks"]["found"])

    def test_what_is_loaded_at_once_is_no_leak_where_looks_between_show_it(self):
        looks = [take_census()]
        dataset = [torch.zeros(5, 9) for _ in range(50)]
        looks += [take_census() for _ in range(4)]
        self.assertEqual(kept(looks[0], looks[-1], looks[1:-1])["tensors"], [])
        self.assertEqual(kept(looks[0], looks[-1])["tensors"][0]["count"], 50)
        self.assertTrue(came_at_once([0, 50, 50, 50, 50]))
        self.assertFalse(came_at_once([0, 10, 20, 30, 40]))
        del dataset

    def test_it_can_be_used_twice_and_stopped_twice(self):
        debug = plimsoll.debugger()
        debug.stop()
        for _ in range(2):
            with debug:
                pass
            debug.stop()
        self.assertFalse(debug.report()["leaks"]["found"])


class Warnings(Quiet):
    def debugger(self, *gauges, **options):
        self.now = 0.0
        return plimsoll.debugger(clock=lambda: self.now, gauges=lambda: list(gauges), **options)

    def feed(self, debug, gauge, shares):
        for share in shares:
            gauge.share = share
            self.now += 1
            debug.sample()

    def test_it_warns_once_for_each_rise_with_confidence_and_advice(self):
        gauge, warned = FakeGauge("cuda:0"), []
        debug = self.debugger(gauge, on_warning=warned.append)
        self.feed(debug, gauge, [0.5] * 5 + [0.5 + 0.01 * i for i in range(40)])
        self.assertEqual([one["risk"] for one in warned], ["high", "critical"])
        for one in warned:
            self.assertTrue(0 < one["confidence"] <= 1)
            self.assertTrue(one["recommendations"])
            self.assertEqual(one["device"], "cuda:0")
        device = debug.report()["devices"]["cuda:0"]
        self.assertEqual(device["statistics"]["samplesCount"], 45)
        self.assertAlmostEqual(device["statistics"]["maxUtilization"], 89.0)

    def test_a_line_that_was_passed_is_the_reason_and_measured(self):
        gauge, warned = FakeGauge("cuda:0"), []
        debug = self.debugger(gauge, on_warning=warned.append)
        self.feed(debug, gauge, [0.9, 0.96])
        self.assertEqual(
            [(one["risk"], one["source"], one["reason"]) for one in warned],
            [
                ("high", "measured", "90.0 % of the memory is used; the line is at 85 %."),
                ("critical", "measured", "96.0 % of the memory is used; the line is at 95 %."),
            ],
        )

    def test_a_value_at_the_line_does_not_warn_at_each_sample(self):
        gauge, warned = FakeGauge("cuda:0"), []
        debug = self.debugger(gauge, on_warning=warned.append)
        self.feed(debug, gauge, [0.8499, 0.8501] * 30)
        self.assertEqual(len(warned), 1)
        self.feed(debug, gauge, [0.5] * 30 + [0.86])
        self.assertEqual(len(warned), 2)

    def test_a_callback_that_fails_is_told_once_and_watching_goes_on(self):
        calls = []

        def fails(warning):
            calls.append(warning["risk"])
            raise SystemExit("no mail server")

        gauge = FakeGauge("cuda:0")
        debug = self.debugger(gauge, on_warning=fails)
        logging.getLogger("plimsoll").setLevel(logging.WARNING)
        with self.assertLogs("plimsoll", "WARNING") as logs:
            self.feed(debug, gauge, [0.9] * 20 + [0.96] * 20)
        self.assertEqual(calls, ["high", "critical"])
        self.assertEqual(sum("on_warning failed" in line for line in logs.output), 1)
        report = debug.report()
        self.assertEqual(
            report["callbackErrors"], {"count": 2, "last": "SystemExit: no mail server"}
        )
        self.assertEqual(report["devices"]["cuda:0"]["statistics"]["samplesCount"], 40)

    def test_it_sees_every_device(self):
        one, other, warned = FakeGauge("cuda:0", 0.2), FakeGauge("cuda:1", 0.96), []
        debug = self.debugger(one, other, on_warning=warned.append)
        debug.sample()
        self.assertEqual([(one["device"], one["risk"]) for one in warned], [("cuda:1", "critical")])
        report = debug.report()
        self.assertEqual(list(report["devices"]), ["cuda:0", "cuda:1"])
        self.assertEqual(report["summary"]["totalDevices"], 2)
        self.assertAlmostEqual(report["summary"]["usedPercent"], 58.0)

    def test_programs_of_an_earlier_tool_find_its_names(self):
        debug = self.debugger(FakeGauge("cuda:0", 0.2))
        self.assertIs(debug.start_monitoring(), debug)
        debug.stop_monitoring()
        summary = debug.get_status_report()["summary"]
        self.assertEqual(summary["overallUtilizationPercent"], summary["usedPercent"])

    def test_the_cards_are_those_that_the_process_uses(self):
        from plimsoll.debugging import debugger

        held = {0: 0, 1: 5, 2: 0, 3: 9}
        cuda = types.SimpleNamespace(
            is_initialized=lambda: True,
            current_device=lambda: 0,
            device_count=lambda: 4,
            memory_reserved=lambda index: held[index],
        )
        real = torch.cuda
        torch.cuda = cuda
        try:
            self.assertEqual(debugger._used_cards(), [0, 1, 3])
            self.assertEqual(
                [one.device for one in debugger.gauges_here(None, {})],
                ["cpu", "cuda:0", "cuda:1", "cuda:3"],
            )
        finally:
            torch.cuda = real


class Running(Quiet):
    def test_it_samples_beside_a_program_and_a_callback_may_stop_it(self):
        stopped = threading.Event()
        gauge = FakeGauge("cpu", 0.99)
        debug = plimsoll.debugger(
            interval=0.001,
            gauges=lambda: [gauge],
            on_warning=lambda _: (debug.stop(), stopped.set()),
        )
        debug.start()
        self.assertTrue(stopped.wait(HANG_SECONDS))
        self.assertIsNone(debug._thread)
        self.assertEqual(debug.report()["devices"]["cpu"]["statistics"]["samplesCount"], 1)

    def test_on_this_machine(self):
        with plimsoll.debugger(interval=0.001) as debug:
            while debug.report()["devices"]["cpu"]["statistics"]["samplesCount"] < 3:
                pass
        self.assertIsNone(debug._thread)
