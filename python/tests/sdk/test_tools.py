"""Loading, swapping, garbage, leaks on the host, for real; and the debugger, in the order people use it."""

import gc
import json
import logging
import os
import sys
import tempfile
import threading
import types
import unittest
import weakref

import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from warm import HANG_SECONDS

import plimsoll
from plimsoll.leaks.collection import PressureCollector
from plimsoll.leaks.kept import came_at_once, kept
from plimsoll.leaks.tracker import count_tensors, take_census
from plimsoll.loading.load import model_key, pack, place_with_offload, quantize, unpack


def tower():
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Linear(128, 128) for _ in range(4)])


def held(model):
    return sum(t.numel() * t.element_size() for t in [*model.parameters(), *model.buffers()])


class Load(unittest.TestCase):
    def setUp(self):
        self.addCleanup(plimsoll.unload)
        self.addCleanup(logging.getLogger("plimsoll").setLevel, logging.NOTSET)
        logging.getLogger("plimsoll").setLevel(logging.ERROR)

    def test_each_preset_takes_the_bytes_it_should(self):
        sizes = {}
        x = torch.randn(4, 128)
        exact = tower()(x)
        for preset, max_error in (
            ("cpu", 0),
            ("fp16", 0.05),
            ("int8", 0.05),
            ("int4", 0.5),
            ("int4_double", 0.5),
        ):
            dtype = None if preset == "fp16" else torch.float32
            model = plimsoll.load(tower, preset, device="cpu", cache=False, compute_dtype=dtype)
            sizes[preset] = held(model)
            with torch.no_grad():
                error = float(
                    (model(x.to(next(iter(model[0].parameters())).dtype)).float() - exact)
                    .abs()
                    .max()
                )
            self.assertLessEqual(error, max_error, preset)
            self.assertEqual(model.plimsoll_preset, preset)
        weights = 4 * 128 * 128
        self.assertLess(sizes["int8"], 1.1 * weights)
        self.assertLess(sizes["int4"], 0.6 * weights + 4 * 128 * 4)
        self.assertLess(sizes["int4_double"], sizes["int4"])

    def test_what_does_not_fit_falls_back(self):
        weights = 4 * 128 * 128
        model = plimsoll.load(
            tower, "fp16", device="cpu", max_bytes=int(1.2 * weights), cache=False
        )
        self.assertEqual(model.plimsoll_preset, "int8")
        with self.assertRaises(MemoryError):
            plimsoll.load(tower, "fp16", device="cpu", max_bytes=10, fallback=False, cache=False)

    def test_layers_that_do_not_fit_wait_on_the_host(self):
        model = plimsoll.load(tower, "int4_offload", device="cpu", max_bytes=20_000, cache=False)
        self.assertEqual(model(torch.ones(2, 128, dtype=torch.bfloat16)).shape, (2, 128))

    def test_layers_leave_a_device_that_has_no_room_for_them(self):
        class Block(nn.Linear):
            def to(self, where):
                self.moved_to = str(where)

        model = nn.Sequential(*[Block(128, 128, bias=False) for _ in range(4)])
        one = 128 * 128 * 4
        # Room for two that stay, and for the one that visits.
        self.assertEqual(place_with_offload(model, torch.device("meta"), 3 * one), 2)
        self.assertEqual([block.moved_to for block in model], ["meta", "meta", "cpu", "cpu"])

    def test_loaded_models_are_kept_until_they_are_given_up(self):
        first = plimsoll.load(tower, "cpu")
        self.assertIs(plimsoll.load(tower, "cpu"), first)
        self.assertEqual(plimsoll.unload(tower), 1)
        self.assertIsNot(plimsoll.load(tower, "cpu"), first)

    def test_a_saved_choice_is_read_and_not_trusted(self):
        from plimsoll.loading.load import saved_choice

        with tempfile.TemporaryDirectory() as home:
            os.makedirs(os.path.join(home, "quantization"))
            path = os.path.join(home, "quantization", f"{model_key('org/model')}.json")
            good = {
                "schema": 1,
                "model": "org/model",
                "preset": "int8",
                "forTraining": False,
                "computeDtype": "float16",
                "memory": {"gpuBytes": [2**30], "hostBytes": 0},
            }
            self.assertIsNone(saved_choice("org/model", home))
            for change in (
                {},
                {"preset": "int3"},
                {"model": "other"},
                {"memory": {"gpuBytes": [-1], "hostBytes": 0}},
            ):
                with open(path, "w", encoding="utf-8") as file:
                    json.dump({**good, **change}, file)
                if change:
                    with self.assertRaises(plimsoll.Failure):
                        saved_choice("org/model", home)
                else:
                    self.assertEqual(saved_choice("org/model", home)["preset"], "int8")

    def test_4_bits_survive_a_round_trip_of_odd_sizes(self):
        weight = torch.randn(7, 33)
        for double in (False, True):
            back = unpack(pack(weight, 4, double), 4, weight.shape)
            self.assertLess(float((back - weight).abs().max()), 0.6)
            self.assertGreater(
                float(torch.corrcoef(torch.stack((back.reshape(-1), weight.reshape(-1))))[0, 1]),
                0.97,
            )

    def test_heads_stay_as_they_are(self):
        model = nn.ModuleDict({"body": nn.Linear(8, 8), "lm_head": nn.Linear(8, 8)})
        self.assertEqual(quantize(model, 8, False, torch.float32), 1)
        self.assertIsInstance(model["lm_head"], nn.Linear)

    def test_the_dense_weights_are_gone_once_quantized(self):
        for bits in (8, 4):
            model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
            dense = [weakref.ref(layer.weight) for layer in model]
            quantize(model, bits, False, torch.float32)
            gc.collect()
            self.assertEqual([ref() for ref in dense], [None, None])


