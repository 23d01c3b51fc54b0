"""The recovering step in all its forms, and where it refuses."""

import json
import logging
import os
import sys
import unittest
from unittest import mock

import torch
import torch.nn.functional as F

import warm
from sdk.injection import (
    Faults,
    batch_of,
    build,
    cheap_collection,
    clean_step,
    gradients_at_step,
    out_of_memory,
)
from warm import PACKAGE

import plimsoll
from plimsoll.recovery.restore import OptimizerGuard


def mean_loss(model):
    return lambda batch: F.cross_entropy(model(batch[0]), batch[1])


class Quiet(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cheap_collection()

    def setUp(self):
        torch.set_num_threads(1)
        log = logging.getLogger("plimsoll")
        self.addCleanup(log.setLevel, log.level)
        log.setLevel(logging.ERROR)


class Fits:
    """Fails for more samples than fit, as memory does."""

    def __init__(self, most):
        self.most = most

    def __call__(self, count):
        if count > self.most:
            raise out_of_memory()


class Forms(Quiet):
    def test_as_a_decorator(self):
        model, optimizer = build(0, 0.0)
        fits = Fits(5)

        @plimsoll.recovering(model, optimizer)
        def train(batch):
            fits(len(batch[0]))
            return F.cross_entropy(model(batch[0]), batch[1])

        expected = mean_loss(build(0, 0.0)[0])(batch_of(1, 16))
        self.assertAlmostEqual(float(train(batch_of(1, 16))), float(expected.detach()), places=6)
        self.assertLessEqual(max(train.partition), 5)

    def test_as_a_context_manager_in_a_loop_of_ones_own(self):
        model, optimizer = build(0, 0.2)
        taken = gradients_at_step(optimizer)
        fits = Fits(6)
        batch = batch_of(2, 17)
        torch.manual_seed(5)
        with plimsoll.recovering(model, optimizer) as step:
            for microbatch in step.microbatches(batch):
                with microbatch:
                    fits(len(microbatch))
                    microbatch.backward(
                        F.cross_entropy(model(microbatch.batch[0]), microbatch.batch[1])
                    )
        twin, twin_optimizer = build(0, 0.2)
        clean = clean_step(
            twin, twin_optimizer, lambda m, b: mean_loss(m)(b), batch, step.partition, 5
        )
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(taken[0], clean)))
        self.assertEqual(step.steps, 1)

    def test_a_microbatch_that_was_not_entered_is_an_error(self):
        model, optimizer = build(0, 0.0)
        step = plimsoll.recovering(model, optimizer)
        with self.assertRaises(plimsoll.Failure):
            for _ in step.microbatches(batch_of(2, 4)):
                pass

    def test_any_function_of_a_batch(self):
        fits = Fits(7)

        @plimsoll.recovering
        def embed(batch, scale):
            fits(len(batch))
            return {
                "x": batch * scale,
                "names": [str(int(v)) for v in batch[:, 0]],
                "mean": batch.mean(),
            }

        batch = torch.arange(60.0).reshape(20, 3)
        made = embed(batch, 2)
        self.assertTrue(torch.equal(made["x"], batch * 2))
        self.assertEqual(made["names"], [str(3 * i) for i in range(20)])
        self.assertAlmostEqual(float(made["mean"]), float(batch.mean()), places=5)
        self.assertEqual(embed.microbatch, 5)

    def test_functions_of_lists_and_other_errors(self):
        @plimsoll.recovering(microbatch=4)
        def lengths(texts):
            if "bad" in texts:
                raise KeyError("bad")
            return [len(text) for text in texts]

        self.assertEqual(lengths(["a", "bb", "ccc"] * 3), [1, 2, 3] * 3)
        with self.assertRaises(KeyError):
            lengths(["bad"])

    def test_a_single_sample_that_never_fits_raises_its_own_error(self):
        model, optimizer = build(0, 0.0)
        before = [p.clone() for p in model.parameters()]
        calls = []

        def loss(batch):
            calls.append(len(batch[0]))
            raise out_of_memory()

        step = plimsoll.recovering(model, optimizer, loss)
        with self.assertRaises(torch.OutOfMemoryError):
            step(batch_of(0, 16))
        self.assertEqual(calls, [16, 8, 4, 2, 1, 1])
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(before, model.parameters())))

    def test_other_errors_pass_at_once(self):
        model, optimizer = build(0, 0.0)
        step = plimsoll.recovering(model, optimizer, lambda batch: 1 / 0)
        with self.assertRaises(ZeroDivisionError):
            step(batch_of(0, 4))


