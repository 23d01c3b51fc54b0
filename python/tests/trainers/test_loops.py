"""A loop of a program's own: the first step of its optimizer is put back and tried again."""

import logging
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import torch
from transformers import modeling_utils

from sdk.injection import batch_of, build, clean_step, out_of_memory
from sdk.supervisor import Supervisor
from trainers.small_trainer import bert, gpt2
from trainers.unchanged import AUTO, run_unchanged
from warm import HANG_SECONDS

from plimsoll.bridge import phase, phases_seen
from plimsoll.optimizing import in_loops
from plimsoll.recovery import restore
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
        self.assertTrue(restore.is_guarded(optimizer))

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
        guard = restore.OptimizerGuard(optimizer, "always")
        with mock.patch.object(restore.HostGauge, "capacity_bytes", lambda _: 0):
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


# Steps of loops that know nothing of Plimsoll, as their supervisor hears them.

PROGRAM = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.ones(2, 4)).square().mean()
loss.backward()
optimizer.step()
print(float(loss))
"""


GENERATING = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel
small = {"vocab_size": 20, "n_embd": 8, "n_layer": 1, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0}
model = GPT2LMHeadModel(GPT2Config(**small))
ids = torch.ones(2, 3, dtype=torch.long)
model.generate(ids, attention_mask=ids, max_new_tokens=2, do_sample=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(input_ids=ids, labels=ids).loss
loss.backward()
optimizer.step()
print(float(loss))
"""


class Line:
    """A bridge to a supervisor who wants to hear of each step."""

    has_training = False

    def __init__(self):
        self.told = []

    def step_is_due(self, now, who):
        return True

    def report_loop(self, number, peak, who, loss):
        self.told.append((number, loss))


class Loops(unittest.TestCase):
    def setUp(self):
        self.addCleanup(setattr, phases_seen, "loop", None)
        self.line = Line()
        phases_seen.install()
        phases_seen.tell_steps(self.line)
        torch.manual_seed(0)
        self.model = torch.nn.Linear(4, 1)
        self.first = float(self.loss())
        self.optimizer = self.sgd()

    def sgd(self):
        return torch.optim.SGD(self.model.parameters(), lr=0.1)

    def loss(self):
        return self.model(torch.ones(2, 4)).square().mean()

    def test_the_parts_of_an_accumulation_are_one_step_and_one_loss(self):
        for _ in range(2):
            for _ in range(4):
                (self.loss() / 4).backward()
            self.optimizer.step()
        self.assertEqual([number for number, _ in self.line.told], [1, 2])
        self.assertAlmostEqual(self.line.told[0][1], self.first, places=5)
        self.assertNotEqual(self.line.told[1][1], self.line.told[0][1])

    def test_a_scaled_loss_is_told_as_it_was(self):
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        scaler.scale(self.loss()).backward()
        scaler.step(self.optimizer)
        self.assertEqual(self.line.told, [(1, self.first)])

    def test_the_losses_within_one_step_of_an_optimizer_are_not_added_up(self):
        optimizer = torch.optim.LBFGS(self.model.parameters(), max_iter=3)

        def closure():
            optimizer.zero_grad()
            loss = self.loss()
            loss.backward()
            return loss

        optimizer.step(closure)
        self.assertEqual(self.line.told, [(1, None)])

    def test_the_losses_of_two_optimizers_are_not_taken_for_one(self):
        for optimizer in (self.optimizer, self.sgd(), self.optimizer):
            self.loss().backward()
            optimizer.step()
        self.assertEqual(self.line.told, [(1, self.first), (2, None)])

    def test_a_loop_is_silent_where_a_trainer_or_the_sdk_tells_of_its_steps(self):
        self.line.has_training = True
        self.loss().backward()
        self.optimizer.step()
        self.assertEqual(self.line.told, [])


class Programs(unittest.TestCase):
    def test_a_plain_loop_tells_its_step_its_loss_and_its_peak(self):
        told, loss, _ = self.heard_from(PROGRAM)
        self.assertEqual([(one["number"], one["loss"]) for one in told], [(1, loss)])
        self.assertGreater(told[0]["peakBytes"], 2**20)

    def test_a_plain_loop_that_generates_first_tells_its_steps_as_well(self):
        told, loss, calls = self.heard_from(GENERATING)
        self.assertEqual([(one["number"], one["loss"]) for one in told], [(1, loss)])
        self.assertEqual([one["training"] for one in calls], [False])

    def heard_from(self, program):
        """(steps of its loop, what it printed, steps of works) of a program under a supervisor."""
        supervisor = Supervisor()
        self.addCleanup(supervisor.close)
        environment = {**os.environ, "PYTHONPATH": AUTO, "PLIMSOLL_BRIDGE": supervisor.path}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG_SECONDS,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        supervisor.wait_for_end()
        return supervisor.of("loop"), float(done.stdout), supervisor.of("step")


