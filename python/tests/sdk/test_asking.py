"""Questions from Python: the objects that answer, the names of arguments, and the explanation of a failure."""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import os
import shutil
import unittest
from typing import Any
from unittest import mock

import torch
from torch import nn

import plimsoll
from plimsoll import arguments
from plimsoll.asking import answers
from plimsoll.asking.answers import Estimate, Plan
from plimsoll.debugging import explain as explaining
from plimsoll.debugging.explain import Held, describe, fixes

ROOT = os.path.join(os.path.dirname(__file__), "..", "..", "..")
HAS_COMMAND = shutil.which("node") is not None and os.path.exists(os.path.join(ROOT, "dist"))
GIB = 2**30
DOCUMENT = {
    "method": "formula",
    "peak": {"reservedBytes": 7 * GIB, "deviceBytes": 8 * GIB, "leastCapacityBytes": 6 * GIB},
    "interval": {"lowBytes": 6 * GIB, "highBytes": 9 * GIB, "confidence": 0.95},
    "breakdown": [{"part": "weights<b>", "bytes": 2 * GIB}, {"part": "context", "bytes": 6 * GIB}],
    "gpu": {"name": "A card", "capacityBytes": 8 * GIB},
}


class Answers(unittest.TestCase):
    def test_examples(self) -> None:
        for module in (arguments, answers, explaining):
            found = doctest.testmod(module)
            self.assertGreater(found.attempted, 0)
            self.assertEqual(found.failed, 0)

    def test_keys_of_the_document_are_attributes(self) -> None:
        answer = Estimate(DOCUMENT)
        self.assertEqual(answer["peak"]["deviceBytes"], answer.peak.device_bytes)
        self.assertEqual(answer.breakdown[1].part, "context")
        self.assertEqual(answer.to_dict()["peak"]["least_capacity_bytes"], 6 * GIB)
        self.assertEqual(answer.to_dict()["breakdown"][0], {"part": "weights<b>", "bytes": 2 * GIB})
        self.assertIn("interval", dir(answer))
        with self.assertRaisesRegex(AttributeError, "it has breakdown, gpu, interval"):
            _ = answer.peek

    def test_it_fits_by_the_upper_end_of_the_interval(self) -> None:
        answer = Estimate(DOCUMENT)
        self.assertEqual(answer.surely_bytes, 8 * GIB)
        self.assertTrue(answer.fits())
        self.assertTrue(answer.fits("8GiB"))
        self.assertFalse(answer.fits(8 * GIB - 1))
        self.assertFalse(answer.fits("8GB"))
        for wrong in ("eight", "", "-1GiB", "8XB", 0, True):
            with self.assertRaises((ValueError, TypeError)):
                answer.fits(wrong)

    def test_people_read_it(self) -> None:
        answer = Estimate(DOCUMENT)
        self.assertEqual(
            repr(answer), "<Estimate: 8.0 GiB on A card, 95 %: 7.0 GiB to 10.0 GiB, by formula>"
        )
        page = answer._repr_html_()
        self.assertIn("It fits into its 8.0 GiB.", page)
        self.assertIn("weights&lt;b&gt;", page)
        self.assertIn("width:30px", page)
        settings = {"batch": 1, "accumulation": 8, "checkpointing": True, "quantization": "none"}
        plan = Plan({"fits": True, "settings": settings, "estimate": DOCUMENT})
        self.assertEqual(
            repr(plan), "<Plan: batch=1, accumulation=8, checkpointing=True; needs 6.0 GiB>"
        )
        self.assertEqual(repr(Plan({"fits": False})), "<Plan: nothing fits>")

    def test_names_of_other_tools_are_told_the_right_one(self) -> None:
        cases: dict[str, tuple[Any, str]] = {
            "batch_size": (3, "its name is batch"),
            "batchSize": (3, "its name is batch"),
            "gradientCheckpointing": (True, "its name is checkpointing"),
            "banana": (1, "it takes model, parameters"),
        }
        for name, (value, said) in cases.items():
            with self.assertRaises(TypeError) as caught:
                plimsoll.estimate("gpt2", **{name: value})
            self.assertIn(said, str(caught.exception))
        with self.assertRaisesRegex(TypeError, "gpu; its name is card"):
            plimsoll.fits("gpt2", gpu="t4")
        with self.assertRaisesRegex(TypeError, "maxBatch and max_batch are the same"):
            plimsoll.plan("gpt2", maxBatch=True, max_batch=True)

    @unittest.skipUnless(HAS_COMMAND, "needs Node and a build of the command")
    def test_a_plan_and_whether_it_fits(self) -> None:
        asked: dict[str, Any] = {"batch": 8, "seq": 512, "method": "formula"}
        found = plimsoll.plan("gpt2", memory="8GiB", **asked)
        self.assertTrue(found.fits)
        self.assertEqual(found.settings.batch * found.settings.accumulation, 8)
        self.assertLessEqual(found.estimate.peak.least_capacity_bytes, 8 * GIB)
        self.assertFalse(plimsoll.plan("gpt2", memory="700MiB", **asked).fits)
        self.assertTrue(plimsoll.fits("gpt2", card="t4", optimizer="adamw", **asked))
        self.assertFalse(plimsoll.fits("gpt2", card="t4", memory="1GiB", **asked))


