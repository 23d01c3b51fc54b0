"""Models of transformers beyond text and image, each with the batch of its training; and Ray's shares of a card."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import sys
import tempfile
import types
import unittest
from unittest import mock

import numpy
import torch
import torch.nn.functional as F
from torch import nn
from transformers.loss import loss_for_object_detection as matching

from tracing import watching
from tracing.test_models import settings
from tracing.watching import rows_of

import plimsoll
from plimsoll.distributed.spread import choose
from plimsoll.failure import MISSING_PACKAGE, Failure
from plimsoll.optimizing import pruning
from plimsoll_trace.record import _failure_of
from plimsoll_trace.sources import hugging_face
from plimsoll_trace.sources.batches import batch_for, is_text_alone, target_notes

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 100,
}
IMAGE = {**SMALL, "image_size": 32, "patch_size": 16}
SERIES = {
    "prediction_length": 6,
    "context_length": 24,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
}
# Configs without a class, and the class and inputs that they come to.
TRAINED = {
    "videomae": (
        {**IMAGE, "num_frames": 4, "decoder_hidden_size": 32, "decoder_num_hidden_layers": 1},
        "VideoMAEForVideoClassification",
        {"pixel_values", "labels"},
    ),
    "vjepa2": (
        {
            **IMAGE,
            "crop_size": 32,
            "frames_per_clip": 4,
            "pred_hidden_size": 32,
            "pred_num_hidden_layers": 1,
            "pred_num_attention_heads": 2,
            "num_pooler_layers": 1,
        },
        "VJEPA2ForVideoClassification",
        {"pixel_values_videos", "labels"},
    ),
    "lilt": (
        {**SMALL, "hidden_size": 48},
        "LiltForTokenClassification",
        {"input_ids", "bbox", "labels"},
    ),
    "informer": (
        SERIES,
        "InformerForPrediction",
        {
            "past_values",
            "past_time_features",
            "past_observed_mask",
            "future_values",
            "future_time_features",
        },
    ),
    "patchtst": (
        {"d_model": 16, "num_hidden_layers": 1, "prediction_length": 6},
        "PatchTSTForPrediction",
        {"past_values", "future_values"},
    ),
    "git": (
        {**SMALL, "vision_config": IMAGE},
        "GitForCausalLM",
        {"input_ids", "pixel_values", "labels"},
    ),
    "siglip2": (
        {"text_config": SMALL, "vision_config": {**IMAGE, "num_patches": 4}},
        "Siglip2Model",
        {"input_ids", "pixel_values", "pixel_attention_mask", "spatial_shapes", "return_loss"},
    ),
    "t5": (
        {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2, "vocab_size": 99},
        "T5ForConditionalGeneration",
        {"input_ids", "labels"},
    ),
    "udop": (
        {
            "d_model": 32,
            "d_kv": 16,
            "d_ff": 64,
            "num_layers": 1,
            "num_heads": 2,
            "vocab_size": 99,
            "image_size": 32,
        },
        "UdopForConditionalGeneration",
        {"input_ids", "bbox", "decoder_input_ids", "labels"},
    ),
    "jetmoe": (
        {**SMALL, "num_local_experts": 4, "num_key_value_heads": 2, "kv_channels": 8},
        "JetMoeForCausalLM",
        {"input_ids", "labels"},
    ),
    "ibert": ({**SMALL, "quant_mode": True}, "IBertForMaskedLM", {"input_ids", "labels"}),
}


def assigned(cost):
    """In place of scipy's: of costs that are all the same, the first that comes."""
    places = numpy.arange(min(numpy.asarray(cost).shape))
    return places, places


