"""What people give wrongly: one clear error that names the argument, before anything is done."""

import inspect
import os
import pickle
import tempfile
import unittest
from unittest import mock

import torch
from torch import nn

import plimsoll
from plimsoll.loading.saved import canonical_model, model_key, saved_choice

MODEL = nn.Linear(4, 4)
OPTIMIZER = torch.optim.SGD(MODEL.parameters(), lr=0.1)

WRONG = [
    (
        "collect_on_pressure",
        (),
        {"above": 85},
        ValueError,
        "above must be a number from 0 to 1, not 85. Next: write 0.85 for 85 %",
    ),
    (
        "collect_on_pressure",
        (),
        {"above": "0.8"},
        TypeError,
        "above must be a number from 0 to 1, not '0.8'",
    ),
    ("collect_on_pressure", (), {"above": 0}, ValueError, "above must be above 0"),
    ("collect_on_pressure", (), {"every": 0}, ValueError, "every must be a number"),
    ("collect_on_pressure", (), {"quiet": "60"}, TypeError, "quiet must be a number"),
    (
        "debugger",
        (),
        {"interval": "0.1"},
        TypeError,
        "interval must be a number, 0.001 or more, not '0.1'",
    ),
    ("debugger", (), {"interval": 0}, ValueError, "interval must be a number"),
    (
        "debugger",
        (),
        {"threshold": "85"},
        TypeError,
        "threshold must be a number from 0 to 1, not '85'",
    ),
    ("debugger", (), {"threshold": 85}, ValueError, "write 0.85 for 85 %"),
    ("debugger", (), {"on_warning": "print"}, TypeError, "on_warning must be a function"),
    ("debugger", (), {"device": "gpu:0"}, ValueError, 'write "cuda:0"'),
    ("debugger", (), {"python": 1}, TypeError, "python must be True or False"),
    (
        "memory_state",
        ("gpu:0",),
        {},
        ValueError,
        "'gpu:0' is not the name of a device. Next: write \"cuda:0\"",
    ),
    ("memory_state", ("host",), {}, ValueError, 'write "cpu"'),
    ("memory_state", ("mps:0",), {}, ValueError, 'or "cpu"'),
    ("memory_state", (0,), {}, TypeError, "device must be a name"),
    ("memory_state", ("nonsense",), {}, ValueError, "'nonsense'"),
    (
        "optimize",
        ("model",),
        {},
        TypeError,
        "model must be a torch.nn.Module, not 'model'. Next: build or load the model first",
    ),
    (
        "optimize",
        (MODEL, "adamw"),
        {},
        TypeError,
        "optimizer must be an optimizer of torch, not 'adamw'",
    ),
    (
        "optimize",
        (MODEL,),
        {"dtype": "bf16"},
        TypeError,
        "dtype must be a floating type such as torch.bfloat16",
    ),
    ("optimize", (MODEL,), {"autocast": "bf16"}, TypeError, "autocast must be a floating type"),
    ("optimize", (MODEL,), {"forward": 3}, TypeError, "forward must be a function"),
    ("optimize", (MODEL,), {"segments": 0}, ValueError, "segments must be a whole number"),
    ("optimize", (MODEL,), {"prune": 30}, ValueError, "prune must be a share"),
    ("load", (7,), {}, TypeError, "source must be the name of a model or a function"),
    ("load", ("x", "int3"), {}, ValueError, "preset must be one of auto"),
    (
        "load",
        (nn.Identity,),
        {"max_bytes": "8GiB"},
        TypeError,
        "max_bytes must be a whole number of bytes",
    ),
    ("load", (nn.Identity,), {"device": "gpu:0"}, ValueError, 'write "cuda:0"'),
    (
        "load",
        (nn.Identity,),
        {"compute_dtype": "bf16"},
        TypeError,
        "compute_dtype must be a floating type",
    ),
    ("swap", (), {"device": "gpu"}, ValueError, 'write "cuda"'),
    (
        "swap",
        (),
        {"device_bytes": "2GiB"},
        TypeError,
        "device_bytes must be a whole number of bytes",
    ),
    ("swap", (), {"host_bytes": -1}, ValueError, "host_bytes"),
    (
        "estimate_batch_size",
        (1, 0),
        {},
        ValueError,
        "sample_bytes must be a whole number of bytes, 1 or more",
    ),
    ("estimate_batch_size", (1, 1), {"safety": 80}, ValueError, "write 0.8 for 80 %"),
    ("estimate_batch_size", ("1GiB", 1), {}, TypeError, "model_bytes"),
    (
        "batches",
        ([1], "32"),
        {},
        TypeError,
        "batch_size must be a whole number, 1 or more; not '32'",
    ),
    ("batches", ([1], 0), {}, ValueError, "batch_size"),
    ("batches", ([1], 8), {"shrink_above": 85}, ValueError, "write 0.85 for 85 %"),
    ("batches", ([1], 8), {"collate": 3}, TypeError, "collate must be a function"),
    ("tune_gc", ("700",), {}, TypeError, "young must be a whole number"),
    ("tune_gc", (-1,), {}, ValueError, "young"),
    ("track_leaks", (), {"top": 0}, ValueError, "top must be a whole number"),
    ("track_leaks", (5,), {}, TypeError, "python must be True or False"),
    ("clean_up", ("now",), {}, TypeError, "emergency must be True or False"),
    ("cleaning", (print,), {}, TypeError, "@plimsoll.cleaning()"),
    (
        "recovering",
        (MODEL, OPTIMIZER),
        {"microbatch": 0},
        ValueError,
        "microbatch must be a whole number",
    ),
    ("recovering", (MODEL, OPTIMIZER), {"clip": "1"}, TypeError, "clip must be a number"),
    ("recovering", (MODEL, OPTIMIZER), {"patience": -1}, ValueError, "patience must be a number"),
    ("recovering", (MODEL, "adamw"), {}, TypeError, "optimizer must be an optimizer of torch"),
    ("recovering", (print,), {"clip": 1.0}, TypeError, "clip: only for a training step"),
    ("recovering", (MODEL, OPTIMIZER), {"join": max}, TypeError, "join is for functions"),
    ("recovering", (MODEL, OPTIMIZER), {"backup": "no"}, ValueError, "backup must be one of"),
    ("recovering", (MODEL, OPTIMIZER), {"reduction": "max"}, ValueError, "reduction must be one"),
    ("recovering", (MODEL, OPTIMIZER), {"rungs": {"x": print}}, ValueError, "no rung called x"),
    ("load", (nn.Identity,), {"options": {"a": 1}}, ValueError, "leave options out"),
    ("load", ("x",), {"options": 3}, TypeError, "options must be a dict"),
    ("load", ("x",), {"cache": 1}, TypeError, "cache must be True or False"),
    ("batches", ([1], 8), {"smallest": 9}, ValueError, "smallest (9) must not be above"),
    ("batches", ([1], 8), {"grow_below": 0.9}, ValueError, "must be below shrink_above"),
    ("recovering", ("model", OPTIMIZER), {}, TypeError, "takes a model first"),
    ("recovering", (MODEL, OPTIMIZER, 3), {}, TypeError, "loss must be a function"),
]


