"""Least-squares GAN for tile patterns (112 x 112) in Lightning with manual optimization, two optimizers and a callback that keeps sample sheets."""

import argparse
import tempfile
from pathlib import Path

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.utils import save_image


class Tiles(Dataset):
    def __init__(self, n, side):
        self.n, self.side = n, side

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        motif = torch.rand(3, 7, 7, generator=g) * 2 - 1
        motif = (motif + motif.flip(-1)) / 2
        return F.interpolate(motif[None], size=self.side, mode="nearest")[0]


class Generator(nn.Sequential):
    def __init__(self, noise, w):
        def up(a, b):
            return [
                nn.Upsample(scale_factor=2),
                nn.Conv2d(a, b, 3, padding=1),
                nn.BatchNorm2d(b),
                nn.LeakyReLU(0.2),
            ]

        super().__init__(
            nn.Linear(noise, 8 * w * 49),
            nn.Unflatten(1, (8 * w, 7, 7)),
            nn.BatchNorm2d(8 * w),
            *up(8 * w, 8 * w),
            *up(8 * w, 4 * w),
            *up(4 * w, 2 * w),
            *up(2 * w, w),
            nn.Conv2d(w, 3, 3, padding=1),
            nn.Tanh(),
        )


class Discriminator(nn.Sequential):
    def __init__(self, w):
        def down(a, b):
            conv = nn.utils.parametrizations.spectral_norm(nn.Conv2d(a, b, 4, 2, 1))
            return [conv, nn.LeakyReLU(0.2), nn.Dropout2d(0.1)]

        super().__init__(
            nn.Conv2d(3, w, 5, padding=2),
            nn.LeakyReLU(0.2),
            *down(w, 2 * w),
            *down(2 * w, 4 * w),
            *down(4 * w, 8 * w),
            *down(8 * w, 8 * w),
            nn.Flatten(),
            nn.Linear(8 * w * 49, 1),
        )


class LSGAN(L.LightningModule):
    def __init__(self, noise=100, width=64, lr=2e-4):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.G = Generator(noise, width)
        self.D = Discriminator(width)
        self.register_buffer("fixed", torch.randn(36, noise))

    def forward(self, z):
        return self.G(z)

    def training_step(self, real, batch_idx):
        opt_g, opt_d = self.optimizers()
        z = torch.randn(len(real), self.hparams.noise, device=self.device)

        self.toggle_optimizer(opt_d)
        fake = self(z).detach()
        d_loss = 0.5 * ((self.D(real) - 1).square().mean() + self.D(fake).square().mean())
        opt_d.zero_grad()
        self.manual_backward(d_loss)
        opt_d.step()
        self.untoggle_optimizer(opt_d)

        self.toggle_optimizer(opt_g)
        g_loss = 0.5 * (self.D(self(z)) - 1).square().mean()
        opt_g.zero_grad()
        self.manual_backward(g_loss)
        self.clip_gradients(opt_g, gradient_clip_val=5.0, gradient_clip_algorithm="norm")
        opt_g.step()
        self.untoggle_optimizer(opt_g)
        self.log_dict({"d_loss": d_loss, "g_loss": g_loss}, prog_bar=True)

    def configure_optimizers(self):
        lr = self.hparams.lr
        return (
            torch.optim.Adam(self.G.parameters(), lr=lr, betas=(0.5, 0.999)),
            torch.optim.Adam(self.D.parameters(), lr=lr, betas=(0.5, 0.999)),
        )


class SampleSheet(L.Callback):
    def __init__(self, folder, every=10):
        self.folder, self.every = Path(folder), every

    @torch.no_grad()
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if batch_idx % self.every == 0:
            module.eval()
            sheet = module(module.fixed).float().cpu() * 0.5 + 0.5
            module.train()
            save_image(sheet, self.folder / f"{batch_idx:05d}.png", nrow=6)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=192)
    p.add_argument("--steps", type=int, default=30)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--workers", type=int, default=6)
    p.add_argument("--precision", default="bf16-mixed")
    a = p.parse_args()
    L.seed_everything(404)
    loader = DataLoader(
        Tiles(a.batch * a.steps, 112), a.batch, num_workers=a.workers, drop_last=True
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            max_epochs=1,
            accelerator="auto",
            devices=1,
            precision=a.precision,
            callbacks=[SampleSheet(folder)],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
        )
        trainer.fit(LSGAN(width=a.width), loader)
        print({k: round(v.item(), 4) for k, v in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
