"""After a failure nothing of the failed graph is alive when the next try starts, whatever programs do around a step."""

from __future__ import annotations

import ast
import gc
import logging
import os
import random
import subprocess
import sys
import unittest
import weakref
from types import SimpleNamespace
from unittest import mock

import torch
import torch.nn.functional as F

from sdk.injection import (
    Faults,
    batch_of,
    build,
    cheap_collection,
    clean_step,
    gradients_at_step,
    out_of_memory,
    random_countdown,
)
from sdk.supervisor import Supervisor
from warm import HANG_SECONDS, PACKAGE

import plimsoll
from plimsoll.recovery.restore import OptimizerGuard
from plimsoll.recovery.steps import training as training_steps


class Kept:
    """What a node of the graph holds; as long as it lives, so do the activations."""


class Heavy(torch.autograd.Function):
    """Fails in backward for more samples than fit, with the graph behind it still whole."""

    alive = weakref.WeakSet()
    most = 4

    @staticmethod
    def forward(ctx, x):
        ctx.kept = Kept()
        Heavy.alive.add(ctx.kept)
        ctx.samples = len(x)
        return x * 1.0

    @staticmethod
    def backward(ctx, grad):
        if ctx.samples > Heavy.most:
            raise out_of_memory()
        return grad


class Output(dict):
    """As models return it: a dict with attributes."""

    def __getattr__(self, name):
        if name not in self:
            raise AttributeError(name)
        return self[name]