class Surface(unittest.TestCase):
    def test_type_checkers_see_every_name(self) -> None:
        with open(plimsoll.__file__, encoding="utf-8") as file:
            tree = ast.parse(file.read())
        block = next(one for one in tree.body if isinstance(one, ast.If))
        typed = {
            name.asname: one.module
            for one in block.body
            if isinstance(one, ast.ImportFrom)
            for name in one.names
        }
        self.assertEqual(typed, plimsoll._PLACES)

    def test_help_begins_with_examples(self) -> None:
        first, *_, second = (plimsoll.__doc__ or "").split("\n\n")[:3]
        self.assertLess(len(first), 120)
        self.assertTrue(second.startswith("    answer = plimsoll.estimate("))


class Explained(unittest.TestCase):
    HELD = Held(
        limit=16 * GIB,
        free=1 * GIB,
        reserved=15 * GIB,
        allocated=14 * GIB,
        weights=1 * GIB,
        gradients=1 * GIB,
        states=4 * GIB,
        asked=2 * GIB,
    )

    def test_parts_add_up_and_the_largest_fixes_come_first(self) -> None:
        text = describe(self.HELD)
        self.assertIn("2.0 GiB were asked for; 15.0 GiB of 16.0 GiB were reserved.", text)
        self.assertIn("Activations, batches or kept tensors take 8.0 GiB", text)
        self.assertEqual(self.HELD.others + 1 * GIB + 1 * GIB + 4 * GIB, self.HELD.allocated)
        found = fixes(self.HELD)
        self.assertEqual([one.saves for one in found], [16 * GIB // 3, 4 * GIB, 3 * GIB])
        self.assertIn("checkpointing", found[0].text)

    def test_causes(self) -> None:
        cases = {
            "Fragmentation": {"asked": GIB},
            "Other processes hold 4.0 GiB": {"limit": 20 * GIB},
            "One tensor is larger": {"asked": 9 * GIB},
            "Optimizer states take": {"states": 11 * GIB},
        }
        for cause, changed in cases.items():
            self.assertIn(f"  cause  {cause}", describe(self.HELD._replace(**changed)))

    def test_an_error_goes_on_with_its_explanation_and_others_pass_by(self) -> None:
        model = nn.Linear(1024, 1024)
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(1, 1024)).sum().backward()
        optimizer.step()
        error = RuntimeError(
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 2147483648 bytes."
        )
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            with self.assertRaises(RuntimeError) as caught:
                with plimsoll.explain() as explained:
                    raise error
        self.assertIs(caught.exception, error)
        self.assertEqual(said.getvalue().strip(), explained.report)
        self.assertRegex(said.getvalue(), r"optimizer states")
        weights, gradients, states = explaining._parts("cpu")
        own = sum(one.numel() * 4 for one in model.parameters())
        self.assertGreaterEqual(weights, own)
        self.assertGreaterEqual(gradients, own)
        self.assertGreaterEqual(states, 2 * own)
        quiet = io.StringIO()
        with contextlib.redirect_stderr(quiet), self.assertRaises(ValueError):
            with plimsoll.explain() as nothing:
                raise ValueError("CUDA out of memory.")
        self.assertEqual((quiet.getvalue(), nothing.report), ("", None))

    def test_a_notebook_has_an_explanation_and_a_magic(self) -> None:
        shell = mock.Mock()
        plimsoll.load_ipython_extension(shell)
        (kinds, handler), _ = shell.set_custom_exc.call_args
        error = RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        self.assertIsInstance(error, kinds)
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            handler(shell, RuntimeError, error, None, tb_offset=1)
            handler(shell, RuntimeError, RuntimeError("another"), None)
        shell.showtraceback.assert_called_with((RuntimeError, mock.ANY, None), tb_offset=None)
        self.assertEqual(said.getvalue().count("plimsoll: Memory ran out: 2.0 GiB"), 1)
        self.assertEqual(shell.register_magic_function.call_args.args[1:], ("line", "plimsoll"))


if __name__ == "__main__":
    unittest.main()