class Families(unittest.TestCase):
    def test_each_is_trained_with_the_class_and_the_inputs_of_its_task(self):
        for kind, (values, name, inputs) in TRAINED.items():
            # Images have a size of their own.
            seq = 0 if "pixel_values" in inputs and "input_ids" not in inputs else 8
            given = settings(batch=2, seq=0 if kind == "vjepa2" else seq, precision="fp32")
            with self.subTest(kind), watching.watched():
                model, _ = hugging_face.build({"model_type": kind, **values}, given)
                batch = batch_for(model, given)
                self.assertEqual((type(model).__name__, set(batch)), (name, inputs))
                self.assertEqual(is_text_alone(model, given), kind == "udop")
                hugging_face.usual_forward(given)(model, batch).backward()

    def test_things_in_images_have_boxes_and_classes(self):
        given = settings(batch=2, seq=0, precision="fp32")
        yolos = {**IMAGE, "image_size": [32, 48], "num_detection_tokens": 10}
        with (
            mock.patch.object(matching, "linear_sum_assignment", assigned, create=True),
            mock.patch.object(matching, "requires_backends"),
            watching.watched(),
        ):
            model, _ = hugging_face.build({"model_type": "yolos", **yolos}, given)
            batch = batch_for(model, given)
            self.assertEqual(batch["pixel_values"].shape, (2, 3, 32, 48))
            self.assertEqual([one["boxes"].shape for one in batch["labels"]], [(7, 4), (7, 4)])
            self.assertEqual(target_notes(model, given), ["each image is taken to show 7 objects"])
            hugging_face.usual_forward(given)(model, batch).backward()

    def test_sound_of_a_codec_has_a_channel(self):
        given = settings(mode="infer", batch=2, seq=640, precision="fp32")
        values = {"model_type": "dac", "encoder_hidden_size": 4, "decoder_hidden_size": 64}
        with watching.watched(), torch.no_grad():
            model, _ = hugging_face.build(values, given)
            batch = batch_for(model, given)
            self.assertEqual(batch["input_values"].shape, (2, 1, 640))
            self.assertEqual(model(**batch).audio_values.shape[0], 2)


class Refused(unittest.TestCase):
    def refused(self, values):
        given = settings(batch=2, seq=8)
        with watching.watched(), self.assertRaises(Failure) as caught:
            model, _ = hugging_face.build(values, given)
            batch_for(model, given)
        return caught.exception

    def test_a_part_of_a_model_is_said_to_be_one(self):
        failure = self.refused({"model_type": "blip_text_model"})
        self.assertEqual(failure.code, "model-incomplete")
        self.assertIn("config of the whole", failure.next_step)

    def test_inputs_that_no_config_tells_are_named(self):
        failure = self.refused({"model_type": "qwen3_vl_vision", "depth": 1})
        self.assertEqual(failure.code, "inputs-unknown")
        self.assertIn("hidden_states, grid_thw", failure.fact)
        self.assertIn("--script", failure.next_step)

    def test_a_package_that_is_missing_is_named(self):
        for failure in (
            hugging_face.package_missing(ImportError("it requires the timm library")),
            _failure_of(ImportError("it requires the timm library")),
        ):
            self.assertEqual((failure.code, failure.status), ("package-missing", MISSING_PACKAGE))
            self.assertIn("timm", failure.fact)


# `plimsoll.load` for training and with a tokenizer; levels; a batch over several cards.


def tower():
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Sequential(nn.Linear(32, 32), nn.ReLU()) for _ in range(4)])


def tiny_llama(folder):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, vocab_size=16
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    words = Tokenizer(WordLevel({"a": 0, "b": 1, "<end>": 2}, unk_token="a"))
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>").save_pretrained(folder)
    return folder


class Loading(unittest.TestCase):
    def setUp(self):
        self.addCleanup(plimsoll.unload)

    def test_quantized_weights_are_frozen_and_an_adapter_learns_through_them(self):
        with tempfile.TemporaryDirectory() as found:
            folder = tiny_llama(found)
            for preset in ("int8", "int4"):
                model, tokenizer = plimsoll.load(
                    folder, preset, device="cpu", compute_dtype=torch.float32,
                    for_training=True, tokenizer=True,
                )  # fmt: skip
                self.assertTrue(model.training and model.is_gradient_checkpointing)
                self.assertFalse(any(p.requires_grad for p in model.parameters()))
                adapter = nn.Linear(32, 32, bias=False)
                layer = model.model.layers[0].mlp
                layer.register_forward_hook(
                    lambda _, args, out, adapter=adapter: out + adapter(args[0])
                )
                ids = torch.tensor([tokenizer.convert_tokens_to_ids(["a", "b", "a", "b"])])
                model(input_ids=ids, labels=ids).loss.backward()
                self.assertGreater(float(adapter.weight.grad.abs().sum()), 0)
                self.assertEqual(tokenizer.pad_token, "<end>")

    def test_weights_of_16_bits_stay_trainable(self):
        model = plimsoll.load(
            tower, "fp16", device="cpu", compute_dtype=torch.float32, for_training=True
        )
        self.assertTrue(model.training and all(p.requires_grad for p in model.parameters()))
        plain = tower()
        x = torch.randn(3, 32)
        model(x).sum().backward()
        plain(x).sum().backward()
        for ours, wanted in zip(model.parameters(), plain.parameters()):
            self.assertTrue(torch.equal(ours.grad, wanted.grad))

    def test_each_option_is_another_model_in_the_cache(self):
        with tempfile.TemporaryDirectory() as found:
            folder = tiny_llama(found)
            asked = [
                {}, {"for_training": True}, {"compute_dtype": torch.float32}, {"fallback": False},
                {"max_bytes": 10**9}, {"home": found}, {"options": {"attn_implementation": "eager"}},
            ]  # fmt: skip
            load = lambda options: plimsoll.load(folder, "cpu", device="cpu", **options)  # noqa: E731
            models = [load(options) for options in asked]
            self.assertEqual(len({id(model) for model in models}), len(asked))
            for options, model in zip(asked, models):
                self.assertIs(load(options), model)
            # A tokenizer is no other model, and a path may be written in another way.
            again, _ = plimsoll.load(folder + "/.", "cpu", device="cpu", tokenizer=True)
            self.assertIs(again, models[0])

    def test_wrong_arguments_are_one_clear_error(self):
        for options in ({"for_training": "yes"}, {"tokenizer": 1}, {"tokenizer": True}):
            with self.assertRaises(plimsoll.Failure):
                plimsoll.load(tower, "cpu", **options)


