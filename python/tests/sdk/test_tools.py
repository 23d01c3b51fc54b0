"""Loading, swapping, garbage, leaks: on the host, for real."""

import gc
import json
import logging
import os
import tempfile
import unittest
import weakref

import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import plimsoll
from plimsoll.leaks.collection import PressureCollector
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
