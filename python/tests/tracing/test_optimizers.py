"""Optimizers: by name, and the one that a script's workload returns."""

import unittest

import torch

from tracing.test_command import Scripts, run

from plimsoll.tracing.options import OPTIMIZERS
from plimsoll.tracing.sources.hugging_face import dtype_keyword

# Larger than what bitsandbytes leaves in 32 bits.
WIDTH = 128
MODEL = """
import torch

def workload():
    model = torch.nn.Sequential(torch.nn.Linear(128, 128, bias=False), torch.nn.Linear(128, 128, bias=False))
    optimizer = %s
    return dict(model=model, batch=lambda: torch.randn(4, 128), loss=lambda m, b: m(b).sum()%s)
"""
TIED = """
import torch

class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(100, 32)
        self.head = torch.nn.Linear(32, 100, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.embed(ids))

def workload():
    with torch.device("cpu"):
        model = Tied()
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
    model = model.to("cuda")
    assert model.head.weight is model.embed.weight
    return dict(
        model=model,
        batch=lambda: torch.zeros(2, 8, dtype=torch.long, device="cuda"),
        loss=lambda m, b: m(b).sum(),
        optimizer=optimizer,
    )
"""


def by_part(lines, letter):
    return sum(e[2] for e in lines if isinstance(e, list) and e[0] == "a" and e[5] == letter)


class Named(Scripts):
    def test_each_keeps_its_states(self):
        script = self.script(MODEL % ("None", ""))
        whole = 2 * WIDTH * WIDTH * 4
        one, two = whole, 2 * whole
        kept = {
            "adamw": two,
            "adam": two,
            "adamax": two,
            "nadam": two,
            "radam": two,
            "adadelta": two,
            "rmsprop": one,
            "adagrad": one,
            "sgd-momentum": one,
            "sgd": 0,
            # A counter for each parameter lies on the GPU.
            "adamw-fused": two + 8,
            "adam-fused": two + 8,
            # A row and a column for each.
            "adafactor": 2 * 2 * WIDTH * 4,
            # A byte, and a scale for each block of 256.
            "adamw-8bit": 2 * 2 * (WIDTH * WIDTH + WIDTH * WIDTH // 256 * 4),
        }
        self.assertEqual(sorted(kept), sorted(OPTIMIZERS))
        for name, size in kept.items():
            with self.subTest(name):
                status, lines = run("--script", script, "--steps", "2", "--optimizer", name)
                self.assertEqual(status, 0, lines[-1])
                self.assertEqual(by_part(lines, "o"), size)


class Returned(Scripts):
    def traced(self, optimizer):
        path = self.script(MODEL % (optimizer, ", optimizer=optimizer"))
        return run("--script", path, "--steps", "2", "--optimizer", "adamw")

    def test_itself_its_class_and_a_function_of_the_parameters_are_taken(self):
        whole = 2 * WIDTH * WIDTH * 4
        for given, states, name in (
            ("torch.optim.SGD(model.parameters(), momentum=0.9)", 1, "SGD"),
            ("torch.optim.Adam", 2, "Adam"),
            ("lambda parameters: torch.optim.RMSprop(parameters, centered=True)", 2, "RMSprop"),
        ):
            with self.subTest(given):
                status, lines = self.traced(given)
                self.assertEqual(status, 0, lines[-1])
                self.assertEqual(by_part(lines, "o"), states * whole)
                self.assertIn(
                    f"the optimizer is the one that workload() returns: {name}",
                    lines[-1]["notes"],
                )

    def test_what_cannot_be_stepped_is_told(self):
        for given, fact in (
            ("'adam'", "is a str"),
            ("lambda parameters: 3", "makes a int"),
            ("torch.optim.SGD(torch.nn.Linear(2, 2).parameters())", "none of the parameters"),
            ("torch.optim.LBFGS", "closure"),
        ):
            with self.subTest(given):
                status, [line] = self.traced(given)
                self.assertEqual((status, line["error"]["code"]), (2, "script-bad-optimizer"))
                self.assertIn(fact, line["error"]["fact"])

    def test_what_a_trace_does_not_use_is_named(self):
        status, lines = run(
            "--script", self.script(MODEL % ("3", ", scheduler=optimizer")), "--steps", "1"
        )
        self.assertEqual(status, 0)
        self.assertIn(
            "workload() returns scheduler, which a trace does not use", lines[-1]["notes"]
        )


class Moved(Scripts):
    def test_tied_weights_and_their_optimizer_stay_one_when_a_model_is_moved(self):
        status, lines = run("--script", self.script(TIED), "--steps", "2")
        self.assertEqual(status, 0, lines[-1])
        self.assertEqual(lines[-1]["parameters"], 100 * 32)
        self.assertEqual(by_part(lines, "o"), 100 * 32 * 4)
        self.assertFalse(torch.__future__.get_swap_module_params_on_conversion())


class Versions(unittest.TestCase):
    def test_the_type_of_the_weights_has_the_name_of_the_version(self):
        names = {
            "4.51.3": "torch_dtype",
            "4.55.4": "torch_dtype",
            "4.56.0": "dtype",
            "5.17.0": "dtype",
        }
        self.assertEqual({version: dtype_keyword(version) for version in names}, names)