class Levels(unittest.TestCase):
    def changes(self, level, **options):
        model = tower()
        optimizer = torch.optim.AdamW(model.parameters())
        done = plimsoll.optimize(model, optimizer, level=level, **options)
        return {change.what for change in done.changes}, next(model.parameters()).dtype

    def test_each_level_turns_on_what_its_table_says(self):
        self.assertEqual(self.changes("O0"), (set(), torch.float32))
        self.assertEqual(self.changes("O1"), ({"autocast", "fused-optimizer"}, torch.float32))
        self.assertEqual(
            self.changes("O2"), ({"autocast", "fused-optimizer", "checkpointing"}, torch.float32)
        )
        # Weights that are trained keep their type.
        self.assertEqual(self.changes("O3"), self.changes("O2"))
        model = tower().eval()
        done = plimsoll.optimize(model, level="O3")
        self.assertEqual([change.what for change in done.changes], ["dtype"])
        self.assertEqual(next(model.parameters()).dtype, torch.bfloat16)

    def test_an_argument_counts_for_more_and_a_wrong_level_changes_nothing(self):
        self.assertEqual(self.changes("O0", checkpoint=True)[0], {"checkpointing"})
        self.assertNotIn("checkpointing", self.changes("O2", checkpoint=False)[0])
        model = tower()
        with self.assertRaises(plimsoll.Failure):
            plimsoll.optimize(model, level="O4")
        self.assertNotIn("forward", model.__dict__)


class Spreading(unittest.TestCase):
    def test_what_is_chosen(self):
        self.assertEqual(choose(0, 1, False), ("alone", ""))
        self.assertEqual(choose(1, 1, False), ("alone", ""))
        how, advice = choose(4, 1, False)
        self.assertEqual(how, "data-parallel")
        self.assertIn("torchrun --nproc-per-node 4", advice)
        self.assertEqual(choose(4, 4, True), ("distributed", ""))
        self.assertIn("init_process_group", choose(4, 4, False)[1])

    def test_a_process_group_makes_it_distributed_and_twice_is_once(self):
        model = nn.Linear(2, 2)
        alone = plimsoll.spread(model)
        if alone.how == "alone":
            self.assertIs(alone.model, model)
        with mock.patch.dict(os.environ, {"WORLD_SIZE": "all of it"}):
            self.assertEqual(plimsoll.spread(nn.Linear(2, 2)).how, alone.how)
        alone = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=alone, rank=0, world_size=1)
        try:
            found = plimsoll.spread(model)
            self.assertEqual(found.how, "distributed")
            self.assertIs(plimsoll.spread(found.model).model, found.model)
            found.model(torch.ones(1, 2)).sum().backward()
            self.assertIsNotNone(model.weight.grad)
        finally:
            torch.distributed.destroy_process_group()
        with self.assertRaises(plimsoll.Failure):
            plimsoll.spread(os)


# Modules whose parameters get their shapes in the first call, after they were sent to the GPU.

PROGRAM = """
import torch
from torch import nn

model = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyBatchNorm1d(), nn.LazyLinear(4)).cuda()
model(torch.randn(3, 5, device="cuda"))
assert type(model[0].weight) is nn.Parameter and model[0].weight.requires_grad
assert model[0].weight.is_cuda and model[2].running_mean.is_cuda
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.randn(3, 5, device="cuda")).sum().backward()
    optimizer.step()
"""