class Exact(Quiet):
    def test_tokens_weigh_a_language_models_loss(self):
        torch.manual_seed(0)
        embed = torch.nn.Embedding(11, 11)
        optimizer = torch.optim.SGD(embed.parameters(), lr=0.1)
        labels = torch.randint(0, 11, (9, 6))
        labels[2:7, 2:] = -100
        labels[4] = -100
        batch = {"input_ids": torch.randint(0, 11, (9, 6)), "labels": labels}

        def loss(part):
            logits = embed(part["input_ids"])[:, :-1]
            return F.cross_entropy(logits.reshape(-1, 11), part["labels"][:, 1:].reshape(-1))

        loss(batch).backward()
        full = embed.weight.grad.clone()
        taken = gradients_at_step(optimizer)
        step = plimsoll.recovering(embed, optimizer, loss, microbatch=1, share="shifted-tokens")
        value = step(batch)
        self.assertLess(float((taken[0][0] - full).abs().max()), 1e-6)
        self.assertTrue(torch.isfinite(value))

    def test_clips_once_over_the_whole_batch(self):
        for clip in (0.01, 100.0):
            model, optimizer = build(3, 0.0)
            taken = gradients_at_step(optimizer)
            plimsoll.recovering(model, optimizer, mean_loss(model), microbatch=3, clip=clip)(
                batch_of(3, 10)
            )
            twin, _ = build(3, 0.0)
            mean_loss(twin)(batch_of(3, 10)).backward()
            torch.nn.utils.clip_grad_norm_(twin.parameters(), clip)
            for ours, theirs in zip(taken[0], twin.parameters()):
                self.assertLess(float((ours - theirs.grad).abs().max()), 1e-6)

    def test_with_a_grad_scaler_and_autocast(self):
        model, optimizer = build(4, 0.0)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        taken = gradients_at_step(optimizer)
        faults = Faults("backward", [4, 9])
        faults.watch(model)
        step = plimsoll.recovering(
            model,
            optimizer,
            mean_loss(model),
            microbatch=4,
            scaler=scaler,
            autocast=torch.bfloat16,
            clip=1.0,
        )
        for seed in range(3):
            step(batch_of(seed, 12))
        self.assertEqual(faults.raised, 2)
        self.assertEqual(step.steps, 3)
        self.assertTrue(all(float(g.abs().max()) < 10 for grads in taken for g in grads))

    def test_a_step_with_infinite_gradients_is_skipped_once(self):
        model, optimizer = build(4, 0.0)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
        before = [p.clone() for p in model.parameters()]
        loss = mean_loss(model)
        step = plimsoll.recovering(
            model, optimizer, lambda b: loss(b) * float("inf"), scaler=scaler, microbatch=2
        )
        step(batch_of(0, 6))
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(before, model.parameters())))
        self.assertEqual(scaler.get_scale(), 2.0**15)

    def test_batch_norm_is_told_and_its_statistics_are_put_back(self):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        calls = []

        def loss(batch):
            calls.append(len(batch[0]))
            value = F.cross_entropy(model(batch[0]), batch[1])
            if len(calls) == 2:
                raise out_of_memory()
            return value

        with self.assertLogs("plimsoll", "WARNING") as logs:
            step = plimsoll.recovering(model, optimizer, loss, microbatch=4)
            step(batch_of(0, 8))
        self.assertIn("BatchNorm", logs.output[0])
        self.assertEqual(int(model[0].num_batches_tracked), len(step.partition))

    def test_batches_of_many_shapes(self):
        from plimsoll.recovery.parts import batch_length, take

        x, y = torch.arange(8).reshape(4, 2), torch.arange(4)
        cases = [
            ((x, y), (x[1:3], y[1:3])),
            ([x, y], [x[1:3], y[1:3]]),
            (
                {"x": x, "mask": torch.ones(1, 2), "k": 3},
                {"x": x[1:3], "mask": torch.ones(1, 2), "k": 3},
            ),
            ({"x": x, "names": ["a", "b", "c", "d"]}, {"x": x[1:3], "names": ["b", "c"]}),
            (["a", "b", "c", "d"], ["b", "c"]),
            ([{"t": x}, {"t": y}, {"t": x}, {"t": y}], [{"t": y}, {"t": x}]),
        ]
        for batch, part in cases:
            self.assertEqual(batch_length(batch), 4)
            self.assertEqual(repr(take(batch, 1, 3, 4)), repr(part))
        with self.assertRaises(plimsoll.Failure):
            batch_length({"x": torch.ones(4), "y": torch.ones(3)})

    def test_an_empty_batch_is_one_clear_error(self):
        model, optimizer = build(0, 0.0)
        step = plimsoll.recovering(model, optimizer, mean_loss(model))
        embed = plimsoll.recovering(lambda batch: batch)
        for empty in (batch_of(0, 0), [], {"x": torch.ones(0, 3)}):
            for call in (step, embed):
                with self.subTest(repr(empty)[:20]), self.assertRaises(plimsoll.Failure) as caught:
                    call(empty)
                self.assertEqual(caught.exception.code, "empty-batch")
        step(batch_of(0, 4))
        self.assertEqual(step.steps, 1)

    def test_no_lone_sample_is_left_for_batch_norm(self):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = plimsoll.recovering(model, optimizer, mean_loss(model), microbatch=8)
        step(batch_of(0, 9))
        self.assertEqual(step.partition, [5, 4])


