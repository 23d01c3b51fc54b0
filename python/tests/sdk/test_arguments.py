"""What people give wrongly: one clear error that names the argument, before anything is done."""

import inspect
import math
import os
import pickle
import tempfile
import unittest
from unittest import mock

import torch
from torch import nn

import plimsoll
import plimsoll.ray
from plimsoll.loading.load import canonical_model, model_key, saved_choice

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
        "interval must be a number from 0.001 to 31536000, not '0.1'",
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
    ("batches", (5,), {}, TypeError, "dataset must be a list, a dataset or an iterable, not 5"),
    ("collect_on_pressure", (), {"every": math.inf}, ValueError, "every must be a number"),
    ("recovering", (MODEL, OPTIMIZER), {"clip": math.nan}, ValueError, "clip must be a number"),
    ("checkpointing", ("a\0b", MODEL), {}, ValueError, "folder must be a path"),
    ("session", (5,), {}, TypeError, "config must be a file or a dict, not 5"),
]
# What was made, and a call of it.
WRONG_CALLS = [
    (plimsoll.pool, "take", ((-1,),), ValueError, "shape must hold sizes, 0 or more; not -1"),
    (plimsoll.pool, "take", ("x",), TypeError, "shape must be a tuple of whole numbers, not 'x'"),
    (plimsoll.pool, "take", ((2, "x"),), TypeError, "shape must hold whole numbers, not 'x'"),
    (plimsoll.pool, "take", ((2**40, 2**40),), ValueError, "more than any memory has"),
    (plimsoll.pool, "take", ((4,), "float32"), TypeError, "dtype must be a type of torch"),
    (plimsoll.swap, "load", ("x", None), TypeError, "make must be a function, not None"),
    (plimsoll.swap, "load", ("x", int), TypeError, "the result of make must be a tensor of torch"),
    (plimsoll.swap, "load", ([], int), TypeError, "key must be a text"),
    (plimsoll.swap, "put", ("x", 3), TypeError, "value must be a tensor of torch, not 3"),
]
CONTRADICTIONS = [
    ({"training": {"minBatch": 9, "maxBatch": 3}}, "minBatch (9) is above training.maxBatch (3)"),
    (
        {"alerts": {"memoryWarningPercent": 95}},
        "memoryWarningPercent (95) is above alerts.memoryCriticalPercent (90)",
    ),
    ({"training": {"batch": 9, "maxBatch": 3}}, "batch (9) is above training.maxBatch (3)"),
    ({"training": {"minBatch": 9, "batch": 3}}, "minBatch (9) is above training.batch (3)"),
    (
        {"alerts": {"riskWarning": "critical", "riskCritical": "high"}},
        "riskWarning (critical) is above alerts.riskCritical (high)",
    ),
    ({"alerts": {"banana": 1}}, 'there is no key "alerts.banana"'),
]

# Every public function with arguments that are right: any other object in the place of one of them is an error.
TOWER = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
STEPS = torch.optim.SGD(TOWER.parameters(), lr=0.1)
BATCH = {"x": torch.ones(4, 4)}
STORE = plimsoll.buffers(limit=2**20)


def loss(batch):
    return TOWER(batch["x"]).mean()


def filled():
    replay = plimsoll.replay(16, priority=0.6)
    for _ in range(4):
        replay.add([1.0, 2.0], 0, 0.0, [1.0, 2.0], False)
    return replay


def checkpoints(test):
    made = plimsoll.checkpointing(test.folder(), TOWER)
    test.addCleanup(made.close)
    return made


