"""Models of transformers by their configs and by name, and optimize: the same results with less kept."""

from __future__ import annotations

import copy
import inspect
import logging
import os
import shutil
import sys
import tempfile
import textwrap
import threading
import unittest
import weakref
from unittest import mock

import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

from sdk.injection import gradients_at_step

import plimsoll
from plimsoll.asking.command import ask
from plimsoll.loading.load import repository_of
from plimsoll.optimizing.change import parameter_bytes
from plimsoll.optimizing.checkpointing import containers
from plimsoll.optimizing.pruning import sparse_layers, two_of_four

SMALL = {
    "vocab_size": 50,
    "n_embd": 8,
    "n_layer": 2,
    "n_head": 2,
    "n_positions": 16,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


class HuggingFace(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        logging.getLogger("transformers").setLevel(logging.ERROR)

    def test_hugging_face_language_models_are_known(self):
        from plimsoll.recovery.parts import is_causal

        model = GPT2LMHeadModel(GPT2Config(**SMALL, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
        self.assertTrue(is_causal(model))
        bert = BertConfig(
            vocab_size=20,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
            intermediate_size=8,
        )
        self.assertFalse(is_causal(BertForMaskedLM(bert)))
        ids = torch.randint(0, 50, (6, 10))
        labels = ids.clone()
        labels[0, 3:] = labels[3, 7:] = -100
        model(input_ids=ids, labels=labels).loss.backward()
        full = [p.grad.clone() for p in model.parameters()]
        model.zero_grad(set_to_none=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        taken = gradients_at_step(optimizer)
        plimsoll.recovering(model, optimizer, lambda b: model(**b), microbatch=4)(
            {"input_ids": ids, "labels": labels}
        )
        self.assertLess(max(float((a - b).abs().max()) for a, b in zip(taken[0], full)), 1e-6)

    def test_the_loss_in_pieces_is_the_same_loss(self):
        from unittest import mock

        from plimsoll.optimizing import optimize

        torch.manual_seed(0)
        model = GPT2LMHeadModel(GPT2Config(**SMALL, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
        ids = torch.randint(0, 50, (3, 10))
        labels = ids.clone()
        labels[1, 4:] = -100
        for more in ({}, {"num_items_in_batch": torch.tensor(7)}):
            whole = model(input_ids=ids, labels=labels, **more).loss
            wanted = torch.autograd.grad(whole, list(model.parameters()))
            change = optimize.in_pieces(model)
            # Pieces of 7 rows: the last one is shorter.
            with mock.patch.object(optimize, "_PIECE", 7 * 50):
                pieces = model(input_ids=ids, labels=labels, **more).loss
                found = torch.autograd.grad(pieces, list(model.parameters()))
            change.undo()
            self.assertAlmostEqual(float(whole), float(pieces), places=5)
            for one, other in zip(wanted, found):
                torch.testing.assert_close(one, other)
        again = model(input_ids=ids, labels=labels).loss
        torch.testing.assert_close(again, model(input_ids=ids, labels=labels).loss)
        bert = BertConfig(
            vocab_size=20,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
            intermediate_size=8,
        )
        self.assertIsNone(optimize.in_pieces(BertForMaskedLM(bert)))

    def test_optimize_switches_checkpointing_and_attention_and_back(self):
        torch.manual_seed(0)
        # The kernel for attention saves what it saves only where no score is dropped.
        config = GPT2Config(**SMALL, attn_pdrop=0.0, attn_implementation="eager")
        model = GPT2LMHeadModel(config)
        batch = {"input_ids": torch.randint(0, 50, (2, 16))}
        batch["labels"] = batch["input_ids"]
        optimizer = torch.optim.AdamW(model.parameters())
        done = plimsoll.optimize(
            model, optimizer, autocast=False, forward=lambda: model(**batch).loss
        )
        self.assertEqual(
            [c.what for c in done.changes],
            ["attention", "loss-in-pieces", "checkpointing", "fused-optimizer"],
        )
        self.assertTrue(model.is_gradient_checkpointing)
        for change in done.changes[:3]:
            self.assertGreater(change.measured_bytes, 0, change.what)
        self.assertEqual(model.config._attn_implementation, "sdpa")
        done.undo()
        self.assertFalse(model.is_gradient_checkpointing)
        self.assertEqual(model.config._attn_implementation, "eager")

    def test_feed_forward_channels_of_real_models_can_go(self):
        bert = BertConfig(
            vocab_size=20,
            hidden_size=8,
            num_hidden_layers=2,
            num_attention_heads=1,
            intermediate_size=32,
        )
        for model in (GPT2LMHeadModel(GPT2Config(**SMALL)), BertForMaskedLM(bert)):
            model.eval()
            ids = torch.randint(0, 20, (1, 6))
            before = model(input_ids=ids).logits
            done = plimsoll.optimize(model, attention=None, prune=0.5)
            self.assertGreater(done.changes[0].measured_bytes, 0)
            self.assertEqual(model(input_ids=ids).logits.shape, before.shape)
            done.undo()
            self.assertTrue(torch.equal(model(input_ids=ids).logits, before))

    def test_a_model_is_loaded_from_its_folder(self):
        import tempfile

        torch.manual_seed(0)
        with tempfile.TemporaryDirectory() as folder:
            GPT2LMHeadModel(GPT2Config(**SMALL)).save_pretrained(folder)
            model = plimsoll.load(
                folder, "int8", device="cpu", compute_dtype=torch.float32, cache=False
            )
        self.assertEqual(model.plimsoll_preset, "int8")
        self.assertEqual(
            model(input_ids=torch.ones(1, 4, dtype=torch.long)).logits.shape, (1, 4, 50)
        )


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


class Block(nn.Module):
    def __init__(self, norm=False):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(16, 64), nn.Linear(64, 16)
        self.norm = nn.BatchNorm1d(16) if norm else nn.Identity()
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        return x + self.drop(self.fc2(torch.tanh(self.fc1(self.norm(x)))))


class Tower(nn.Module):
    def __init__(self, norm=False):
        super().__init__()
        self.blocks = nn.ModuleList([Block(norm) for _ in range(4)])
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def gradients(model, x, seed=3):
    model.zero_grad(set_to_none=True)
    torch.manual_seed(seed)
    model(x).square().mean().backward()
    return [p.grad.clone() for p in model.parameters()]


class Checkpointing(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.x = torch.randn(32, 16)

    def check(self, model, **options):
        plain = gradients(model, self.x)
        done = plimsoll.optimize(
            model,
            checkpoint=True,
            autocast=False,
            attention=None,
            forward=lambda: model(self.x).sum(),
            **options,
        )
        again = gradients(model, self.x)
        for ours, theirs in zip(again, plain):
            self.assertTrue(torch.equal(ours, theirs))
        [change] = done.changes
        self.assertGreater(change.measured_bytes, 0)
        done.undo()
        self.assertTrue(all("forward" not in module.__dict__ for module in model.modules()))
        return change

    def test_blocks_of_a_list(self):
        self.check(Tower())

    def test_a_sequence_in_segments(self):
        layers = [
            layer for _ in range(6) for layer in (nn.Linear(16, 16), nn.Tanh(), nn.Dropout(0.1))
        ]
        self.assertIn("4 segments", self.check(nn.Sequential(*layers)).note)
        self.assertIn("3 segments", self.check(nn.Sequential(*layers), segments=3).note)

    def test_a_sequence_under_autocast_in_segments(self):
        layers = [layer for _ in range(6) for layer in (nn.Linear(16, 16), nn.Tanh())]
        model, x = nn.Sequential(*layers), torch.randn(64, 16)
        plain = model(x)
        done = plimsoll.optimize(model, segments=3, forward=lambda: model(x).sum())
        self.assertEqual({one.what for one in done.changes}, {"autocast", "checkpointing"})
        self.assertTrue(all(one.measured_bytes > 0 for one in done.changes))
        self.assertFalse(torch.equal(model(x), plain), "products are in bfloat16")
        done.undo()
        self.assertTrue(torch.equal(model(x), plain))
        self.assertNotIn("forward", model.__dict__)

    def test_batch_norm_counts_a_batch_once(self):
        model, twin = Tower(norm=True), None
        twin = copy.deepcopy(model)
        plimsoll.optimize(model, checkpoint=True, autocast=False)
        gradients(model, self.x)
        gradients(twin, self.x)
        for ours, theirs in zip(model.buffers(), twin.buffers()):
            self.assertTrue(torch.equal(ours, theirs))

    def test_outermost_containers_only(self):
        model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), nn.Linear(2, 2))
        self.assertEqual(containers(model), [model])

    def test_a_model_without_blocks_says_so(self):
        done = plimsoll.optimize(nn.Linear(4, 4), autocast=False)
        self.assertIn("checkpointing", done.skipped)


class Measuring(unittest.TestCase):
    def test_what_was_measured_is_freed(self):
        from plimsoll.optimizing.change import kept_for_backward

        seen = []

        class Keeps(nn.Module):
            """exp keeps its own result for backward: such a graph is a ring if the result is held."""

            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(1000))

            def forward(self):
                result = self.weight.exp()
                seen.append(weakref.ref(result.untyped_storage()))
                return result.sum()

        model = Keeps()
        self.assertEqual(kept_for_backward(model, model), 4000)
        self.assertIsNone(seen[0]())


class Training(unittest.TestCase):
    def test_with_an_optimizer_it_trains_whatever_mode_the_model_is_in(self):
        for model in (Tower(), Tower().eval()):
            optimizer = torch.optim.AdamW(model.parameters())
            on_a_card = mock.patch.object(nn.Parameter, "is_cuda", True)
            with on_a_card:
                done = plimsoll.optimize(model, optimizer, dtype=torch.float16, prune=0.5)
            self.assertEqual(
                {change.what for change in done.changes},
                {"autocast", "checkpointing", "fused-optimizer"},
            )
            self.assertIn("keep their type", done.skipped["dtype"])
            self.assertEqual({p.dtype for p in model.parameters()}, {torch.float32})
            self.assertEqual(model.blocks[0].fc1.out_features, 64)
        with self.assertRaisesRegex(ValueError, "an optimizer trains"):
            plimsoll.optimize(model, optimizer, training=False)

    def test_what_is_measured_is_a_step_of_training_that_leaves_no_trace(self):
        model = Tower(norm=True).eval()
        model.blocks[1].train()
        before = copy.deepcopy(model.state_dict())
        modes = [module.training for module in model.modules()]
        torch.manual_seed(5)
        drawn = torch.rand(1)
        torch.manual_seed(5)
        optimizer = torch.optim.SGD(model.parameters())
        x = torch.ones(64, 16)
        done = plimsoll.optimize(model, optimizer, autocast=False, forward=lambda: model(x).sum())
        [change, _] = done.changes
        self.assertEqual(change.what, "checkpointing")
        self.assertGreater(change.measured_bytes, 0)
        self.assertEqual([module.training for module in model.modules()], modes)
        self.assertTrue(torch.equal(torch.rand(1), drawn))
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)

    def test_a_change_that_saves_nothing_is_undone(self):
        # Autocast keeps a copy of the weights for backward: more than it saves of one sample.
        model, x = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)), torch.ones(1, 64)
        done = plimsoll.optimize(model, checkpoint=False, forward=lambda: model(x).sum())
        self.assertEqual(done.changes, [])
        self.assertRegex(done.skipped["autocast"], r"undone: measured, .* \d+ bytes more")
        self.assertNotIn("forward", model.__dict__)
        # The weights would take twice the bytes.
        model = nn.Linear(8, 8).to(torch.bfloat16).eval()
        self.assertIn("undone", plimsoll.optimize(model, dtype=torch.float32).skipped["dtype"])
        self.assertEqual(model.weight.dtype, torch.bfloat16)

    def test_where_nothing_is_kept_nothing_is_measured(self):
        model, x = Tower(), torch.ones(4, 16)

        def forward():
            with torch.no_grad():
                return model(x).sum()

        done = plimsoll.optimize(model, checkpoint=False, forward=forward)
        self.assertEqual([one.measured_bytes for one in done.changes], [None])

    def test_a_change_with_which_the_forward_fails_is_undone(self):
        model, x = Tower(), torch.ones(64, 16)

        def forward():
            if torch.is_autocast_enabled("cpu") or "forward" in model.__dict__:
                raise RuntimeError("no kernel for bfloat16")
            return model(x).sum()

        done = plimsoll.optimize(model, forward=forward)
        self.assertIn("RuntimeError: no kernel", done.skipped["autocast"])
        self.assertEqual([change.what for change in done.changes], ["checkpointing"])

        def interrupted():
            if "forward" in model.blocks[0].__dict__:
                raise KeyboardInterrupt
            return model(x).sum()

        done.undo()
        with self.assertRaises(KeyboardInterrupt):
            plimsoll.optimize(model, autocast=False, forward=interrupted)
        self.assertTrue(all("forward" not in module.__dict__ for module in model.modules()))

    def test_a_model_without_the_usual_attention_is_no_error_and_another_name_is(self):
        class Refuses(nn.Linear):
            class config:
                _attn_implementation = "eager"

            def set_attn_implementation(self, kernel):
                raise ValueError(f"{kernel} is not supported")

        self.assertIn("not supported", plimsoll.optimize(Refuses(4, 4)).skipped["attention"])
        with self.assertRaisesRegex(plimsoll.Failure, "banana.* is not supported"):
            plimsoll.optimize(Refuses(4, 4), attention="banana")


class Precision(unittest.TestCase):
    def test_autocast_halves_what_is_kept_and_returns_fp32(self):
        torch.manual_seed(0)
        model = Tower()
        x = torch.randn(64, 16)
        done = plimsoll.optimize(model, checkpoint=False, forward=lambda: model(x).sum())
        self.assertEqual(model(x).dtype, torch.float32)
        [change] = done.changes
        self.assertEqual(change.what, "autocast")
        done.undo()
        self.assertNotIn("forward", model.__dict__)

    def test_weights_in_16_bits_and_back_to_the_bit(self):
        model = Tower().eval()
        before = [p.clone() for p in model.parameters()]
        done = plimsoll.optimize(model, dtype=torch.bfloat16)
        saved = sum(p.numel() * 2 for p in before)
        self.assertEqual(
            (done.changes[0].estimated_bytes, done.changes[0].measured_bytes), (saved, saved)
        )
        self.assertTrue(all(p.dtype == torch.bfloat16 for p in model.parameters()))
        done.undo()
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(before, model.parameters())))

    def test_a_fused_optimizer_steps_alike(self):
        ends = []
        for fuse in (False, True):
            torch.manual_seed(0)
            model = nn.Linear(8, 1)
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
            done = None
            for number in range(4):
                if fuse and number == 1:
                    done = plimsoll.optimize(model, optimizer, checkpoint=False, autocast=False)
                    self.assertEqual([c.what for c in done.changes], ["fused-optimizer"])
                if fuse and number == 3:
                    done.undo()
                optimizer.zero_grad()
                model(torch.ones(3, 8)).square().mean().backward()
                optimizer.step()
            ends.append(model.weight.detach().clone())
        self.assertLess(float((ends[0] - ends[1]).abs().max()), 1e-6)