class Arguments(unittest.TestCase):
    def test_every_name_is_explicit(self):
        for name in plimsoll.__all__:
            value = getattr(plimsoll, name)
            if not callable(value) or isinstance(value, type):
                continue
            kinds = {one.kind for one in inspect.signature(value).parameters.values()}
            self.assertNotIn(inspect.Parameter.VAR_KEYWORD, kinds, name)
            with self.assertRaises(TypeError):
                value(no_such_argument=1)

    def test_each_mistake_is_one_clear_error(self):
        for name, given, named, kind, words in WRONG:
            with self.subTest(name=name, given=given, named=named):
                with self.assertRaises(kind) as caught:
                    getattr(plimsoll, name)(*given, **named)
                self.assertIn(words, str(caught.exception))
                self.assertIsInstance(caught.exception, plimsoll.Failure)
                self.assertEqual(caught.exception.code, "bad-argument")
                self.assertTrue(caught.exception.next_step)
                self.assertNotIn("\n", str(caught.exception))

    def test_a_device_that_is_not_there(self):
        with mock.patch.object(torch.cuda, "is_available", return_value=False):
            with self.assertRaisesRegex(ValueError, "there is no CUDA device here"):
                plimsoll.memory_state("cuda:0")
        with mock.patch.object(torch.cuda, "is_available", return_value=True):
            with mock.patch.object(torch.cuda, "device_count", return_value=2):
                with self.assertRaisesRegex(ValueError, "cuda:0 to cuda:1"):
                    plimsoll.memory_state("cuda:2")

    def test_an_error_of_a_worker_reaches_its_parent(self):
        with self.assertRaises(ValueError) as caught:
            plimsoll.debugger(threshold=85)
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertIsInstance(again, ValueError)
        self.assertEqual(str(again), str(caught.exception))
        self.assertEqual(again.as_json(), caught.exception.as_json())

    def test_numbers_of_other_packages_are_numbers(self):
        import numpy

        self.assertEqual(plimsoll.batches([1, 2], numpy.int64(2)).batch_size, 2)
        plimsoll.debugger(interval=numpy.float32(0.5), threshold=numpy.float32(0.85))


