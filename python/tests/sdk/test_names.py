"""Models by name: the catalogue, and questions that the command answers."""

from __future__ import annotations

import os
import shutil
import tempfile
import unittest
from unittest import mock

import plimsoll
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
        with self.assertRaises(TypeError):
            plimsoll.estimate(7)  # type: ignore[arg-type]
        with self.assertRaises(ValueError):
            plimsoll.estimate("gpt2", batch=0)


if __name__ == "__main__":
    unittest.main()
