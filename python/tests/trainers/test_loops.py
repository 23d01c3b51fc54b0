"""A loop of a program's own: the first step of its optimizer is put back and tried again."""

import logging
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import torch

from sdk.injection import batch_of, build, clean_step, out_of_memory
from trainers.unchanged import AUTO

from plimsoll.recovery.restore import optimizer_guard
from plimsoll.trainers import loops


class FirstStep(unittest.TestCase):
    def setUp(self):
        logging.getLogger("plimsoll").setLevel(logging.CRITICAL)
        self.addCleanup(logging.getLogger("plimsoll").setLevel, logging.NOTSET)
        kind = torch.optim.Optimizer
        before = kind.profile_hook_step
        loops.install()
        self.addCleanup(setattr, kind, "profile_hook_step", staticmethod(before))

    def own_class(self):
        """Made after the guard was put in place, as all are where torch is imported under `plimsoll run`."""

        class Own(torch.optim.AdamW):
            @torch.no_grad()
            def step(self, closure=None):
                return torch.optim.AdamW.step.__wrapped__(self, closure)

        return Own

    def one_step(self, fails, number=1):
        torch.manual_seed(3)
        model, _ = build(3, 0.0)
        optimizer = self.own_class()(model.parameters(), lr=1e-2, foreach=True)
        real, calls = torch._foreach_sqrt, []

        def failing(*arguments):
            calls.append(1)
            if len(calls) in fails:
                raise out_of_memory()
            return real(*arguments)

        batch = batch_of(3, 8)
        with mock.patch.object(torch, "_foreach_sqrt", failing):
            for _ in range(number):
                clean_step(model, optimizer, self.loss, batch, [8], 3)
        return [p.detach().clone() for p in model.parameters()], optimizer

    def loss(self, model, part):
        return torch.nn.functional.cross_entropy(model(part[0]), part[1])

    def test_a_first_step_that_fails_half_way_is_made_again_exactly(self):
        mine, _ = self.one_step([1, 2])
        theirs, optimizer = self.one_step([])
        for one, other in zip(mine, theirs):
            self.assertTrue(torch.equal(one, other))
        self.assertTrue(optimizer_guard.is_guarded(optimizer))

    def test_states_that_do_not_fit_leave_no_trace(self):
        model, _ = build(3, 0.0)
        optimizer = self.own_class()(model.parameters(), lr=1e-2)
        real, made = torch.zeros_like, []

        def failing(*arguments, **named):
            made.append(1)
            if len(made) == 5:
                raise out_of_memory()
            return real(*arguments, **named)

        with mock.patch.object(torch, "zeros_like", failing):
            clean_step(model, optimizer, self.loss, batch_of(3, 8), [8], 3)
        theirs, _ = self.one_step([])
        for one, other in zip(model.parameters(), theirs):
            self.assertTrue(torch.equal(one, other))

    def test_a_later_step_fails_as_it_would_alone(self):
        with self.assertRaises(torch.OutOfMemoryError):
            self.one_step([2], number=2)

    def test_the_program_sees_its_own_error_when_it_fails_again_and_again(self):
        with self.assertRaises(torch.OutOfMemoryError):
            self.one_step([1, 2, 3])

    def test_a_host_that_is_too_full_gets_no_copy(self):
        _, optimizer = build(3, 0.0)
        guard = optimizer_guard.OptimizerGuard(optimizer, "always")
        with mock.patch.object(optimizer_guard.HostGauge, "capacity_bytes", lambda _: 0):
            guard.before_step()
        self.assertIsNone(guard._copies)

    def test_settings_of_the_allocator_are_kept(self):
        given = []
        change = mock.patch.object(
            torch._C, "_accelerator_setAllocatorSettings", given.append, create=True
        )
        initialized = mock.patch.object(torch.cuda, "is_initialized", lambda: True)
        for own in ("", "max_split_size_mb:64", "expandable_segments:False"):
            with change, initialized, mock.patch.dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=own):
                loops.expand_segments()
        self.assertEqual(
            given, ["expandable_segments:True", "max_split_size_mb:64,expandable_segments:True"]
        )

    def test_optimizers_of_a_program_are_guarded_and_compiled_as_before(self):
        program = (
            "import torch\n"
            "weight = torch.nn.Parameter(torch.ones(3))\n"
            "optimizer = torch.optim.AdamW([weight])\n"
            "weight.grad = torch.ones(3)\n"
            "real, calls = torch.zeros_like, []\n"
            "def failing(*given, **named):\n"
            "    calls.append(1)\n"
            "    if len(calls) == 2: raise torch.OutOfMemoryError('CUDA out of memory.')\n"
            "    return real(*given, **named)\n"
            "torch.zeros_like = failing\n"
            "optimizer.step()\n"
            "print(len(calls), len(optimizer.state), optimizer.step.__wrapped__.__wrapped__.__name__)\n"
        )
        for words, code, printed in (({}, 0, "4 1 step"), ({"PLIMSOLL_TRAINERS": "0"}, 1, "")):
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run(
                    [sys.executable, "-W", "ignore", "-c", program],
                    env={
                        **os.environ,
                        "PYTHONPATH": AUTO,
                        "PLIMSOLL_MEMORY_BYTES": str(2**40),
                        "CUDA_VISIBLE_DEVICES": "",
                        **words,
                    },
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=600,
                )
            self.assertEqual(done.returncode, code, done.stderr[-2000:])
            self.assertEqual(done.stdout.strip(), printed)


if __name__ == "__main__":
    unittest.main()