class HalfDone(Quiet):
    def test_it_refuses_to_go_on_after_a_half_done_step(self):
        model, optimizer = build(0, 0.0)
        step = plimsoll.recovering(model, optimizer, mean_loss(model))
        step(batch_of(0, 8))
        faults = Faults("step", [0])
        with faults.in_step(), self.assertRaises(plimsoll.Failure) as caught:
            step(batch_of(1, 8))
        self.assertEqual(caught.exception.code, "half-done-step")
        broken = [p.clone() for p in model.parameters()]
        # A program that catches it and goes on would train a broken model: each later step refuses, too.
        for again in (
            lambda: step(batch_of(2, 8)),
            lambda: next(step.microbatches(batch_of(2, 8))),
        ):
            with self.assertRaises(plimsoll.Failure) as refused:
                again()
            self.assertEqual(refused.exception.code, "half-done-step")
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(broken, model.parameters())))
        plimsoll.recovering(model, optimizer, mean_loss(model))(batch_of(2, 8))

    def test_a_step_that_fails_a_third_time_is_given_up(self):
        for failures, given_up in ((2, False), (3, True)):
            model, optimizer = build(0, 0.0)
            faults = Faults("step", [0] * failures)
            step = plimsoll.recovering(model, optimizer, mean_loss(model), backup="always")
            with faults.in_step():
                if given_up:
                    with self.assertRaises(torch.OutOfMemoryError):
                        step(batch_of(0, 4))
                else:
                    step(batch_of(0, 4))
            self.assertEqual((faults.raised, step.steps), (failures, not given_up))

    def test_the_first_step_is_rolled_back_without_asking(self):
        model, optimizer = build(0, 0.0)
        step = plimsoll.recovering(model, optimizer, mean_loss(model))
        faults = Faults("step", [0])
        with faults.in_step():
            step(batch_of(0, 8))
        twin, twin_optimizer = build(0, 0.0)
        clean_step(twin, twin_optimizer, lambda m, b: mean_loss(m)(b), batch_of(0, 8), [8], 0)
        self.assertTrue(
            all(torch.equal(a, b) for a, b in zip(model.parameters(), twin.parameters()))
        )

    def test_states_half_made_are_made_anew(self):
        model, optimizer = build(0, 0.0)
        step = plimsoll.recovering(model, optimizer, mean_loss(model), backup="never")
        real, left = torch.zeros_like, [3]

        def failing(*arguments, **named):
            left[0] -= 1
            if left[0] == 0:
                raise out_of_memory()
            return real(*arguments, **named)

        with mock.patch.object(torch, "zeros_like", failing):
            step(batch_of(0, 8))
        self.assertLess(left[0], 0)
        self.assertTrue(all("exp_avg_sq" in state for state in optimizer.state.values()))

    def test_every_kind_of_step_shows_that_it_began(self):
        adam, sgd = torch.optim.AdamW, torch.optim.SGD
        ways = [
            (adam, {"foreach": True}),
            (adam, {"foreach": False}),
            (adam, {"fused": True}),
            (torch.optim.Adafactor, {}),
        ]
        ways += [
            (sgd, {"foreach": True}),
            (sgd, {"foreach": False, "momentum": 0.9}),
            (torch.optim.RMSprop, {}),
        ]
        for kind, options in ways:
            for steps_before in (0, 1):
                with self.subTest(f"{kind.__name__} {options} {steps_before}"):
                    weight = torch.nn.Parameter(torch.ones(4, 4))
                    optimizer = kind([weight], lr=0.1, **options)
                    guard = OptimizerGuard(optimizer, "never")
                    for _ in range(steps_before + 1):
                        weight.grad = torch.ones(4, 4)
                        guard.before_step()
                        optimizer.step()
                    with self.assertRaises(plimsoll.Failure):
                        guard.roll_back()

    def test_no_copy_is_made_where_so_much_is_free_that_the_step_cannot_fail(self):
        weight = torch.nn.Parameter(torch.ones(4))
        for room, copied in ((6 * 16, False), (6 * 16 - 1, True)):
            optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
            guard = OptimizerGuard(optimizer, "first", room=lambda room=room: room)
            guard.before_step()
            self.assertEqual(guard._copies is not None, copied)

    def test_a_fused_first_step_is_rolled_back(self):
        weight = torch.nn.Parameter(torch.ones(4))
        optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9, fused=True)
        guard = OptimizerGuard(optimizer, "first")
        weight.grad = torch.ones(4)
        guard.before_step()
        optimizer.step()
        guard.roll_back()
        self.assertTrue(torch.equal(weight.detach(), torch.ones(4)))
        self.assertEqual(len(optimizer.state), 0)

    def test_numbers_that_an_optimizer_keeps_for_itself_are_seen_and_put_back(self):
        weight = torch.nn.Parameter(torch.ones(4))
        optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        weight.grad = torch.ones(4)
        optimizer.step()
        optimizer.state["count"] = 1
        optimizer.state[weight]["seen"] = [1]
        for backup in ("never", "always"):
            guard = OptimizerGuard(optimizer, backup)
            guard.before_step()
            optimizer.state["count"] = 2
            optimizer.state[weight]["seen"].append(2)
            if backup == "never":
                with self.assertRaises(plimsoll.Failure):
                    guard.roll_back()
                optimizer.state["count"] = 1
                optimizer.state[weight]["seen"] = [1]
                continue
            guard.roll_back()
            self.assertEqual(optimizer.state["count"], 1)
            self.assertEqual(optimizer.state[weight]["seen"], [1])


