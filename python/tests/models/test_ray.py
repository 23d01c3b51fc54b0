"""Shares of a card for Ray: what is asked of the command, and what goes back to it."""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import tempfile
import types
import unittest
from unittest import mock

import plimsoll
from plimsoll import Failure

ROOT = os.path.join(os.path.dirname(__file__), "..", "..", "..")
HAS_COMMAND = shutil.which("node") is not None and os.path.exists(os.path.join(ROOT, "dist"))


class UserCallback:
    """As Ray Train has it: hooks that do nothing."""

    def after_report(self, run_context: object, metrics: object, checkpoint: object) -> None: ...

    def after_exception(self, run_context: object, worker_exceptions: object) -> None: ...


class UserExceptionWithTraceback(Exception):
    """As Ray Train gives what a worker raised to callbacks."""

    def __init__(self, base: BaseException) -> None:
        self._base_exc = base


def fake_train() -> dict[str, types.ModuleType]:
    """Stands for ray.train where Ray is not installed."""
    try:
        from ray.train import UserCallback as real  # noqa: F401
    except Exception:
        train = types.ModuleType("ray.train")
        train.UserCallback = UserCallback  # type: ignore[attr-defined]
        return {"ray": types.ModuleType("ray"), "ray.train": train}
    return {}


@unittest.skipUnless(HAS_COMMAND, "needs node and a build")
class Shares(unittest.TestCase):
    def setUp(self) -> None:
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        patch = mock.patch.dict(os.environ, {"PLIMSOLL_HOME": home.name})
        patch.start()
        self.addCleanup(patch.stop)

    def share(self, **change: object) -> plimsoll.ray.Share:
        given = {"batch": 8, "seq": 512, "gpu": "a100-80gb", "method": "formula", **change}
        return plimsoll.ray.gpus("gpt2", **given)

    def test_a_share_is_a_number_that_knows_what_it_rests_on(self) -> None:
        share = self.share()
        self.assertGreater(share, 0.05)
        self.assertLess(share, 0.2)
        self.assertEqual(share.basis, "estimated")
        again = pickle.loads(pickle.dumps(share))
        self.assertEqual((again, again.key), (share, share.key))
        self.assertNotEqual(self.share(batch=4).key, share.key)

    def test_peaks_correct_the_next_share(self) -> None:
        share = self.share()
        plimsoll.ray.report(share, share.need_bytes // 2)
        better = self.share()
        self.assertEqual(better.basis, "measured")
        self.assertLess(better, share)
        self.assertGreaterEqual(better.need_bytes, share.need_bytes // 2)

    def test_the_callback_keeps_the_highest_and_learns_from_out_of_memory(self) -> None:
        share = self.share()
        with mock.patch.dict(sys.modules, fake_train()):
            callback = plimsoll.ray.callback(share)
        metric = "plimsoll_peak_bytes"
        callback.after_report(None, [{metric: 2**30}, {metric: 2**31}, {"loss": 1}], None)
        self.assertLess(self.share(), share)
        callback.after_exception(None, {0: ValueError("other")})
        self.assertLess(self.share(), share)
        wrapped = UserExceptionWithTraceback(RuntimeError("CUDA error: out of memory"))
        callback.after_exception(None, {1: wrapped})
        self.assertGreater(self.share(), share)

    def test_what_cannot_be_is_one_clear_error(self) -> None:
        with self.assertRaises(Failure) as raised:
            plimsoll.ray.gpus("llama-3-8b", batch=64, seq=8192, gpu="t4", method="formula")
        self.assertEqual(raised.exception.code, "does-not-fit")
        with self.assertRaises(TypeError):
            plimsoll.ray.gpus("gpt2", gpu=80)
        with self.assertRaises(TypeError):
            plimsoll.ray.report(0.5)
        with self.assertRaises(TypeError):
            plimsoll.ray.callback(0.5)
        self.assertIn("ray", dir(plimsoll))
        self.assertEqual(plimsoll.ray.peak() == {}, not os.path.exists("/dev/nvidia0"))


if __name__ == "__main__":
    unittest.main()
