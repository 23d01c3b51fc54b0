"""What real programs do around a step: closures, compiled models, loaders, pools, old Pythons."""

import ast
import logging
import os
import subprocess
import sys
import unittest
from unittest import mock

import torch
import torch.nn.functional as F

from sdk import HANG_SECONDS, PACKAGE
from sdk.injection import batch_of, build, out_of_memory
from sdk.supervisor import Supervisor

import plimsoll
from plimsoll.recovery.restore import OptimizerGuard

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