class Sizes(Quiet):
    def test_a_larger_batch_is_tried_whole_until_one_fails(self):
        model, optimizer = build(0, 0.0)
        fits = Fits(100)

        def loss(batch):
            fits(len(batch[0]))
            return mean_loss(model)(batch)

        step = plimsoll.recovering(model, optimizer, loss, grow_after=2)
        sizes = []
        for count in (8, 3, 16):
            step(batch_of(0, count))
            sizes.append(step.partition)
        self.assertEqual(sizes, [[8], [3], [16]])
        fits.most = 4
        step(batch_of(0, 12))
        self.assertEqual(step.partition, [3, 3, 3, 3])
        fits.most = 100
        # 3, then between what fits and what failed, then beyond it: two clean steps for each size.
        for _ in range(12):
            step(batch_of(0, 12))
        self.assertEqual(step.partition, [12])

    def test_a_batch_that_will_not_fit_is_cut_before_it_fails(self):
        """In the first step the optimizer's states are not there yet; with them the same size is too large."""
        model, optimizer = build(0, 0.0)
        calls = []

        def loss(batch):
            calls.append(len(batch[0]))
            # 100 GiB and 10 a sample, and 60 for the states once they are made: then 5 fit under 90 % of 240.
            if 100 + 60 * (step.steps > 0) + 10 * len(batch[0]) > 240:
                raise out_of_memory()
            return mean_loss(model)(batch)

        step = plimsoll.recovering(model, optimizer, loss)
        gauge = step._gauge
        gauge.capacity_bytes = lambda: 240 * 2**30
        gauge.used_bytes = lambda: (100 + 60 * (step.steps > 0)) * 2**30
        gauge.reset_peak = lambda: None
        gauge.peak_bytes = lambda: (100 + 60 * (step.steps > 1) + 10 * calls[-1]) * 2**30
        step(batch_of(0, 16))
        self.assertEqual((calls, step.partition), ([16, 8, 8], [8, 8]))
        step(batch_of(0, 16))
        self.assertEqual(step.partition, [4, 4, 4, 4])
        self.assertEqual(calls[3:], [4, 4, 4, 4])
        self.assertIn("8 samples will need 240.0 GiB of 240.0 GiB", step.events[-1]["why"])

    def test_it_waits_for_other_processes_and_goes_back_to_its_size(self):
        model, optimizer = build(0, 0.0)
        held, slept = [90], []

        def loss(batch):
            if held[0]:
                raise RuntimeError(
                    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
                )
            return mean_loss(model)(batch)

        def sleep(seconds):
            slept.append(seconds)
            held[0] = 0 if len(slept) == 3 else held[0]

        step = plimsoll.recovering(model, optimizer, loss)
        step._gauge.others_bytes, step._gauge.total_bytes = (lambda: held[0]), (lambda: 100)
        with mock.patch("time.sleep", sleep):
            step(batch_of(0, 16))
        self.assertEqual(slept, [1.0, 1.5, 2.0])
        self.assertEqual(step.partition, [16])

    def test_a_batch_in_many_parts_grows_before_its_end(self):
        model, optimizer = build(0, 0.0)
        step = plimsoll.recovering(model, optimizer, mean_loss(model), microbatch=1)
        step._gauge.peak_bytes = lambda: 1000 + 10 * step.microbatch
        step._gauge.used_bytes = lambda: 1000
        step._gauge.capacity_bytes = lambda: 2000
        step(batch_of(0, 600))
        self.assertEqual((step.partition[0], step.partition[64], step.partition[128]), (1, 2, 4))
        self.assertEqual(sum(step.partition), 600)

    def test_a_declared_rung_is_climbed_once(self):
        model, optimizer = build(0, 0.0)
        climbed = []
        fits = Fits(0)

        def loss(batch):
            fits(len(batch[0]))
            return mean_loss(model)(batch)

        def offload():
            climbed.append("offload")
            fits.most = 2

        plimsoll.recovering(model, optimizer, loss, rungs={"offload": offload})(batch_of(0, 8))
        self.assertEqual(climbed, ["offload"])