TRANSITION = {
    "observation": [1.0],
    "action": 0,
    "reward": 0.0,
    "next_observation": [1.0],
    "terminated": False,
}
TRANSITIONS = {name: [value] for name, value in TRANSITION.items()}
RIGHT = {
    "batches": {"dataset": [1, 2]},
    "buffers": {},
    "checkpointing": {"folder": "", "model": TOWER},
    "clean_up": {},
    "cleaning": {},
    "collect_on_pressure": {},
    "Debugger": {},
    "debugger": {},
    "estimate": {"model": "gpt2"},
    "explain": {},
    "fits": {"model": "gpt2"},
    "plan": {"model": "gpt2"},
    "estimate_batch_size": {"model_bytes": 1, "sample_bytes": 1},
    "load": {"source": nn.Identity},
    "loader": {"dataset": [1, 2]},
    "memory_state": {},
    "optimize": {"model": TOWER},
    "pool": {},
    "prepare": {"accelerator": None},
    "recognise": {"error": ValueError()},
    "recovering": {"target": TOWER, "optimizer": STEPS, "loss": loss},
    "replay": {"capacity": 16},
    "schedule_gc": {},
    "session": {},
    "spread": {"model": TOWER},
    "swap": {},
    "track_leaks": {},
    "tune_gc": {},
    "unload": {},
}  # fmt: skip
# Without arguments.
EMPTY = {"LightningCallback", "TrainerCallback", "gc_pauses", "least_loaded_device"}
RIGHT_CALLS = [
    (lambda _: plimsoll.batches([1, 2]), "load_state_dict", {"state": {"next": 0}}),
    (lambda _: STORE, "put", {"key": "a", "value": b"1"}),
    (lambda _: STORE, "get", {"key": "a"}),
    (lambda _: STORE, "delete", {"key": "a"}),
    (checkpoints, "epochs", {"count": 1}),
    (checkpoints, "batches", {"data": [1]}),
    (lambda _: plimsoll.debugger(), "add_callback", {"callback": print}),
    (lambda _: plimsoll.debugger(), "write_report", {"path": "report.json"}),
    (lambda _: plimsoll.pool(), "take", {"shape": (4,)}),
    (lambda _: plimsoll.pool(), "give", {"tensor": None}),
    (lambda _: plimsoll.recovering(TOWER, STEPS, loss), "__call__", {"batch": BATCH}),
    (lambda _: plimsoll.replay(16), "add", TRANSITION),
    (lambda _: plimsoll.replay(16), "extend", TRANSITIONS),
    (lambda _: filled(), "sample", {"batch": 2}),
    (lambda _: filled(), "update_priorities", {"row": [0], "priority": [1.0]}),
    (lambda _: filled(), "save", {"store": STORE, "name": "a"}),
    (lambda _: filled(), "restore", {"store": STORE, "name": "a"}),
    (lambda _: plimsoll.session(), "add_callback", {"callback": print}),
    (lambda _: plimsoll.session(), "clean_up", {}),
    (lambda _: plimsoll.session(), "optimize_model", {"model": TOWER}),
    (
        lambda _: plimsoll.session(),
        "optimize_training",
        {"model": TOWER, "optimizer": STEPS, "loss": loss, "batch": BATCH},
    ),
    (lambda _: plimsoll.session(), "training_step", {"model": TOWER, "optimizer": STEPS}),
    (lambda _: plimsoll.session(), "loader", {"dataset": [1, 2]}),
    (lambda _: plimsoll.session(), "buffers", {}),
    (lambda _: plimsoll.session(), "write_report", {"path": "report.json"}),
    (lambda _: plimsoll.swap(), "load", {"key": "a", "make": lambda: torch.ones(1)}),
    (lambda _: plimsoll.swap(), "put", {"key": "a", "value": torch.ones(1)}),
    (lambda _: plimsoll.track_leaks(), "watch", {"thing": TOWER}),
    (lambda _: plimsoll.ray, "gpus", {"gpu": "h100"}),
    (lambda _: plimsoll.ray, "report", {"share": None}),
    (lambda _: plimsoll.ray, "callback", {"share": None}),
]
# These take any object.
ANYTHING = {"thing"}


class Nothing:
    """Of no use anywhere: not even as a key."""

    __hash__ = None


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

    def test_each_mistake_in_a_call_is_one_clear_error_and_changes_nothing(self):
        for make, name, given, kind, words in WRONG_CALLS:
            with self.subTest(name=name, given=given):
                made = make()
                figures = getattr(made, "statistics", getattr(made, "report", None))
                before = figures()
                with self.assertRaises(kind) as caught:
                    getattr(made, name)(*given)
                self.assertIn(words, str(caught.exception))
                self.assertEqual(caught.exception.code, "bad-argument")
                self.assertTrue(caught.exception.next_step)
                self.assertEqual(figures(), before)

    def test_keys_that_contradict_each_other_are_refused(self):
        for config, words in CONTRADICTIONS:
            with self.assertRaises(plimsoll.Failure) as caught:
                plimsoll.session(config)
            self.assertIn(words, caught.exception.fact)
            self.assertTrue(caught.exception.next_step)

    def test_every_argument_of_every_function_is_looked_at(self):
        public = {
            name
            for name in plimsoll.__all__
            if callable(getattr(plimsoll, name)) and name not in ("Failure", *EMPTY)
        }
        self.assertEqual(public, set(RIGHT))
        calls = [(lambda _: plimsoll, name, given) for name, given in RIGHT.items()]
        for make, name, given in [*calls, *RIGHT_CALLS]:
            for argument in inspect.signature(getattr(make(self), name)).parameters:
                if argument in ANYTHING:
                    continue
                self.refuses(make(self), name, {**given, argument: Nothing()}, argument)

    def refuses(self, made, name, given, argument):
        if "folder" in given and argument != "folder":
            given["folder"] = self.folder()
        with self.subTest(name=name, argument=argument):
            with self.assertRaises(plimsoll.Failure) as caught:
                getattr(made, name)(**given)
            self.assertIn(caught.exception.code, ("bad-argument", "batch-size-unclear"))
            self.assertTrue(caught.exception.fact)
            self.assertTrue(caught.exception.next_step)

    def folder(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        return made.name

    def test_a_report_that_cannot_be_written_is_one_clear_error(self):
        for made in (plimsoll.debugger(), plimsoll.session()):
            with self.assertRaises(plimsoll.Failure) as caught:
                made.write_report("no-such-folder/report.json")
            self.assertEqual(caught.exception.code, "cannot-write")

    def test_a_model_that_cannot_be_loaded_is_one_clear_error(self):
        with self.assertRaises(plimsoll.Failure) as caught:
            plimsoll.load("no such model", cache=False)
        self.assertEqual(caught.exception.code, "model-not-loaded")
        # What stays on the device does not fit into it, though the layers may wait on the host.
        model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
        for cap, refused in ((100, True), (10**6, False)):
            given = {"device": "cpu", "max_bytes": cap, "cache": False}
            if not refused:
                plimsoll.load(lambda: model, "int4_offload", fallback=False, **given)
                continue
            with self.assertRaisesRegex(plimsoll.Failure, "has room for 100") as caught:
                plimsoll.load(lambda: model, "int4_offload", fallback=False, **given)
            self.assertEqual(caught.exception.code, "does-not-fit")
            self.assertIsInstance(caught.exception, MemoryError)
            self.assertEqual(
                plimsoll.load(lambda: model, "int4_offload", **given).plimsoll_preset, "cpu"
            )

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
