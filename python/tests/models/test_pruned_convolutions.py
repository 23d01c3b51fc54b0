"""Channels of convolutions that are taken out: the output is that of the network with those channels silenced."""

import copy
import unittest

import torch
import torch.nn.functional as F
from torch import nn

import plimsoll
from plimsoll.optimizing import pruning


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


if __name__ == "__main__":
    unittest.main()
