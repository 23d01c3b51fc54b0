"""Programs that are short of memory: what autograd saves gives way, and nothing else changes, to the bit.

The host's memory stands in for a card: what autograd saves of it counts against the limit.
"""

import contextlib
import copy
import json
import os
import unittest
from unittest import mock

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from warm import PACKAGE

from plimsoll.spilling import host_pool, loss, optimizer_states, saved
from plimsoll.spilling.card import HostAsCard, bus_speed
from plimsoll.spilling.decide import (
    Block,
    Measured,
    decide,
    least_bytes,
    measured_as_json,
    measured_from,
    plan_as_json,
    plan_from,
)
from plimsoll.spilling.host_pool import HostPool
from plimsoll.spilling.program import Spilling
from plimsoll.spilling.saved import SavedStore

with open(
    os.path.join(PACKAGE, os.pardir, "test", "fixtures", "spill-rules.json"), encoding="utf-8"
) as file:
    CASES = json.load(file)["cases"]


def setUpModule():
    """Small tensors: a second thread costs more than it gives."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    unittest.addModuleCleanup(torch.set_num_threads, threads)


GIB = 2**30
ROOM = 2**26


def small_sizes(test):
    """Tensors of a kilobyte are as large as those of a megabyte are on a card."""
    for place, name, value in (
        (saved, "LEAST_BYTES", 512),
        (saved, "LEAST_ASKED_AFTER", 512),
        (optimizer_states, "LEAST_BYTES", 512),
        (host_pool, "SLAB_BYTES", 2**16),
    ):
        patch = mock.patch.object(place, name, value)
        patch.start()
        test.addCleanup(patch.stop)


class Card(HostAsCard):
    """Knows the most that it ever held."""

    ever = 0

    def holds(self, change):
        super().holds(change)
        self.ever = max(self.ever, self.saved)


class Rules(unittest.TestCase):
    def test_the_cases_that_the_supervisor_reads_too(self):
        self.assertGreater(len(CASES), 15)
        for case in CASES:
            with self.subTest(case["name"]):
                plan = plan_as_json(decide(measured_from(case["measured"]), case["limitBytes"]))
                self.assertAlmostEqual(plan.pop("stepSeconds"), case["plan"]["stepSeconds"], 9)
                expected = {k: v for k, v in case["plan"].items() if k != "stepSeconds"}
                self.assertEqual(plan, expected)

    def test_messages_hold_all_of_a_measure_and_of_a_plan(self):
        for case in CASES:
            self.assertEqual(measured_as_json(measured_from(case["measured"])), case["measured"])
            self.assertEqual(plan_as_json(plan_from(case["plan"])), case["plan"])

    def test_a_larger_limit_never_costs_more(self):
        for case in CASES:
            measured = measured_from(case["measured"])
            least = least_bytes(measured)
            before = None
            for step in range(12):
                plan = decide(measured, least + step * GIB)
                self.assertTrue(plan.fits, case["name"])
                self.assertGreaterEqual(plan.step_seconds, measured.step_seconds)
                if before is not None:
                    self.assertLessEqual(plan.step_seconds, before * 1.02)
                before = plan.step_seconds
            base = measured.fixed_bytes - measured.optimizer_bytes
            base += measured.temporary_bytes - measured.loss_bytes
            self.assertFalse(decide(measured, base - 1).fits)

    def test_a_plan_holds_what_it_promises(self):
        blocks = tuple(Block(f"b{i}", GIB // 2, 0.001 * (1 + i % 3)) for i in range(20))
        measured = Measured(blocks, GIB, 3 * GIB, 2 * GIB, GIB, 0, 4e10, 4e10, 0.1, 64 * GIB)
        for limit in range(6 * GIB, 16 * GIB, GIB):
            plan = decide(measured, limit)
            again = sum(block.bytes for block in blocks if block.name in plan.recompute)
            states = measured.optimizer_bytes if plan.optimizer_to_host else 0
            held = 15 * GIB - again - plan.spill_bytes - states
            self.assertLessEqual(held, limit)


class Residual(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(width), nn.Dropout(0.2)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.drop(self.down(torch.relu_(self.up(self.norm(x)))))


class Layers(nn.Module):
    def __init__(self, block=Residual, count=6, width=32):
        super().__init__()
        self.layers = nn.ModuleList(block(width) for _ in range(count))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def batch(step, width=32, rows=64):
    chance = torch.Generator().manual_seed(step)
    return (
        torch.randn(rows, width, generator=chance),
        torch.randint(0, 10, (rows,), generator=chance),
    )


def plain(model, optimizer, step):
    x, y = batch(step)
    value = functional.cross_entropy(model(x), y)
    value.backward()
    optimizer.step()
    optimizer.zero_grad()
    return value


STEPS = 6


def train(make, one_step=plain, steps=STEPS, kind=torch.optim.AdamW):
    torch.manual_seed(0)
    model = make()
    optimizer = kind(model.parameters(), 1e-3)
    losses = [one_step(model, optimizer, step).detach().clone() for step in range(steps)]
    return losses, [value.clone() for value in model.state_dict().values()]


class Programs(unittest.TestCase):
    """Each is trained without a limit, then with less and less: losses, weights and buffers are the same."""

    def setUp(self):
        small_sizes(self)

    @contextlib.contextmanager
    def spilling(self, limit, host=ROOM, **options):
        card = Card()
        made = Spilling(card, limit, host, **options)
        try:
            yield made
        finally:
            made.close()

    def needed(self, make, one_step=plain):
        with self.spilling(GIB, mode="always") as spilling:
            train(make, one_step, 1)
            return spilling.card.ever

    def check(self, make, one_step=plain, shares=(0.75, 0.5, 0.33), kind=torch.optim.AdamW):
        expected = train(make, one_step, kind=kind)
        needed = self.needed(make, one_step)
        self.assertGreater(needed, 0)
        made = []
        for share in shares:
            with self.subTest(share):
                with self.spilling(int(needed * share)) as spilling:
                    losses, weights = train(make, one_step, kind=kind)
                    made.append(spilling)
                self.assertEqual(losses, expected[0])
                for one, other in zip(weights, expected[1]):
                    self.assertTrue(torch.equal(one, other))
                figures = spilling.figures()
                self.assertGreater(figures["bytesOut"], 0)
                self.assertLessEqual(figures["bytesBack"], figures["bytesOut"] * 2)
                self.assertLessEqual(spilling.card.ever, needed)
        return made

    def test_blocks_with_statistics_and_dropout(self):
        for spilling in self.check(Layers):
            self.assertEqual([b.name for b in spilling.measured.blocks][:1], ["layers.0"])
            self.assertEqual(len(spilling.measured.blocks), 6)

    def test_all_blocks_computed_again(self):
        """By a bus that moves next to nothing."""
        expected = train(Layers)
        needed = self.needed(Layers)
        with mock.patch("plimsoll.spilling.program.bus_speed", lambda _: (1.0, 1.0)):
            with self.spilling(int(needed * 0.4)) as spilling:
                losses, weights = train(Layers)
                self.assertGreater(len(spilling.recompute._chosen), 2)
        self.assertGreater(spilling.recompute.seconds, 0)
        self.assertEqual(losses, expected[0])
        for one, other in zip(weights, expected[1]):
            self.assertTrue(torch.equal(one, other))
        self.assertNotIn("_Again", Residual.forward.__qualname__)

    def test_accumulation_clipping_and_a_scaler(self):
        def step(model, optimizer, number):
            scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
            total = 0.0
            for part in range(4):
                x, y = batch(10 * number + part)
                value = functional.cross_entropy(model(x), y) / 4
                scaler.scale(value).backward()
                total = total + value.detach()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            return total

        self.check(Layers, step)

    def test_autocast(self):
        def step(model, optimizer, number):
            x, y = batch(number)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                value = functional.cross_entropy(model(x), y)
            value.backward()
            optimizer.step()
            optimizer.zero_grad()
            return value

        self.check(Layers, step)

    def test_two_optimizers(self):
        def step(model, optimizer, number):
            if not hasattr(model, "other"):
                torch.manual_seed(5)
                object.__setattr__(model, "other", nn.Sequential(*[Residual() for _ in range(4)]))
                object.__setattr__(model, "steps", torch.optim.Adam(model.other.parameters(), 1e-3))
            x, _ = batch(number)
            made = model.other(x)
            first = (
                functional.softplus(model(made.detach())).mean()
                + functional.softplus(-model(x)).mean()
            )
            first.backward()
            optimizer.step()
            model.steps.zero_grad()
            second = functional.softplus(-model(made)).mean()
            second.backward()
            model.steps.step()
            optimizer.zero_grad()
            return first + second

        self.check(Layers, step)

    def test_averaged_weights_and_evaluation(self):
        def step(model, optimizer, number):
            if not hasattr(model, "average"):
                object.__setattr__(model, "average", torch.optim.swa_utils.AveragedModel(model))
            value = plain(model, optimizer, number)
            model.average.update_parameters(model)
            with torch.no_grad():
                model.eval()
                seen = model.average(batch(99)[0]).sum() + model(batch(98)[0]).sum()
                model.train()
            copied = copy.deepcopy(model)
            return value.detach() + seen + copied(batch(97)[0]).sum().detach()

        self.check(Layers, step)

    def test_recurrent_layers(self):
        class Words(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList(nn.LSTM(16, 16, batch_first=True) for _ in range(3))
                self.head = nn.Linear(16, 10)

            def forward(self, x):
                x = x.view(16, 8, 16)
                for layer in self.layers:
                    x = layer(x)[0]
                return self.head(x[:, -1])

        def step(model, optimizer, number):
            value = functional.cross_entropy(model(batch(number)[0]), batch(number)[1][:16])
            value.backward()
            optimizer.step()
            optimizer.zero_grad()
            return value

        self.check(Words, step)

    def test_convolutions_with_inplace_activations_and_joined_branches(self):
        class Twice(nn.Sequential):
            def __init__(self, a, b):
                super().__init__(
                    nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True)
                )

        class Joined(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second, self.third = Twice(3, 8), Twice(8, 8), Twice(16, 8)
                self.end = nn.Linear(8, 10)

            def forward(self, x):
                a = self.first(x)
                b = self.second(functional.max_pool2d(a, 2))
                c = self.third(torch.cat([a, functional.interpolate(b, scale_factor=2)], 1))
                return self.end(c.mean((2, 3)))

        def step(model, optimizer, number):
            chance = torch.Generator().manual_seed(number)
            x = torch.randn(4, 3, 16, 16, generator=chance)
            value = functional.cross_entropy(model(x), batch(number)[1][:4])
            value.backward()
            optimizer.step()
            optimizer.zero_grad()
            return value

        self.check(Joined, step, kind=torch.optim.SGD)

    def test_a_gradient_of_a_gradient(self):
        def step(model, optimizer, number):
            x, y = batch(number)
            x.requires_grad_()
            value = functional.cross_entropy(model(x), y)
            (slope,) = torch.autograd.grad(value, x, create_graph=True)
            total = value + slope.pow(2).sum()
            total.backward()
            optimizer.step()
            optimizer.zero_grad()
            return total

        self.check(Layers, step, shares=(0.75, 0.5))

    def test_a_graph_that_is_kept(self):
        def step(model, optimizer, number):
            x, y = batch(number)
            value = functional.cross_entropy(model(x), y)
            value.backward(retain_graph=True)
            value.backward()
            optimizer.step()
            optimizer.zero_grad()
            return value

        self.check(Layers, step)

    def test_functions_of_the_program_and_checkpoints_inside(self):
        class Cube(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x**3

            @staticmethod
            def backward(ctx, gradient):
                (x,) = ctx.saved_tensors
                return 3 * x**2 * gradient

        class Own(Residual):
            def forward(self, x):
                x = x + 0.01 * Cube.apply(x)
                return checkpoint(super().forward, x, use_reentrant=False)

        class Twice(Layers):
            def __init__(self):
                super().__init__(Own)

        self.check(Twice, shares=(0.8, 0.6))

    def test_transforms_of_functions_allow_no_hooks(self):
        def step(model, optimizer, number):
            value = plain(model, optimizer, number)
            slope = torch.func.grad(lambda x: (x * x).sum())(torch.ones(300))
            return value.detach() + slope.sum()

        for spilling in self.check(Layers, step):
            self.assertGreater(spilling.figures()["bytesOut"], 0)

    def test_hooks_of_the_program_itself(self):
        seen = []

        def step(model, optimizer, number):
            x, y = batch(number)
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                value = functional.cross_entropy(model(x), y)
            value.backward()
            handle = model.layers[0].up.register_forward_hook(lambda *_: seen.append(1))
            again = plain(model, optimizer, number)
            handle.remove()
            return value.detach() + again.detach()

        self.check(Layers, step)
        # A hook inside of a block that is computed again would be called twice.
        self.assertEqual(len(seen), 4 * STEPS + 1)

    def test_random_numbers_that_are_not_pytorchs(self):
        import random

        class Skips(Residual):
            def forward(self, x):
                return x if random.random() < 0.3 else super().forward(x)

        def make():
            random.seed(3)
            return Layers(Skips)

        for spilling in self.check(make):
            names = [block.name for block in spilling.measured.blocks]
            self.assertFalse([name for name in names if name.count(".") == 1])

    def test_a_block_that_counts_its_calls(self):
        class Counts(Residual):
            calls = 0

            def forward(self, x):
                self.calls += 1
                return super().forward(x) * (1 + 0.001 * self.calls)

        for spilling in self.check(lambda: Layers(Counts)):
            self.assertNotIn("layers.0", [block.name for block in spilling.measured.blocks])

    def test_a_block_whose_input_is_changed_later(self):
        class Adds(Layers):
            def forward(self, x):
                x = x * 1
                for layer in self.layers:
                    # The norm's input is a copy: to change x afterwards is allowed.
                    x.add_(layer(x.clone()))
                return self.head(x)

        class Bare(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.up = nn.Linear(width, width)

            def forward(self, x):
                return self.up(torch.tanh(x + 1))

        class Changes(Adds):
            def __init__(self):
                super().__init__(Bare)

            def forward(self, x):
                x = x * 1
                for layer in self.layers:
                    x.add_(layer(x))
                return self.head(x)

        self.check(Adds)
        for spilling in self.check(Changes):
            for block in spilling.measured.blocks:
                self.assertNotIn("layers", block.name)

    def test_a_tensor_that_was_changed_raises_pytorchs_own_error(self):
        def step(model, optimizer, number):
            x, y = batch(number)
            held = model.layers[0](x)
            value = functional.cross_entropy(model.head((held * held).tanh()), y)
            held.add_(1)
            value.backward()
            return value

        with self.assertRaises(RuntimeError) as real:
            train(Layers, step, 1)
        for limit in (GIB, 20_000):
            with self.subTest(limit), self.spilling(limit), self.assertRaises(RuntimeError) as ours:
                train(Layers, step, 1)
            said = [str(one.exception).split("]")[0] for one in (real, ours)]
            self.assertEqual(*said)

    def test_weights_that_were_changed_raise_it_too(self):
        def step(model, optimizer, number):
            x, y = batch(number)
            value = functional.cross_entropy(model(x), y)
            value.backward(retain_graph=True)
            optimizer.step()
            value.backward()
            return value

        with self.spilling(30_000), self.assertRaisesRegex(RuntimeError, "inplace operation"):
            train(Layers, step, 1)

    def test_a_program_with_room_is_left_alone(self):
        with self.spilling(GIB) as spilling:
            train(Layers)
            self.assertFalse(spilling.hooks.is_on)
            self.assertFalse(spilling.measuring._watch._handles)
            self.assertEqual(spilling.figures()["bytesOut"], 0)
            self.assertFalse(spilling.figures()["active"])

    def test_a_program_that_grows_is_measured_again(self):
        needed = self.needed(Layers)

        def step(model, optimizer, number):
            x, y = batch(number, rows=64 if number < 8 else 256)
            value = functional.cross_entropy(model(x), y)
            value.backward()
            optimizer.step()
            optimizer.zero_grad()
            return value

        expected = train(Layers, step, 24)
        with self.spilling(int(needed * 1.4)) as spilling:
            losses, _ = train(Layers, step, 24)
            self.assertTrue(spilling.hooks.is_on)
            self.assertGreater(spilling.figures()["bytesOut"], 0)
        self.assertEqual(losses, expected[0])

    def test_a_limit_that_moves_while_the_program_runs(self):
        needed = self.needed(Layers)
        answers, caps = [], []

        def step(model, optimizer, number):
            if number == 5:
                spilling.move_limit(needed // 2, lambda *said: answers.append((number, *said)))
            if number == 9:
                spilling.move_limit(needed * 2, lambda *said: answers.append((number, *said)))
            if number == 6:
                spilling.card.ever = 0
            if number == 8:
                self.assertLessEqual(spilling.card.ever, needed // 2)
            return plain(model, optimizer, number)

        expected = train(Layers, steps=12)
        with self.spilling(needed * 1.5, cap=caps.append) as spilling:
            losses, _ = train(Layers, step, 12)
        self.assertEqual(losses, expected[0])
        self.assertEqual([limit for _, limit, _ in answers], [needed // 2, needed * 2])
        self.assertIn(needed // 2, caps)

    def test_a_limit_that_cannot_hold_is_answered_with_the_least_that_can(self):
        needed = self.needed(Layers)
        answers = []
        with self.spilling(int(needed * 0.8)) as spilling:
            train(Layers, steps=4)
            spilling.move_limit(10, lambda *said: answers.append(said))
            train(Layers, steps=4)
        self.assertGreater(answers[0][0], 10)

    def test_a_supervisor_decides_where_there_is_one(self):
        asked = []

        def ask(measured, limit):
            asked.append(limit)
            plan = decide(measured, limit)
            return type(plan)(**{**vars(plan), "recompute": ("layers.3",), "spill_bytes": 1})

        # Later steps that are shorter than this one would correct its plan.
        for name in ("MAX_CORRECTED", "MAX_SHORTENED"):
            patch = mock.patch(f"plimsoll.spilling.program.{name}", 0)
            patch.start()
            self.addCleanup(patch.stop)
        needed = self.needed(Layers)
        with self.spilling(int(needed * 0.9), ask=ask) as spilling:
            train(Layers, steps=3)
            self.assertEqual(spilling.plan.recompute, ("layers.3",))
        self.assertEqual(asked, [int(needed * 0.9)])

    def test_no_room_on_the_host(self):
        needed = self.needed(Layers)
        expected = train(Layers)
        with self.spilling(int(needed * 0.5), host=16_384) as spilling:
            losses, _ = train(Layers)
            self.assertLessEqual(spilling.figures()["pinnedBytes"], 16_384)
        self.assertEqual(losses, expected[0])

    def test_nothing_stays_behind(self):
        with self.spilling(30_000) as spilling:
            train(Layers)
        self.assertEqual(spilling.store.saved_bytes, 0)
        self.assertEqual(spilling.store.here_bytes, 0)
        self.assertEqual(spilling.store.spilled, 0)
        self.assertEqual(spilling.pool.used, 0)
        self.assertIsNone(torch._C._autograd._top_saved_tensors_default_hooks(False))
        self.assertEqual(functional.cross_entropy.__module__, "torch.nn.functional")

    def test_states_of_the_optimizer_wait_on_the_host(self):
        torch.manual_seed(0)
        model = Layers()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        expected = train(Layers)
        with self.spilling(GIB) as spilling:
            spilling.states.is_on = True
            torch.manual_seed(0)
            losses, weights = train(Layers)
            self.assertEqual(losses, expected[0])
            for one, other in zip(weights, expected[1]):
                self.assertTrue(torch.equal(one, other))
            plain(model, optimizer, 0)
            before = copy.deepcopy(optimizer.state_dict())
            plain(model, optimizer, 1)
            optimizer.load_state_dict(before)
            plain(model, optimizer, 2)
        self.assertGreater(spilling.states.bytes_back, 0)

    def test_an_optimizer_takes_one_weight_after_another_where_memory_is_short(self):
        torch.manual_seed(0)
        model = Layers()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        with self.spilling(GIB) as spilling:
            plain(model, optimizer, 0)
            self.assertIsNone(optimizer.param_groups[0]["foreach"])
            for weight in model.parameters():
                weight.grad = torch.ones_like(weight)
            spilling.states.step_in_order(optimizer, 1000)
            self.assertIs(optimizer.param_groups[0]["foreach"], False)

    def test_a_child_of_a_fork_has_none_of_it(self):
        with self.spilling(30_000):
            train(Layers, steps=2)
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    train(Layers, steps=2)
                    os.write(writer, b"well")
                finally:
                    os._exit(0)
            os.close(writer)
            os.waitpid(child, 0)
            self.assertEqual(os.read(reader, 10), b"well")
            os.close(reader)


class Losses(unittest.TestCase):
    """In parts of 64 rows, each with its own numbers: the same to the bit."""

    def setUp(self):
        patch = mock.patch.object(loss, "LOSS_PART_BYTES", 64 * 501 * 4)
        patch.start()
        self.addCleanup(patch.stop)

    def both(self, kind, is_auto, **options):
        torch.manual_seed(0)
        logits, target = torch.randn(203, 501).to(kind), torch.randint(0, 501, (203,))
        target[::7] = options.get("ignore_index", -100)
        for function in (functional.cross_entropy, None):
            given = logits.clone().requires_grad_()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_auto):
                if function is None:
                    value = loss.in_parts(functional.cross_entropy, given, target, **options)
                    self.assertIsNotNone(value)
                else:
                    value = function(given, target, **options)
            value.backward(torch.linspace(-1, 2, value.numel()).view(value.shape).to(value.dtype))
            yield value.detach(), given.grad

    def test_the_same_to_the_bit(self):
        for kind in (torch.float32, torch.bfloat16):
            for is_auto in (False, True):
                for reduction in ("mean", "sum", "none"):
                    for ignored in (-100, 3, 9000):
                        with self.subTest(f"{kind} {is_auto} {reduction} {ignored}"):
                            real, ours = self.both(
                                kind, is_auto, reduction=reduction, ignore_index=ignored
                            )
                            self.assertTrue(torch.equal(real[0], ours[0]))
                            self.assertTrue(torch.equal(real[1], ours[1]))

    def test_what_it_does_not_know_is_left_to_pytorch(self):
        logits, target = torch.randn(203, 501, requires_grad=True), torch.zeros(203).long()
        real = functional.cross_entropy
        self.assertIsNotNone(loss.in_parts(real, logits, target))
        self.assertIsNone(loss.in_parts(real, logits, target, label_smoothing=0.1))
        self.assertIsNone(loss.in_parts(real, logits, target, weight=torch.ones(501)))
        self.assertIsNone(loss.in_parts(real, logits, logits.softmax(1)))
        self.assertIsNone(loss.in_parts(real, logits, target, ignore_index=0))
        self.assertIsNone(loss.in_parts(real, logits[:10], target[:10]))
        self.assertIsNone(loss.in_parts(real, logits.t().contiguous().t(), target))

    def test_a_gradient_of_the_gradient_and_a_script(self):
        torch.manual_seed(0)
        start, target = torch.randn(203, 501), torch.randint(0, 501, (203,))
        outcomes = []
        for is_ours in (False, True):
            wanted = loss.LossInParts(lambda _, is_ours=is_ours: is_ours)
            self.addCleanup(wanted.close)
            logits = start.clone().requires_grad_()
            value = functional.cross_entropy(logits, target)
            (slope,) = torch.autograd.grad(value, logits, create_graph=True)
            slope.pow(2).sum().backward()
            outcomes.append(logits.grad)
            self.assertEqual(wanted.calls, int(is_ours))
            scripted = torch.jit.script(nn.CrossEntropyLoss())
            self.assertTrue(torch.equal(scripted(start, target), value.detach()))
            wanted.close()
        self.assertTrue(torch.equal(*outcomes))


class Parts(unittest.TestCase):
    def setUp(self):
        small_sizes(self)

    def test_a_pool_is_bounded_and_gives_room_again(self):
        pool = HostPool(200_000, False, 65_536)
        rooms = [pool.take(30_000) for _ in range(6)]
        self.assertTrue(all(rooms))
        self.assertLessEqual(pool.reserved, 200_000)
        self.assertIsNone(pool.take(100_000))
        starts = {room.tensor.data_ptr() for room in rooms}
        self.assertEqual(len(starts), 6)
        reserved = pool.reserved
        rooms.clear()
        self.assertEqual(pool.used, 0)
        again = [pool.take(30_000) for _ in range(6)]
        self.assertTrue(all(again))
        self.assertEqual(pool.reserved, reserved)

    def test_the_oldest_give_way_first_and_come_back_last(self):
        card = HostAsCard()
        store = SavedStore(card, HostPool(2**20, False, 65_536), 10_000, 0)
        kept = [store.pack(torch.full((500,), float(i))) for i in range(10)]
        away = [i for i, one in enumerate(kept) if one.tensor is None]
        self.assertEqual(away, list(range(len(away))))
        self.assertGreater(len(away), 3)
        self.assertLessEqual(card.held(), 10_000)
        for i in reversed(range(10)):
            self.assertEqual(store.unpack(kept.pop()).unique().tolist(), [float(i)])
            self.assertLessEqual(card.held(), 10_000)

    def test_a_tensor_that_others_hold_stays(self):
        store = SavedStore(HostAsCard(), HostPool(2**20, False, 65_536), 3000, 0)
        mine = torch.ones(500)
        kept = [store.pack(mine), *[store.pack(torch.ones(500)) for _ in range(3)]]
        self.assertIsNotNone(kept[0].tensor)
        self.assertIsNone(kept[1].tensor)

    def test_views_of_one_storage_leave_together(self):
        store = SavedStore(HostAsCard(), HostPool(2**20, False, 65_536), 5000, 0)
        whole = torch.arange(1000.0).view(20, 50)
        kept = [store.pack(one) for one in (whole, whole.t(), whole[3:5, ::2])]
        expected = [whole.clone(), whole.t().clone(), whole[3:5, ::2].clone()]
        del whole
        self.assertEqual(store.saved_bytes, 4000)
        store.free(4000)
        self.assertEqual([one.tensor for one in kept], [None] * 3)
        for one, value, stride in zip(kept, expected, [(50, 1), (1, 50), (50, 2)]):
            self.assertTrue(torch.equal(store.unpack(one), value))
            self.assertEqual(store.unpack(one).stride(), stride)
        self.assertEqual(store.bytes_back, 4000)

    def test_a_bus_is_measured(self):
        out, back = bus_speed(HostAsCard())
        self.assertGreater(min(out, back), 0)


if __name__ == "__main__":
    unittest.main()