class Swapping(unittest.TestCase):
    def make(self, value):
        return lambda: torch.full((256,), float(value))

    def test_what_is_used_often_stays(self):
        cache = plimsoll.swap(device="cpu", device_bytes=3 * 1024, host_bytes=0)
        for _ in range(4):
            cache.load("hot", self.make(0))
        for number in range(10):
            cache.load(number, self.make(number))
            cache.load("hot", self.make(-1))
        self.assertEqual(float(cache.load("hot", self.make(-1))[0]), 0.0)
        self.assertLessEqual(cache.report()["deviceBytes"], 3 * 1024)

    def test_the_oldest_leaves_for_the_host_and_comes_back(self):
        cache = plimsoll.swap(device="cpu", device_bytes=2 * 1024, host_bytes=8 * 1024)
        for number in range(4):
            cache.load(number, self.make(number))
        self.assertEqual(
            [cache.where(number) for number in range(4)], ["host", "host", "device", "device"]
        )
        self.assertEqual(float(cache.load(0, self.make(99))[0]), 0.0)
        self.assertEqual(cache.where(0), "device")
        self.assertEqual(cache.report()["hits"], {"device": 0, "host": 1})

    def test_limits_hold_whatever_is_asked(self):
        import random

        draw = random.Random(0)
        cache = plimsoll.swap(device="cpu", device_bytes=5_000, host_bytes=9_000)
        for _ in range(2000):
            key = int(draw.gauss(20, 8))
            size = 1 + abs(key) * 37 % 900
            self.assertEqual(cache.load(key, lambda n=size: torch.zeros(n)).numel(), size)
            if draw.random() < 0.05:
                cache.drop(key)
            report = cache.report()
            self.assertTrue(
                0 <= report["deviceBytes"] <= 5_000 and 0 <= report["hostBytes"] <= 9_000
            )
        cache.clear()
        self.assertEqual(len(cache), 0)

    def test_larger_than_all_is_given_and_not_kept(self):
        cache = plimsoll.swap(device="cpu", device_bytes=100, host_bytes=100)
        self.assertEqual(cache.load("big", self.make(1)).numel(), 256)
        self.assertNotIn("big", cache)


class Garbage(unittest.TestCase):
    def test_thresholds_are_set_and_put_back(self):
        before = gc.get_threshold()
        with plimsoll.tune_gc(500, 5, 5):
            self.assertEqual(gc.get_threshold(), (500, 5, 5))
        self.assertEqual(gc.get_threshold(), before)

    def test_collects_above_the_line_and_not_too_often(self):
        share = [0.5]
        collector = PressureCollector(0.85, 5.0, 60.0, lambda: share[0])
        self.assertFalse(collector.look(0.0))
        share[0] = 0.9
        self.assertEqual([collector.look(now) for now in (1.0, 30.0, 62.0)], [True, False, True])
        self.assertEqual(collector.collections, 2)

    def test_cleaning_up_frees_cycles(self):
        class Node:
            pass

        leaks = plimsoll.track_leaks()
        gc.disable()
        try:
            node = leaks.watch(Node(), "node")
            node.self, node.weight = node, torch.zeros(1000)
            del node
            self.assertEqual(leaks.alive(), ["node"])

            @plimsoll.cleaning()
            def work():
                return 7

            self.assertEqual(work(), 7)
            self.assertEqual(leaks.alive(), [])
        finally:
            gc.enable()
        self.assertGreaterEqual(plimsoll.clean_up(emergency=True)["freedBytes"], 0)


