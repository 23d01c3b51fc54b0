"""VAE-GAN (learned similarity) on drawings of sea shells in Lightning with manual optimization: encoder, decoder and discriminator have an optimizer each."""

import argparse

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Shells(IterableDataset):
    """Log spirals with random pitch."""

    def __init__(self, size, batches, batch, seed):
        super().__init__()
        self.size, self.batches, self.batch, self.seed = size, batches, batch, seed

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        axis = torch.linspace(-1, 1, self.size)
        y, x = torch.meshgrid(axis, axis, indexing="ij")
        r, phi = (x**2 + y**2).sqrt() + 1e-3, torch.atan2(y, x)
        for _ in range(self.batches):
            pitch = torch.rand(self.batch, 3, 1, 1, generator=g) * 6 + 3
            phase = torch.rand(self.batch, 3, 1, 1, generator=g) * 6.28
            yield torch.cos(pitch * r.log() + phi + phase)


def down(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 5, 2, 2, bias=False), nn.BatchNorm2d(cout), nn.LeakyReLU(0.2, True)
    )


def up(cin, cout):
    return nn.Sequential(
        nn.ConvTranspose2d(cin, cout, 5, 2, 2, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(True)
    )


class Encoder(nn.Module):
    def __init__(self, size, ch, latent):
        super().__init__()
        self.body = nn.Sequential(
            down(3, ch), down(ch, 2 * ch), down(2 * ch, 4 * ch), down(4 * ch, 8 * ch), nn.Flatten()
        )
        self.stats = nn.Linear(8 * ch * (size // 16) ** 2, 2 * latent)

    def forward(self, x):
        return self.stats(self.body(x)).chunk(2, 1)


class Decoder(nn.Module):
    def __init__(self, size, ch, latent):
        super().__init__()
        self.shape = (8 * ch, size // 16, size // 16)
        self.fc = nn.Linear(latent, 8 * ch * (size // 16) ** 2)
        self.body = nn.Sequential(
            up(8 * ch, 4 * ch),
            up(4 * ch, 2 * ch),
            up(2 * ch, ch),
            up(ch, ch),
            nn.Conv2d(ch, 3, 5, padding=2),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.body(self.fc(z).view(-1, *self.shape))


class Critic(nn.Module):
    def __init__(self, size, ch):
        super().__init__()
        self.low = nn.Sequential(
            nn.Conv2d(3, ch, 5, 1, 2),
            nn.LeakyReLU(0.2, True),
            down(ch, 2 * ch),
            down(2 * ch, 4 * ch),
        )
        self.high = nn.Sequential(
            down(4 * ch, 8 * ch), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128 * ch, 1)
        )

    def forward(self, x):
        features = self.low(x)
        return self.high(features), features


class VAEGAN(L.LightningModule):
    def __init__(self, size=128, ch=64, latent=128, gamma=0.1, lr=3e-4):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.encoder, self.decoder, self.critic = (
            Encoder(size, ch, latent),
            Decoder(size, ch, latent),
            Critic(size, ch),
        )

    def configure_optimizers(self):
        make = lambda m: torch.optim.RMSprop(m.parameters(), lr=self.hparams.lr)
        opts = [make(self.encoder), make(self.decoder), make(self.critic)]
        return opts, [torch.optim.lr_scheduler.ExponentialLR(o, 0.98) for o in opts]

    def training_step(self, x, batch_idx):
        opt_e, opt_d, opt_c = self.optimizers()
        mu, logvar = self.encoder(x)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        recon, fake = self.decoder(z), self.decoder(torch.randn_like(z))
        real_score, real_features = self.critic(x)
        recon_score, recon_features = self.critic(recon)
        fake_score, _ = self.critic(fake)

        bce = lambda s, t: F.binary_cross_entropy_with_logits(s, torch.full_like(s, t))
        gan = bce(real_score, 1.0) + bce(recon_score, 0.0) + bce(fake_score, 0.0)
        prior = -0.5 * (1 + logvar - mu**2 - logvar.exp()).mean()
        similar = F.mse_loss(recon_features, real_features.detach())

        opt_e.zero_grad()
        opt_d.zero_grad()
        opt_c.zero_grad()
        enc = torch.autograd.grad(
            prior + similar, list(self.encoder.parameters()), retain_graph=True
        )
        dec = torch.autograd.grad(
            self.hparams.gamma * similar - gan, list(self.decoder.parameters()), retain_graph=True
        )
        self.manual_backward(gan, inputs=list(self.critic.parameters()))
        for p, g in zip(self.encoder.parameters(), enc):
            p.grad = g
        for p, g in zip(self.decoder.parameters(), dec):
            p.grad = g
        for opt in (opt_e, opt_d, opt_c):
            opt.step()
        if self.trainer.is_last_batch:
            for s in self.lr_schedulers():
                s.step()
        self.log_dict({"gan": gan, "prior": prior, "similar": similar})

    def validation_step(self, x, batch_idx):
        mu, _ = self.encoder(x)
        self.log("val_mse", F.mse_loss(self.decoder(mu), x), batch_size=len(x))

    def on_validation_epoch_end(self):
        print("val mse", float(self.trainer.callback_metrics["val_mse"]))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", type=int, default=128)
    ap.add_argument("--ch", type=int, default=64)
    ap.add_argument("--batch", type=int, default=96)
    ap.add_argument("--batches", type=int, default=25)
    ap.add_argument("--epochs", type=int, default=2)
    args = ap.parse_args()
    L.seed_everything(99)
    train = DataLoader(Shells(args.size, args.batches, args.batch, 1), batch_size=None)
    val = DataLoader(Shells(args.size, 3, args.batch * 2, 2), batch_size=None)
    trainer = L.Trainer(
        max_epochs=args.epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(VAEGAN(args.size, args.ch), train, val)
