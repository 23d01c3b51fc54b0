"""Models by name: the catalogue, and questions that the command answers."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
import tempfile
import textwrap
import threading
import unittest
from unittest import mock

import torch
from torch import nn

import plimsoll
from plimsoll.asking.command import ask
from plimsoll.loading.load import repository_of

ROOT = os.path.join(os.path.dirname(__file__), "..", "..", "..")
HAS_COMMAND = shutil.which("node") is not None and os.path.exists(os.path.join(ROOT, "dist"))


class Names(unittest.TestCase):
    def test_names_as_people_write_them(self) -> None:
        with mock.patch.dict(os.environ, {"HF_HOME": "/nonexistent", "HF_HUB_CACHE": ""}):
            self.assertEqual(repository_of("llama-3-8b"), "meta-llama/Meta-Llama-3-8B")
            self.assertEqual(repository_of("calm3-22b"), "cyberagent/calm3-22b")
            self.assertEqual(repository_of("gpt2"), "openai-community/gpt2")
            self.assertEqual(repository_of("acme/unknown"), "acme/unknown")

    def test_what_is_there_goes_before_the_catalogue(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "hub", "models--gpt2"))
            with mock.patch.dict(os.environ, {"HF_HOME": folder, "HF_HUB_CACHE": ""}):
                self.assertEqual(repository_of("gpt2"), "gpt2")
            self.assertEqual(repository_of(folder), folder)


@unittest.skipUnless(HAS_COMMAND, "needs Node and a build of the command")
class Estimates(unittest.TestCase):
    def setUp(self) -> None:
        self.home = tempfile.TemporaryDirectory()
        self.addCleanup(self.home.cleanup)
        patched = mock.patch.dict(os.environ, {"PLIMSOLL_HOME": self.home.name})
        patched.start()
        self.addCleanup(patched.stop)

    def test_an_estimate_by_name(self) -> None:
        answer = plimsoll.estimate(
            "gpt2", batch=2, seq=128, accumulation=16, method="formula", gpu="h100"
        )
        self.assertGreater(answer["peak"]["deviceBytes"], 10**9)
        self.assertEqual(answer["recommendedQuantization"]["preset"], "fp16")

    def test_the_error_of_the_command(self) -> None:
        with self.assertRaises(plimsoll.Failure) as caught:
            plimsoll.estimate("mistral-7c-instruct-v9")
        self.assertEqual(caught.exception.code, "unknown-model")
        self.assertNotIn("?", caught.exception.fact)
        self.assertTrue(caught.exception.next_step)
        with self.assertRaises(TypeError):
            plimsoll.estimate(7)
        with self.assertRaises(ValueError):
            plimsoll.estimate("gpt2", batch=0)

    def test_a_module_that_is_here_is_asked_about_as_a_script_is(self) -> None:
        class Tied(nn.Module):
            """In no file that another process could import."""

            def __init__(self) -> None:
                super().__init__()
                self.into, self.out = nn.Linear(256, 512), nn.Linear(512, 256, bias=False)
                self.again = nn.Linear(512, 256, bias=False)
                self.again.weight = self.out.weight
                self.register_buffer("scale", torch.ones(256))
                self.shift = torch.zeros(256)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                hidden = torch.relu(self.into(x * self.scale + self.shift))
                return self.out(hidden) + self.again(hidden)

        model = Tied().eval()
        model(torch.ones(1, 256)).sum().backward()
        before = {name: value.clone() for name, value in model.state_dict().items()}
        batch = {"x": torch.randn(64, 256)}
        found = plimsoll.estimate(
            model, batch=batch, loss=lambda batch: model(batch["x"]).square().mean(), gpu="h200"
        )
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)
        self.assertIsNotNone(model.into.weight.grad)
        self.assertFalse(model.training)
        lines = (
            *inspect.getsource(Tied).splitlines(),
            "        def workload():",
            "            return dict(model=Tied(), batch=lambda: {'x': torch.randn(64, 256)},",
            "                loss=lambda model, batch: model(batch['x']).square().mean())",
        )
        path = os.path.join(self.home.name, "script.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write("import torch\nfrom torch import nn\n")
            file.write(textwrap.dedent("\n".join(lines)))
        asked = ask(["estimate", "--gpu=h200", f"--python={sys.executable}", f"--script={path}"])
        for name in ("peak", "interval", "breakdown"):
            self.assertEqual(found[name], asked[name])

    def test_a_model_of_transformers_that_is_here_is_asked_about_as_its_config_is(self) -> None:
        from transformers import BertConfig, BertForSequenceClassification

        config = BertConfig(num_hidden_layers=2, hidden_size=64, num_attention_heads=2)
        config.architectures = ["BertForSequenceClassification"]
        config.save_pretrained(self.home.name)
        asked = {"batch": 4, "seq": 32, "gpu": "h200", "optimizer": "sgd"}
        model = BertForSequenceClassification(config).to(torch.bfloat16)
        for precision in ("fp32", "amp-bf16"):
            found = plimsoll.estimate(model.float(), **asked, precision=precision)
            self.assertEqual(
                found["peak"],
                plimsoll.estimate(self.home.name, **asked, precision=precision)["peak"],
            )
        # Weights have the type that they have, unless a precision names one.
        half = plimsoll.estimate(model.to(torch.bfloat16), **asked)["peak"]
        self.assertEqual(half, plimsoll.estimate(model.float(), **asked, precision="bf16")["peak"])
        self.assertEqual(next(model.parameters()).dtype, torch.float32)

    def test_a_module_that_cannot_be_asked_about_says_why(self) -> None:
        model = nn.Linear(4, 4)
        for given, words in (
            ({}, "batch must hold what Linear takes, not None"),
            ({"batch": 4}, "batch must hold what Linear takes, not 4"),
            ({"batch": torch.ones(2, 4), "method": "formula"}, "can only be traced"),
            ({"batch": torch.ones(2, 4), "parameters": "7b"}, "parameters is for a model"),
            ({"batch": torch.ones(2, 4), "precision": "fp8"}, "precision must be one of"),
            ({"batch": torch.ones(2, 4), "loss": 5}, "loss must be a function"),
        ):
            with self.assertRaises(plimsoll.Failure) as caught:
                plimsoll.estimate(model, **given)
            self.assertEqual(caught.exception.code, "bad-argument")
            self.assertIn(words, caught.exception.fact)
        with self.assertRaises(plimsoll.Failure) as caught:
            plimsoll.estimate(model, batch=torch.ones(2, 4))
        self.assertEqual(caught.exception.code, "loss-unclear")
        self.assertIn("pass loss=", caught.exception.next_step.lower())
        self.assertEqual([one.name for one in threading.enumerate() if "live" in one.name], [])


if __name__ == "__main__":
    unittest.main()
