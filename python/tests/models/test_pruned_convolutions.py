"""Channels of convolutions that are taken out: the output is that of the network with those channels silenced."""

import copy
import unittest

import torch
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


class Silenced(unittest.TestCase):
    """What the removed channels would have carried is put to zero in a copy, where they are still there."""

    def check(self, model, x, share=0.5):
        torch.manual_seed(0)
        for module in model.modules():
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
                nn.init.uniform_(module.weight, 0.5, 2)
                nn.init.uniform_(module.running_mean, -1, 1)
                nn.init.uniform_(module.running_var, 0.5, 2)
        model.eval()
        masked, before = copy.deepcopy(model), model(x)
        chosen = []
        real = pruning._cut

        def cut(layer, keep, out):
            if not out:
                chosen.append((layer, keep))
            return real(layer, keep, out)

        pruning._cut = cut
        self.addCleanup(setattr, pruning, "_cut", real)
        done = plimsoll.optimize(model, prune=share)
        names = {id(module): name for name, module in model.named_modules()}
        with torch.no_grad():
            for layer, keep in chosen:
                weight = masked.get_submodule(names[id(layer)]).weight
                gone = torch.ones(weight.shape[1], dtype=torch.bool)
                gone[keep] = False
                self.assertGreater(int(gone.sum()), 0)
                weight[:, gone] = 0
        self.assertTrue(torch.allclose(model(x), masked(x), atol=1e-5))
        self.assertFalse(torch.allclose(model(x), before, atol=1e-5))
        done.undo()
        self.assertTrue(torch.equal(model(x), before))
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