LIMITED = """
import os, resource, sys
sys.path.insert(0, sys.argv[1])
import torch, plimsoll
from plimsoll.memory.host import process_status
torch.set_num_threads(1)
torch.manual_seed(0)
from torch.nn import Linear, Sequential, Tanh
model = Sequential(Linear(64, 1024), Tanh(), Tanh(), Tanh(), Linear(1024, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(4096, 64)
loss = lambda batch: model(batch).square().mean()
loss(data[:8]).backward()
optimizer.zero_grad(set_to_none=True)
if sys.argv[2] == 'stated':
    os.environ['PLIMSOLL_MEMORY_BYTES'] = str(int((process_status()['RssAnon'] + 56 * 2**20) / 0.97))
step = plimsoll.recovering(model, optimizer, loss, grow_after=3)
if sys.argv[2] == 'limited':
    soft = process_status()['VmSize'] + 48 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (soft, soft))
losses = [float(step(data)) for _ in range(3)]
print(step.microbatch, sum(e.get('action') == 'retry' for e in step.events), [round(l, 6) for l in losses], sep='|')
"""


class RealLimit(Quiet):
    def run_job(self, way):
        done = warm.run(
            [sys.executable, "-c", LIMITED, PACKAGE, way],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip().split("|")

    def test_under_a_real_limit_it_ends_with_the_same_losses(self):
        whole, never, expected = self.run_job("free")
        self.assertEqual((whole, never), ("4096", "0"))
        # An address-space limit, and one of a cgroup's kind: there the kernel would kill, so we fail before.
        for way in ("limited", "stated"):
            with self.subTest(way):
                size, recovered, losses = self.run_job(way)
                self.assertLess(int(size), 4096)
                self.assertGreaterEqual(int(recovered), 1)
                for ours, theirs in zip(json.loads(losses), json.loads(expected)):
                    self.assertAlmostEqual(ours, theirs, places=5)