class Pruning(unittest.TestCase):
    def test_channels_are_really_gone_and_come_back(self):
        torch.manual_seed(0)
        model = Tower().eval()
        x = torch.randn(4, 16)
        before, size = model(x), sum(p.numel() for p in model.parameters())
        with torch.no_grad():
            for block in model.blocks:
                block.fc2.weight[:, ::2] = 0.0
        silent = model(x)
        done = plimsoll.optimize(model, prune=0.5)
        self.assertEqual(model.blocks[0].fc1.out_features, 32)
        self.assertLess(sum(p.numel() for p in model.parameters()), 0.6 * size)
        self.assertTrue(
            torch.allclose(model(x), silent, atol=1e-6),
            "channels that carry nothing change nothing",
        )
        saved = 4 * (size - sum(p.numel() for p in model.parameters()))
        self.assertEqual(done.changes[0].measured_bytes, saved)
        self.assertAlmostEqual(done.changes[0].estimated_bytes / saved, 1, delta=0.05)
        done.undo()
        self.assertTrue(torch.equal(model(x), silent))
        self.assertEqual(before.shape, silent.shape)

    def test_layers_in_a_sequence(self):
        model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
        plimsoll.optimize(model, prune=0.5)
        self.assertEqual((model[0].out_features, model(torch.ones(2, 8)).shape), (16, (2, 4)))

    def test_convolutions_of_residual_blocks(self):
        from torchvision.models import resnet18

        torch.manual_seed(0)
        model = resnet18(num_classes=10).eval()
        size, x = sum(p.numel() for p in model.parameters()), torch.randn(1, 3, 64, 64)
        before = model(x)
        done = plimsoll.optimize(model, prune=0.5)
        self.assertLess(sum(p.numel() for p in model.parameters()), 0.6 * size)
        self.assertEqual(model(x).shape, before.shape)
        self.assertEqual(model.layer1[0].bn1.num_features, 32)
        done.undo()
        self.assertTrue(torch.equal(model(x), before))

    def test_not_in_training_and_not_without_cuda(self):
        done = plimsoll.optimize(Tower(), checkpoint=False, autocast=False, prune=0.5)
        self.assertIn("inference", done.skipped["prune"])
        done = plimsoll.optimize(Tower().eval(), prune="2:4")
        self.assertIn("CUDA", done.skipped["prune"])

    def test_a_head_that_shares_its_weights_is_not_stored_twice(self):
        model = nn.ModuleDict(
            {"embed": nn.Embedding(64, 64), "body": nn.Linear(64, 64), "head": nn.Linear(64, 64)}
        )
        model["head"].weight = model["embed"].weight
        model.to(torch.bfloat16)
        self.assertEqual(sparse_layers(model, on="cpu"), [model["body"]])
        self.assertEqual(parameter_bytes(model), 2 * (64 * 64 * 2 + 64 * 2))

    def test_weights_of_every_layout_are_counted(self):
        ends, places, ones = torch.arange(5), torch.arange(4), torch.ones(4)
        for made, stored in (
            (torch.sparse_coo_tensor(torch.stack((places, places)), ones), 16 + 64),
            (torch.sparse_csr_tensor(ends, places, ones), 16 + 40 + 32),
            (torch.sparse_csc_tensor(ends, places, ones), 16 + 40 + 32),
        ):
            model = nn.Linear(4, 4, bias=False).eval()
            model.mask = nn.Parameter(made, requires_grad=False)
            self.assertEqual(parameter_bytes(model), 4 * 4 * 4 + stored)
            self.assertEqual(
                plimsoll.optimize(model).report()["parameterBytes"], 4 * 4 * 4 + stored
            )
        # One that has no shape yet has no bytes either.
        self.assertEqual(
            parameter_bytes(nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 4, bias=False))), 64
        )

    def test_the_two_largest_of_four_stay(self):
        weight = torch.tensor([[1.0, -4.0, 2.0, 3.0, 0.5, 0.0, -0.25, 0.125]])
        self.assertEqual(
            two_of_four(weight).tolist(), [[0.0, -4.0, 0.0, 3.0, 0.5, 0.0, -0.25, 0.0]]
        )


if __name__ == "__main__":
    unittest.main()