# Models of transformers in a loop of the program's own: forwards that run out of memory are made again.

MODELS_IN_LOOPS_PROGRAM = "plain_gpt2.py"
# More than its weights, gradients and states need, and less than the activations of one forward.
ROOM = 300 * 10**6


class InLoops(unittest.TestCase):
    def setUp(self):
        logging.getLogger("plimsoll").setLevel(logging.CRITICAL)
        self.addCleanup(logging.getLogger("plimsoll").setLevel, logging.NOTSET)
        phase.enter(phase.IDLE)
        kind = modeling_utils.PreTrainedModel
        before = kind.__dict__.get("__call__")
        in_loops.install(modeling_utils)
        self.addCleanup(
            lambda: (setattr(kind, "__call__", before) if before else delattr(kind, "__call__"))
        )

    def trained(self, made, fails):
        """The loss and gradients of one batch; calls of the last layer fail where `fails` says so."""
        torch.manual_seed(1)
        model = made(0.1).train()
        calls = []

        def failing(*_):
            calls.append(model.is_gradient_checkpointing)
            if fails(len(calls), model):
                raise out_of_memory()

        is_gpt2 = hasattr(model, "transformer")
        layers = model.transformer.h if is_gpt2 else model.bert.encoder.layer
        layers[-1].register_forward_pre_hook(failing)
        ids = torch.randint(3, 40, (4, 12), generator=torch.Generator().manual_seed(0))
        labels = ids if is_gpt2 else ids[:, 0] % 3
        torch.manual_seed(2)
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        return float(loss), [p.grad for p in model.parameters()], calls, model

    def test_caches_first_then_checkpointing_and_exactly_the_same_with_dropout(self):
        for made in (gpt2, bert):
            loss, gradients, _, _ = self.trained(made, lambda *_: False)
            for fails in (lambda n, _: n == 1, lambda n, m: not m.is_gradient_checkpointing):
                again, mine, calls, _ = self.trained(made, fails)
                self.assertEqual(again, loss)
                for one, other in zip(mine, gradients):
                    self.assertTrue(torch.equal(one, other))
            # The third call is with checkpointing; the one after it is of backward.
            self.assertEqual(calls, [False, False, True, True])

    def test_the_eager_kernel_gives_way_and_only_once_it_is_needed(self):
        for failures, kernel in ((1, "eager"), (2, "sdpa")):
            *_, model = self.trained(eager, lambda n, _, failures=failures: n <= failures)
            self.assertEqual(model.config._attn_implementation, kernel)

    def test_the_program_sees_its_own_error_where_nothing_helps(self):
        with self.assertRaises(torch.OutOfMemoryError):
            self.trained(gpt2, lambda *_: True)

    def test_calls_that_others_look_after_are_left_alone(self):
        def find_executable(function):
            names: dict = {"function": function}
            code = "def decorator():\n    return function()"
            exec(compile(code, "/x/accelerate/utils/memory.py", "exec"), names)
            return names["decorator"]()

        with self.assertRaises(torch.OutOfMemoryError):
            find_executable(lambda: self.trained(gpt2, lambda n, _: n == 1))
        phase.enter(phase.FORWARD)
        self.addCleanup(phase.enter, phase.IDLE)
        with self.assertRaises(torch.OutOfMemoryError):
            self.trained(gpt2, lambda n, _: n == 1)
        phase.enter(phase.IDLE)
        with torch.no_grad(), self.assertRaises(torch.OutOfMemoryError):
            self.trained(gpt2, lambda n, _: n == 1)

    def test_a_compiler_sees_the_model_in_one_graph(self):
        model = bert(0.0).train()
        ids = torch.arange(3, 15).reshape(1, 12)
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        self.assertTrue(torch.equal(compiled(input_ids=ids).logits, model(input_ids=ids).logits))

    def test_an_unchanged_program_under_a_real_limit(self):
        code, whole, said = run_unchanged(MODELS_IN_LOOPS_PROGRAM)
        self.assertEqual(code, 0, said[-2000:])
        self.assertFalse(whole["checkpointing"])
        code, limited, said = run_unchanged(MODELS_IN_LOOPS_PROGRAM, 2**40, words=[str(ROOM)])
        self.assertEqual(code, 0, said[-2000:])
        self.assertEqual(limited, {"losses": whole["losses"], "checkpointing": True})
        self.assertIn("plimsoll: checkpointing: a forward ran out of memory again", said)
        off = {"PLIMSOLL_TRAINERS": "0"}
        code, _, said = run_unchanged(MODELS_IN_LOOPS_PROGRAM, 2**40, more=off, words=[str(ROOM)])
        self.assertNotEqual(code, 0)


def eager(dropout):
    model = gpt2(dropout)
    model.set_attn_implementation("eager")
    return model


if __name__ == "__main__":
    unittest.main()