class LazyModules(unittest.TestCase):
    def test_their_parameters_lie_on_the_gpu_and_are_counted(self):
        *_, footer = rows_of(self, PROGRAM)
        self.assertEqual(footer["parameters"], (5 * 8 + 8) + 2 * 8 + (8 * 4 + 4))


# Channels of convolutions that are taken out: the output is that of the network with those channels silenced.


def pictures():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3), nn.GELU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Dropout(0.5),
        nn.Linear(64 * 9, 10),
    )  # fmt: skip


def sound():
    return nn.Sequential(
        nn.Conv1d(2, 32, 5), nn.BatchNorm1d(32), nn.SiLU(), nn.Conv1d(32, 16, 3, bias=False),
        nn.BatchNorm1d(16), nn.AvgPool1d(2), nn.Flatten(), nn.Linear(16 * 12, 4),
    )  # fmt: skip


class Own(nn.Module):
    """Layers of its own with names of its own, and functions between them."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(2, 32, 5)
        self.calm = nn.GroupNorm(32, 32)
        self.second = nn.Conv1d(32, 16, 3)
        self.loud = nn.BatchNorm1d(16, affine=False)
        self.last = nn.Linear(16 * 12, 32)
        self.out = nn.Linear(32, 4)

    def forward(self, x, noise=None):
        assert x.shape[1] == 2
        x = torch.relu(self.calm(self.first(x)))
        x = F.avg_pool1d(F.gelu(self.loud(self.second(x))), 2) * 0.5
        if noise is not None:
            x = x + noise
        x = x.view(x.size(0), -1)
        return self.out(F.dropout(self.last(x), 0.1, self.training).sigmoid())


class Branching(nn.Module):
    """Code that torch.fx cannot follow, around a block that it can."""

    def __init__(self, block):
        super().__init__()
        self.before, self.after, self.block = nn.Conv1d(2, 16, 1), nn.Conv1d(16, 2, 1), block

    def forward(self, x):
        if x.dim() == 2:
            x = x[None]
        return self.block(self.after(self.before(x)))


class Silenced(unittest.TestCase):
    """What the removed channels would have carried is put to zero in a copy, where they are still there."""

    def check(self, model, x, share=0.5, run=False):
        torch.manual_seed(0)
        for module in model.modules():
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
                if module.affine:
                    nn.init.uniform_(module.weight, 0.5, 2)
                nn.init.uniform_(module.running_mean, -1, 1)
                nn.init.uniform_(module.running_var, 0.5, 2)
        model.eval()

        def out(one):
            with torch.no_grad():
                found = one(x)
            return found if torch.is_tensor(found) else found[0]

        masked, before = copy.deepcopy(model), out(model)
        chosen = []
        real = pruning._cut

        def cut(layer, keep, out):
            if not out:
                chosen.append((layer, keep))
            return real(layer, keep, out)

        pruning._cut = cut
        self.addCleanup(setattr, pruning, "_cut", real)
        kept = set(vars(model))
        done = plimsoll.optimize(model, prune=share, forward=(lambda: model(x)) if run else None)
        self.assertEqual(set(vars(model)), kept)
        names = {id(module): name for name, module in model.named_modules()}
        with torch.no_grad():
            for layer, keep in chosen:
                weight = masked.get_submodule(names[id(layer)]).weight
                # Linear layers of GPT-2 lie the other way round.
                into = weight if type(layer).__name__ == "Conv1D" else weight.transpose(0, 1)
                gone = torch.ones(into.shape[0], dtype=torch.bool)
                gone[keep] = False
                self.assertGreater(int(gone.sum()), 0)
                into[gone] = 0
        self.assertTrue(torch.allclose(out(model), out(masked), atol=1e-5))
        if chosen:
            self.assertFalse(torch.allclose(out(model), before, atol=1e-5))
        done.undo()
        self.assertTrue(torch.equal(out(model), before))
        return len(chosen)

    def test_pictures(self):
        model = pictures()
        self.assertEqual(self.check(model, torch.randn(2, 3, 16, 16)), 2)
        plimsoll.optimize(model, prune=0.5)
        self.assertEqual(
            (model[0].out_channels, model[1].num_features, model[4].in_channels), (16, 16, 16)
        )
        self.assertEqual((model[4].out_channels, model[9].in_features), (32, 32 * 9))

    def test_sound(self):
        self.assertEqual(self.check(sound(), torch.randn(2, 2, 30)), 2)

    def test_layers_of_any_module_by_its_code_and_by_a_run(self):
        x = torch.randn(2, 2, 30)
        # With noise, what lies behind it is seen by more than the next layer.
        self.assertEqual(self.check(Own(), x), 2)
        self.assertEqual(self.check(Own(), x, run=True), 3)
        self.assertEqual(self.check(Branching(nn.Identity()), x), 0)
        self.assertEqual(self.check(Branching(Own()), x), 2)
        self.assertEqual(self.check(Branching(nn.Conv1d(2, 4, 1)), x, run=True), 2)
        # It looks at the number of channels, which must stay.
        model = Branching(Own()).eval()
        done = plimsoll.optimize(model, prune=0.5, forward=lambda: model(x))
        self.assertIn("AssertionError", done.skipped["prune"])
        self.assertEqual((done.changes, model.after.out_channels), ([], 2))

    def test_models_of_transformers(self):
        from transformers import (
            GPT2Config,
            GPT2Model,
            Wav2Vec2Config,
            Wav2Vec2Model,
            WhisperConfig,
        )  # fmt: skip
        from transformers.models.whisper.modeling_whisper import WhisperEncoder

        small = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2}
        sound = Wav2Vec2Model(
            Wav2Vec2Config(
                **small, intermediate_size=32, conv_dim=(16,) * 7, num_conv_pos_embedding_groups=2
            )
        )
        # Seven convolutions, of which six have one behind them, and a feed-forward block.
        for run in (False, True):
            self.assertEqual(self.check(sound, torch.randn(1, 4000), run=run), 7)
        encoder = WhisperEncoder(
            WhisperConfig(
                d_model=16, encoder_layers=1, encoder_attention_heads=2, encoder_ffn_dim=32
            )
        )
        self.assertEqual(self.check(encoder, torch.randn(1, 80, 3000), run=True), 2)
        # Linear layers whose weights lie the other way round.
        words = GPT2Model(GPT2Config(n_layer=2, n_embd=16, n_head=2, vocab_size=64))
        self.assertEqual(self.check(words, torch.arange(8)[None]), 2)

    def test_channels_that_more_than_the_next_layer_sees_stay(self):
        class Seen(nn.Module):
            def __init__(self, how):
                super().__init__()
                self.one, self.two, self.how = nn.Conv1d(16, 16, 1), nn.Conv1d(16, 16, 1), how

            def forward(self, x):
                y = self.one(x)
                z = self.two(torch.relu(y))
                return self.how(self, y, z)

        for how in (
            lambda model, y, z: z + y,
            lambda model, y, z: (z, y),
            lambda model, y, z: model.one(z),
            lambda model, y, z: F.conv1d(z, model.one.weight),
        ):
            for run in (False, True):
                self.assertEqual(self.check(Seen(how), torch.randn(1, 16, 4), run=run), 0)
        self.assertEqual(self.check(Seen(lambda model, y, z: z), torch.randn(1, 16, 4)), 1)
        counts = Seen(lambda model, y, z: z / y.shape[1])
        self.assertEqual(self.check(counts, torch.randn(1, 16, 4)), 0)
        # Weights that are computed, and such as two layers share.
        model = Seen(lambda model, y, z: z)
        torch.nn.utils.parametrizations.weight_norm(model.one)
        self.assertEqual(self.check(model, torch.randn(1, 16, 4)), 0)
        model = Seen(lambda model, y, z: z)
        model.two.weight = model.one.weight
        self.assertEqual(self.check(model, torch.randn(1, 16, 4)), 0)

    def test_blocks_with_a_shortcut_lose_what_lies_inside_them_alone(self):
        from torchvision.models import resnet18

        self.assertEqual(self.check(resnet18(num_classes=4), torch.randn(1, 3, 32, 32)), 8)

    def test_what_mixes_channels_or_is_not_known_is_left_alone(self):
        for between in (
            nn.PixelShuffle(1),
            nn.Softmax(1),
            nn.GroupNorm(4, 32),
            nn.Conv2d(32, 32, 3, groups=32),
        ):
            model = nn.Sequential(nn.Conv2d(3, 32, 3), between, nn.Conv2d(32, 8, 3)).eval()
            done = plimsoll.optimize(model, prune=0.5)
            self.assertIn("prune", done.skipped, between)


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