class Leaks(unittest.TestCase):
    def test_a_tensor_kept_at_each_step_is_found(self):
        leaks = plimsoll.track_leaks()
        kept = []
        for _ in range(5):
            torch.randn(3, 5)
            kept.append(torch.zeros(11, 13))
            leaks.check()
        [found] = leaks.report()["tensors"]
        self.assertEqual(
            (found["shape"], found["count"], found["bytes"]), ([11, 13], 5, 3 * 11 * 13 * 4)
        )

    def test_a_steady_loop_has_none(self):
        leaks = plimsoll.track_leaks()
        kept = None
        for _ in range(8):
            kept = torch.zeros(11, 17)
            leaks.check()
        self.assertFalse(leaks.report()["found"])
        del kept

    def test_tensors_of_every_kind_are_counted_or_passed_over(self):
        fake = FakeTensorMode(shape_env=ShapeEnv())
        jagged = [torch.ones(2, 29), torch.ones(4, 29)]
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)
        made = [
            # Sizes that are symbols, as `torch.compile` makes them.
            fake.from_tensor(torch.empty(7, 23), static_shapes=False),
            fake.from_tensor(torch.empty(3, 23), static_shapes=True),
            torch._to_functional_tensor(torch.empty(5, 23)),
            torch.nested.nested_tensor(jagged),
            torch.nested.nested_tensor(jagged, layout=torch.jagged),
            torch.quantize_per_tensor(torch.ones(9, 23), 0.1, 0, torch.quint8),
            torch.eye(1009).to_sparse(),
            torch.eye(1013).to_sparse_csr(),
            torch.eye(1016).to_sparse_bsc((2, 2)),
            torch.ones(4, 23).to_mkldnn(),
            distribute_tensor(torch.ones(8, 23), init_device_mesh("cpu", (1,)), [Shard(0)]),
        ]
        for counts, sizes in (take_census()[:2], count_tensors()):
            bytes_of = {kind[0]: sizes[kind] for kind in counts}
            self.assertNotIn((3, 23), bytes_of)
            # Of these the parts are counted, and once.
            self.assertEqual(counts[(8, 23), "float32", "cpu"], 1)
            self.assertEqual(counts[(6, 29), "float32", "cpu"], 1)
            self.assertEqual((bytes_of[5, 23], bytes_of[9, 23]), (5 * 23 * 4, 9 * 23))
            # Two indices of 8 bytes for each value of 4; pointers of rows or columns of 8 bytes.
            self.assertEqual(bytes_of[1009, 1009], 1009 * 20)
            self.assertEqual(bytes_of[1013, 1013], 1014 * 8 + 1013 * 12)
            self.assertEqual(bytes_of[1016, 1016], 509 * 8 + 508 * (8 + 16))
        del made

    def test_lines_of_python_that_grow(self):
        with plimsoll.track_leaks(python=True) as leaks:
            kept = [bytes(1000) for _ in range(500)]
            lines = leaks.report()["python"]
        self.assertIn("test_tools.py", lines[0]["where"])
        self.assertGreater(lines[0]["bytes"], 400_000)
        del kept


class State(unittest.TestCase):
    def test_small_answers(self):
        state = plimsoll.memory_state()
        self.assertEqual(state["device"], "cpu")
        self.assertGreater(state["totalBytes"], state["allocatedBytes"])
        self.assertEqual(plimsoll.estimate_batch_size(2**30, 2**20, free_bytes=4 * 2**30), 2152)
        self.assertEqual(plimsoll.estimate_batch_size(2**40, 1, free_bytes=2**30), 1)
        self.assertEqual(
            plimsoll.least_loaded_device(), "cpu" if not torch.cuda.is_available() else "cuda:0"
        )

    def test_every_public_name_is_there(self):
        for name in plimsoll.__all__:
            self.assertIsNotNone(getattr(plimsoll, name))
        with self.assertRaises(AttributeError):
            _ = plimsoll.nothing_of_this_name


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


class ReportedLeaks(Quiet):
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
