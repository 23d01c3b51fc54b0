"""x2 super-resolution of scanned maps: a Swin2SR generator against a patch discriminator, manual optimisation."""

from argparse import ArgumentParser

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from transformers import Swin2SRConfig, Swin2SRForImageSuperResolution


class ScannedMaps(Dataset):
    def __init__(self, n, patch):
        self.n, self.patch = n, patch

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        gen = torch.Generator().manual_seed(i)
        sharp = torch.rand(3, 2 * self.patch, 2 * self.patch, generator=gen)
        blurred = F.avg_pool2d(sharp[None], 2)[0]
        return blurred, sharp


def block(cin, cout, stride):
    conv = nn.utils.parametrizations.spectral_norm(nn.Conv2d(cin, cout, 4, stride, 1))
    return nn.Sequential(conv, nn.LeakyReLU(0.2, inplace=True))


class PatchDiscriminator(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.body = nn.Sequential(
            block(3, width, 2), block(width, 2 * width, 2), block(2 * width, 4 * width, 1)
        )
        self.head = nn.Conv2d(4 * width, 1, 4, 1, 1)

    def forward(self, x):
        return self.head(self.body(x))


class SharpenMaps(pl.LightningModule):
    def __init__(self, hp):
        super().__init__()
        self.automatic_optimization = False
        self.hp = hp
        self.generator = Swin2SRForImageSuperResolution(
            Swin2SRConfig(
                image_size=hp.patch,
                embed_dim=hp.embed,
                depths=[hp.depth] * hp.stages,
                num_heads=[6] * hp.stages,
                window_size=8,
                upscale=2,
                upsampler="pixelshuffle",
            )
        )
        self.discriminator = PatchDiscriminator(hp.disc)

    def forward(self, blurred):
        return self.generator(pixel_values=blurred).reconstruction

    def training_step(self, batch, batch_idx):
        blurred, sharp = batch
        opt_g, opt_d = self.optimizers()

        self.toggle_optimizer(opt_g)
        fake = self(blurred)
        pixel = F.l1_loss(fake, sharp)
        adversarial = -self.discriminator(fake).mean()
        g_loss = pixel + self.hp.adv_weight * adversarial
        opt_g.zero_grad()
        self.manual_backward(g_loss)
        self.clip_gradients(opt_g, gradient_clip_val=0.5, gradient_clip_algorithm="norm")
        opt_g.step()
        self.untoggle_optimizer(opt_g)

        self.toggle_optimizer(opt_d)
        real_score = self.discriminator(sharp)
        fake_score = self.discriminator(fake.detach())
        d_loss = F.relu(1 - real_score).mean() + F.relu(1 + fake_score).mean()
        opt_d.zero_grad()
        self.manual_backward(d_loss)
        opt_d.step()
        self.untoggle_optimizer(opt_d)
        self.log_dict({"pixel": pixel, "g": g_loss, "d": d_loss}, prog_bar=True)

    def validation_step(self, batch, batch_idx):
        blurred, sharp = batch
        mse = F.mse_loss(self(blurred).clamp(0, 1), sharp)
        self.log("psnr", -10 * torch.log10(mse))

    def configure_optimizers(self):
        g = torch.optim.Adam(self.generator.parameters(), lr=2e-4, betas=(0.9, 0.99))
        d = torch.optim.Adam(self.discriminator.parameters(), lr=1e-4, betas=(0.5, 0.99))
        return g, d


def cli():
    p = ArgumentParser()
    p.add_argument("--patch", type=int, default=64)
    p.add_argument("--embed", type=int, default=180)
    p.add_argument("--depth", type=int, default=6)
    p.add_argument("--stages", type=int, default=4)
    p.add_argument("--disc", type=int, default=64)
    p.add_argument("--batch", type=int, default=12)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--adv_weight", type=float, default=5e-3)
    return p.parse_args()


def main():
    hp = cli()
    pl.seed_everything(99)
    train = DataLoader(
        ScannedMaps(hp.batch * hp.steps, hp.patch), batch_size=hp.batch, shuffle=True
    )
    valid = DataLoader(ScannedMaps(hp.batch * 2, hp.patch), batch_size=hp.batch)
    trainer = pl.Trainer(
        accelerator="auto",
        devices=1,
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(SharpenMaps(hp), train, valid)
    print({k: f"{v.item():.4f}" for k, v in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