class FailedGraph(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cheap_collection()

    def setUp(self):
        log = logging.getLogger("plimsoll")
        self.addCleanup(log.setLevel, log.level)
        log.setLevel(logging.ERROR)
        self.model, self.optimizer = build(0, 0.0)
        self.begun = []
        self.logits = weakref.WeakSet()
        Heavy.alive.clear()
        # Reference counts alone must do it: on a card a collection of cycles comes too late.
        gc.disable()
        self.addCleanup(gc.enable)

    def forward(self, batch):
        self.begun.append((len(batch[0]), len(Heavy.alive), len(self.logits)))
        logits = Heavy.apply(self.model(batch[0]))
        self.logits.add(logits)
        return Output(logits=logits, loss=F.cross_entropy(logits, batch[1]))

    def check(self, failures=2):
        self.assertEqual(
            [alive for _, alive, _ in self.begun[: failures + 1]], [0] * (failures + 1), self.begun
        )
        self.assertEqual(
            [alive for _, _, alive in self.begun[: failures + 1]], [0] * (failures + 1), self.begun
        )

    def test_of_a_step(self):
        step = plimsoll.recovering(
            self.model, self.optimizer, lambda batch: self.forward(batch).loss
        )
        step(batch_of(0, 16))
        self.assertEqual(step.partition, [4, 4, 4, 4])
        self.check()

    def test_of_a_step_whose_loss_returns_all_outputs(self):
        plimsoll.recovering(self.model, self.optimizer, self.forward)(batch_of(0, 16))
        self.check()

    def test_of_a_loop_that_keeps_loss_and_outputs_in_variables(self):
        step = plimsoll.recovering(self.model, self.optimizer)
        seen = []
        for part in step.microbatches(batch_of(0, 16)):
            with part:
                # Emptied variables are no tensors of the graph any more; the objects themselves go here.
                self.logits.clear()
                outputs = self.forward(part.batch)
                loss = outputs.loss
                part.backward(loss)
            seen.append(float(loss.detach()))
        self.assertEqual(step.partition, [4, 4, 4, 4])
        self.check()
        self.assertEqual(len(seen), len(self.begun))

    def test_what_the_block_did_not_make_is_left_alone(self):
        step = plimsoll.recovering(self.model, self.optimizer)
        before = torch.ones(3, requires_grad=True) * 2
        batch = batch_of(0, 16)
        for part in step.microbatches(batch):
            with part:
                loss = self.forward(part.batch).loss + 0 * before.detach().sum()
                part.backward(loss)
        self.assertEqual(before.tolist(), [2, 2, 2])
        self.assertIsNotNone(before.grad_fn)
        self.assertEqual(len(batch[0]), 16)

    def test_of_an_optimizer_that_computes_the_loss_itself(self):
        optimizer = torch.optim.LBFGS(self.model.parameters(), max_iter=3)
        step = plimsoll.recovering(self.model, optimizer, lambda batch: self.forward(batch).loss)
        step(batch_of(0, 16))
        self.check()
        # Later looks at the loss fail, too: nothing of them stays either.
        self.assertTrue(all(alive == 0 for _, alive, _ in self.begun), self.begun)

    def test_of_a_function(self):
        def embed(batch):
            out = self.forward(batch)
            out.loss.backward()
            self.model.zero_grad()
            return out.logits.detach()

        made = plimsoll.recovering(embed)(batch_of(0, 16))
        self.assertEqual(len(made), 16)
        self.check()

    def test_of_a_function_that_ranks_share(self):
        """Under no_sync, as ranks run it: their context adds frames, and holds nothing."""
        from contextlib import contextmanager

        step = plimsoll.recovering(
            self.model, self.optimizer, lambda batch: self.forward(batch).loss
        )

        @contextmanager
        def no_sync():
            yield

        step._ranks.no_sync = no_sync
        step(batch_of(0, 16))
        self.check()


# Failures at random points of a step: all recovered, every sample once, gradients exact.

TRIALS = int(os.environ.get("PLIMSOLL_TEST_INJECTIONS", "240"))
# Hook calls of one pass over the whole batch: later points lie in later microbatches.
POINTS = {"forward": 3, "backward": 6, "step": 1}


def plain_loss(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


class InjectedFailures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cheap_collection()
        logging.getLogger("plimsoll").setLevel(logging.ERROR)

    @classmethod
    def tearDownClass(cls):
        logging.getLogger("plimsoll").setLevel(logging.NOTSET)

    def one(self, trial, phase):
        draw = random.Random(trial)
        dropout = draw.choice([0.0, 0.3])
        count, microbatch = draw.randint(2, 24), draw.randint(1, 24)
        microbatches = -(-count // microbatch)
        model, optimizer = build(trial, dropout)
        faults = Faults(phase, random_countdown(draw, phase, POINTS[phase], microbatches))
        faults.watch(model)
        taken = gradients_at_step(optimizer)
        step = plimsoll.recovering(
            model,
            optimizer,
            lambda part: plain_loss(model, part),
            microbatch=microbatch,
            backup="always",
        )
        batch = batch_of(trial, count)
        torch.manual_seed(trial + 1)
        with faults.in_step():
            value = step(batch)
        self.assertGreaterEqual(faults.raised, 1)
        self.assertEqual(sum(step.partition), count)
        self.assertEqual(step.steps, 1)

        twin, twin_optimizer = build(trial, dropout)
        clean = clean_step(twin, twin_optimizer, plain_loss, batch, step.partition, trial + 1)
        for ours, theirs in zip(taken[-1], clean):
            self.assertTrue(
                torch.equal(ours, theirs), "bit-equal to a clean run with the same microbatches"
            )
        for ours, theirs in zip(model.parameters(), twin.parameters()):
            self.assertTrue(torch.equal(ours, theirs), "the step was applied exactly once")
        if dropout == 0.0:
            whole, whole_optimizer = build(trial, dropout)
            full = clean_step(whole, whole_optimizer, plain_loss, batch, [count], trial + 1)
            for ours, theirs in zip(taken[-1], full):
                self.assertLess(float((ours - theirs).abs().max()), 1e-6)
            expected = plain_loss(build(trial, 0.0)[0], batch)
            self.assertLess(abs(float(value) - float(expected.detach())), 1e-6)
        return faults.raised

    def test_in_forward(self):
        self.assertGreaterEqual(
            sum(self.one(trial, "forward") for trial in range(TRIALS // 3)), TRIALS // 3
        )

    def test_in_backward(self):
        self.assertGreaterEqual(
            sum(self.one(trial, "backward") for trial in range(TRIALS // 3)), TRIALS // 3
        )

    def test_in_the_optimizers_step(self):
        self.assertGreaterEqual(
            sum(self.one(trial, "step") for trial in range(TRIALS // 3)), TRIALS // 3
        )


# What a retry gives back, on a simulated card: collecting garbage is slow, so only where cycles may hold memory.

MIB = 1 << 20
RESTS = 500 * MIB
WORKSPACE = 33 * MIB


class SimulatedCard:
    """Memory in use: what rests, the workspace of cuBLAS until it is cleared, and what cycles hold."""

    def __init__(self, in_cycles):
        self.workspace, self.in_cycles = WORKSPACE, in_cycles

    def used_bytes(self):
        return RESTS + self.workspace + self.in_cycles

    def clear_workspaces(self):
        self.workspace = 0


def collects(in_cycles):
    """Whether a retry after a failure asks for a collection."""
    card = SimulatedCard(in_cycles)
    sizer = mock.Mock(peaks=SimpleNamespace(base_bytes=RESTS))
    fitting = mock.Mock(gauge=card, sizer=sizer)
    training = mock.Mock()
    training.gradients.held_bytes.return_value = 0
    made = training_steps.Retry(training, fitting, mock.Mock(), {})
    made._decision = SimpleNamespace(rung="smaller-microbatch", action="retry", microbatch=8)
    with (
        mock.patch.object(training_steps, "clear_workspaces", card.clear_workspaces),
        mock.patch.object(training_steps, "give_back_caches") as give_back,
    ):
        made.prepare(mock.Mock(), 16, mock.Mock())
    return give_back.call_args.kwargs["collect"]


class RetryCleanUp(unittest.TestCase):
    def test_the_workspace_of_cublas_is_no_reason_to_collect(self):
        self.assertFalse(collects(in_cycles=0))

    def test_memory_that_is_still_held_is(self):
        self.assertTrue(collects(in_cycles=200 * MIB))


# An optimizer that computes the loss itself: as exact as the parts that its loss is summed over.

STEPS = 4


def trained(parts, dtype, line_search, steps=STEPS):
    """Plain LBFGS whose closure sums the mean loss over parts; no code of ours."""
    model, optimizer, batch = made(dtype, line_search)
    count = len(batch[0])

    def closure():
        optimizer.zero_grad(set_to_none=True)
        total, done = None, 0
        for size in parts:
            loss = F.cross_entropy(
                model(batch[0][done : done + size]), batch[1][done : done + size]
            )
            (loss if size == count else loss * (size / count)).backward()
            value = loss.detach() if size == count else loss.detach() * (size / count)
            total = value if total is None else total + value
            done += size
        return total

    for _ in range(steps):
        optimizer.step(closure)
    return weights(model)


def ours(dtype, line_search, fits=None, steps=STEPS, **options):
    model, optimizer, batch = made(dtype, line_search)

    def loss(part):
        if fits is not None and len(part[0]) > fits:
            raise out_of_memory()
        return F.cross_entropy(model(part[0]), part[1])

    step = plimsoll.recovering(model, optimizer, loss, **options)
    for _ in range(steps):
        step(batch)
    return weights(model), step.partition


def made(dtype, line_search):
    model = build(0, 0.0)[0].to(dtype)
    x, y = batch_of(1, 12)
    return (
        model,
        torch.optim.LBFGS(model.parameters(), max_iter=6, line_search_fn=line_search),
        (x.to(dtype), y),
    )


def weights(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


class Lbfgs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cheap_collection()

    def setUp(self):
        torch.set_num_threads(1)
        log = logging.getLogger("plimsoll")
        self.addCleanup(log.setLevel, log.level)
        log.setLevel(logging.ERROR)

    def test_a_whole_batch_is_bit_equal_to_plain_lbfgs(self):
        for line_search in (None, "strong_wolfe"):
            with self.subTest(line_search):
                self.assertTrue(
                    torch.equal(
                        ours(torch.float32, line_search)[0],
                        trained([12], torch.float32, line_search),
                    )
                )

    def test_parts_are_bit_equal_to_a_closure_over_the_same_parts(self):
        for line_search in (None, "strong_wolfe"):
            with self.subTest(line_search):
                mine, parts = ours(torch.float32, line_search, microbatch=5)
                self.assertEqual(parts, [4, 4, 4])
                self.assertTrue(torch.equal(mine, trained(parts, torch.float32, line_search)))

    def test_memory_that_runs_out_changes_nothing(self):
        # The first look fails with 6 samples; it and all that follow run with 3.
        mine, parts = ours(torch.float32, "strong_wolfe", fits=3, steps=1, microbatch=6)
        self.assertEqual(parts, [3, 3, 3, 3])
        self.assertTrue(torch.equal(mine, trained(parts, torch.float32, "strong_wolfe", steps=1)))

    def test_how_far_parts_are_from_the_whole_batch(self):
        for dtype, most in ((torch.float64, 1e-11), (torch.float32, 1e-3)):
            with self.subTest(str(dtype)):
                mine, _ = ours(dtype, None, microbatch=5)
                whole = trained([12], dtype, None)
                self.assertLess(float((mine - whole).abs().max() / whole.abs().max()), most)


AUTO = os.path.join(PACKAGE, "plimsoll", "_auto")


class Quiet(unittest.TestCase):
    def setUp(self):
        log = logging.getLogger("plimsoll")
        self.addCleanup(log.setLevel, log.level)
        log.setLevel(logging.CRITICAL)


def loss_of(model, fits=None):
    def loss(batch):
        if fits is not None and len(batch[0]) > fits[0]:
            raise out_of_memory()
        return F.cross_entropy(model(batch[0]), batch[1])

    return loss


class Closures(Quiet):
    """Optimizers that look at the loss more than once a step."""

    def lbfgs(self, model):
        return torch.optim.LBFGS(
            model.parameters(), lr=0.5, max_iter=4, line_search_fn="strong_wolfe"
        )

    def test_lbfgs_goes_the_way_of_a_plain_loop(self):
        model, _ = build(3, 0.0)
        twin, _ = build(3, 0.0)
        batch = batch_of(1, 12)
        fits = [5]
        step = plimsoll.recovering(model, self.lbfgs(model), loss_of(model, fits))
        optimizer = self.lbfgs(twin)

        def closure():
            optimizer.zero_grad()
            value = loss_of(twin)(batch)
            value.backward()
            return value

        for _ in range(3):
            ours, plain = step(batch), optimizer.step(closure)
            self.assertAlmostEqual(float(ours), float(plain), places=4)
        for a, b in zip(model.parameters(), twin.parameters()):
            self.assertLess(float((a - b).abs().max()), 1e-3)
        # 12 and 6 fail, 3 fit; after two clean steps 4 are tried, below what failed.
        self.assertEqual((sum(step.partition), step.microbatch), (12, 4))

    def test_it_says_so_where_that_cannot_be(self):
        model, _ = build(0, 0.0)
        step = plimsoll.recovering(model, self.lbfgs(model))
        with self.assertRaises(plimsoll.Failure) as caught:
            next(step.microbatches(batch_of(0, 4)))
        self.assertEqual(caught.exception.code, "closure-needed")
        scaler = torch.amp.GradScaler("cpu")
        with self.assertRaises(plimsoll.Failure) as caught:
            plimsoll.recovering(model, self.lbfgs(model), loss_of(model), scaler=scaler)
        self.assertEqual(caught.exception.code, "closure-unsupported")

    def test_lists_in_an_optimizers_state_are_rolled_back(self):
        model, _ = build(0, 0.0)
        optimizer = self.lbfgs(model)
        step = plimsoll.recovering(model, optimizer, loss_of(model))
        step(batch_of(0, 8))
        [state] = optimizer.state.values()
        kept = [t.clone() for t in state["old_dirs"]]
        guard = OptimizerGuard(optimizer, "always")
        guard.before_step()
        state["old_dirs"].append(torch.ones(1))
        state["old_dirs"][0].zero_()
        guard.roll_back()
        [state] = optimizer.state.values()
        self.assertEqual(len(state["old_dirs"]), len(kept))
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(kept, state["old_dirs"])))


class Full(Quiet):
    def test_it_recovers_where_not_even_memory_can_be_looked_at(self):
        model, optimizer = build(0, 0.0)
        fits = [5]
        step = plimsoll.recovering(model, optimizer, loss_of(model, fits))
        step._gauge.capacity_bytes = mock.Mock(side_effect=MemoryError())
        step(batch_of(0, 16))
        self.assertEqual(step.partition, [4, 4, 4, 4])


class Compiled(Quiet):
    def test_a_compiled_model_is_recovered(self):
        model, _ = build(0, 0.0)
        twin, _ = build(0, 0.0)
        compiled = torch.compile(model, backend="aot_eager", dynamic=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = plimsoll.recovering(compiled, optimizer, loss_of(compiled, [5]))
        plain = torch.optim.SGD(twin.parameters(), lr=0.1)
        for seed in range(3):
            batch = batch_of(seed, 16)
            step(batch)
            plain.zero_grad()
            loss_of(twin)(batch).backward()
            plain.step()
        self.assertEqual(step.partition, [4, 4, 4, 4])
        for a, b in zip(model.parameters(), twin.parameters()):
            self.assertLess(float((a - b).detach().abs().max()), 1e-5)

    def test_a_compiled_step_is_watched_without_harm(self):
        code = """
import sys, torch
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(batch):
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    return loss
train = torch.compile(train, backend='eager')
losses = [float(train(torch.ones(8, 4))) for _ in range(4)]
assert losses[-1] < losses[0], losses
print('plimsoll' in str(torch.autograd.backward.__code__.co_filename))
"""
        supervisor = Supervisor()
        self.addCleanup(supervisor.close)
        self.assertEqual(run(code, supervisor.path), "True")


class Workers(Quiet):
    def test_a_loaders_workers_of_both_kinds_leave_the_line_alone(self):
        code = """
import sys, torch
from torch.utils.data import DataLoader, TensorDataset
if __name__ == '__main__':
    torch.set_num_threads(1)
    data = TensorDataset(torch.arange(12.0).reshape(12, 1))
    seen = []
    for kind in ('fork', 'spawn'):
        for [batch] in DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context=kind):
            seen += batch.reshape(-1).tolist()
    print(seen == 2 * list(range(12)))
"""
        import tempfile

        supervisor = Supervisor()
        self.addCleanup(supervisor.close)
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(code)
            file.flush()
            self.assertEqual(
                run(None, supervisor.path, file.name, RANK="1", WORLD_SIZE="2"), "True"
            )
        said = supervisor.of("hello")
        # Spawned ones are processes of their own that import torch; none of them says it can be told anything.
        self.assertTrue(all(hello["hooks"] == [] for hello in said))
        self.assertEqual(len({hello["pid"] for hello in said}), 3)


class OldPython(unittest.TestCase):
    def test_every_file_is_python_3_9(self):
        count = 0
        for folder, _, names in os.walk(os.path.join(PACKAGE, "plimsoll")):
            for name in names:
                if name.endswith(".py"):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as file:
                        text = file.read()
                    tree = ast.parse(text, path, feature_version=(3, 9))
                    self.assertEqual(new_words(tree), [], path)
                    count += 1
        self.assertGreater(count, 100)

    def test_a_union_is_found_where_python_would_evaluate_it(self):
        future = "from __future__ import annotations\n"
        words = ["X | None outside of an annotation"]
        for text, found in (
            (future + "def f(x: int | None) -> int | None: y: int | None = x", []),
            (future + "Alias = int | None", words),
            (future + "isinstance(1, int | None)", words),
            ("def f(x: int | None): pass", words),
        ):
            self.assertEqual(new_words(ast.parse(text)), found, text)


# What came to the standard library after 3.9 and is easily used by mistake.
NEWER = {
    "pairwise",
    "batched",
    "bit_count",
    "aclosing",
    "anext",
    "aiter",
    "removeprefixes",
    "ExceptionGroup",
    "TaskGroup",
}


class WithoutAnnotations(ast.NodeTransformer):
    """What is left to evaluate in a file whose annotations are not."""

    def visit_arg(self, node):
        node.annotation = None
        return node

    def visit_FunctionDef(self, node):
        node.returns = None
        return self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_AnnAssign(self, node):
        node.annotation = ast.Constant("")
        return self.generic_visit(node)


def new_words(tree):
    found = []
    if any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body):
        tree = WithoutAnnotations().visit(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in ("strict", "slots", "kw_only"):
            found.append(node.arg)
        if (
            isinstance(node, (ast.Attribute, ast.Name))
            and (getattr(node, "attr", None) or getattr(node, "id", None)) in NEWER
        ):
            found.append(ast.dump(node))
        if (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.BitOr)
            and isinstance(node.right, ast.Constant)
            and node.right.value is None
        ):
            found.append("X | None outside of an annotation")
    return found


def run(code, path, *arguments, **more):
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith("PLIMSOLL_")
    }
    environment.update(PYTHONPATH=os.pathsep.join([AUTO, PACKAGE]), PLIMSOLL_BRIDGE=path, **more)
    command = [sys.executable, "-W", "ignore", *(["-c", code] if code else []), *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
    )
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout.strip()


if __name__ == "__main__":
    unittest.main()