class SavedChoices(unittest.TestCase):
    def test_are_found_however_the_path_is_written(self):
        with tempfile.TemporaryDirectory() as made:
            folder = os.path.realpath(made)
            model = os.path.join(folder, "my-model")
            os.mkdir(model)
            open(os.path.join(model, "config.json"), "w", encoding="utf-8").close()
            home = os.path.join(folder, "home", "quantization")
            os.makedirs(home)
            with open(
                os.path.join(home, f"{model_key(model)}.json"), "w", encoding="utf-8"
            ) as file:
                file.write(
                    f'{{"schema": 1, "model": "{model}", "preset": "int8", "forTraining": false,'
                    ' "computeDtype": "float16", "memory": {"gpuBytes": [1024], "hostBytes": 0}}'
                )
            written = [
                model,
                f"{model}/",
                os.path.relpath(model),
                os.path.join(model, "config.json"),
            ]
            for name in written:
                self.assertEqual(canonical_model(name), model)
                self.assertEqual(saved_choice(name, os.path.dirname(home))["preset"], "int8")
            self.assertIsNone(saved_choice("my-model", os.path.dirname(home)))
            self.assertEqual(canonical_model("org/model"), "org/model")


class LoadCache(unittest.TestCase):
    def setUp(self):
        self.addCleanup(plimsoll.unload)

    def test_another_budget_or_fallback_is_another_model(self):
        def build():
            return nn.Linear(64, 64)

        first = plimsoll.load(build, "int8", device="cpu")
        self.assertIs(plimsoll.load(build, "int8", device="cpu"), first)
        self.assertIs(plimsoll.load(build, "int8", device=torch.device("cpu")), first)
        for named in ({"max_bytes": 10**6}, {"fallback": False}, {"compute_dtype": torch.float16}):
            self.assertIsNot(plimsoll.load(build, "int8", device="cpu", **named), first, named)

    def test_other_options_are_another_model(self):
        class Kind(nn.Linear):
            @classmethod
            def from_pretrained(cls, source, dtype, **options):
                made = cls(4, 4).to(dtype)
                made.options = options
                return made

        def load(source="some-model", **options):
            return plimsoll.load(source, "cpu", model_class=Kind, options=options)

        eager = load(attn_implementation="eager")
        self.assertIs(load(attn_implementation="eager"), eager)
        self.assertEqual(load(attn_implementation="sdpa").options, {"attn_implementation": "sdpa"})
        self.assertIsNot(load(attn_implementation="eager", device_map={"": 0}), eager)
        with tempfile.TemporaryDirectory() as folder:
            one = load(folder)
            self.assertIs(load(f"{folder}/"), one)
            self.assertEqual(plimsoll.unload(f"{folder}/."), 1)
