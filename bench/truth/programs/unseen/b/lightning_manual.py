"""Lightning with manual optimization: an adversarial autoencoder, two optimizers, accumulation by hand."""

import argparse

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noise(Dataset):
    def __init__(self, count, dims):
        self.count, self.dims = count, dims

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        return torch.rand(self.dims, generator=generator)


def mlp(*sizes, norm=True):
    layers = []
    for i, (a, b) in enumerate(zip(sizes, sizes[1:], strict=False)):
        layers.append(nn.Linear(a, b))
        if i < len(sizes) - 2:
            layers += [nn.BatchNorm1d(b) if norm else nn.Identity(), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers)


class AdversarialAutoencoder(pl.LightningModule):
    def __init__(self, dims=4096, hidden=4096, latent=64, accumulate=2):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.encoder = mlp(dims, hidden, hidden // 2, latent)
        self.decoder = mlp(latent, hidden // 2, hidden, dims)
        self.critic = mlp(latent, hidden // 4, hidden // 4, 1, norm=False)

    def configure_optimizers(self):
        body = [*self.encoder.parameters(), *self.decoder.parameters()]
        return (
            torch.optim.AdamW(body, lr=3e-4),
            torch.optim.RMSprop(self.critic.parameters(), lr=1e-4),
        )

    def training_step(self, x, batch_idx):
        opt_ae, opt_critic = self.optimizers()
        n = self.hparams.accumulate
        z = self.encoder(x)
        reconstruction = F.mse_loss(self.decoder(z), x)
        self.toggle_optimizer(opt_ae)
        fool = F.softplus(-self.critic(z)).mean()
        self.manual_backward((reconstruction + 0.1 * fool) / n)
        if (batch_idx + 1) % n == 0:
            self.clip_gradients(opt_ae, gradient_clip_val=1.0, gradient_clip_algorithm="norm")
            opt_ae.step()
            opt_ae.zero_grad()
        self.untoggle_optimizer(opt_ae)

        self.toggle_optimizer(opt_critic)
        prior = torch.randn_like(z)
        loss = F.softplus(-self.critic(prior)).mean() + F.softplus(self.critic(z.detach())).mean()
        self.manual_backward(loss)
        opt_critic.step()
        opt_critic.zero_grad()
        self.untoggle_optimizer(opt_critic)
        self.log_dict({"reconstruction": reconstruction, "critic": loss}, prog_bar=True)

    def validation_step(self, x, batch_idx):
        self.log("val", F.mse_loss(self.decoder(self.encoder(x)), x))

    def on_train_epoch_end(self):
        with torch.no_grad():
            drawn = self.decoder(torch.randn(2048, self.hparams.latent, device=self.device))
        print(f"epoch {self.current_epoch}: spread of samples {drawn.std(0).mean():.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dims", type=int, default=4096)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--count", type=int, default=16384)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    pl.seed_everything(12)
    model = AdversarialAutoencoder(args.dims, args.hidden)
    train = DataLoader(Noise(args.count, args.dims), args.batch, shuffle=True, num_workers=4)
    val = DataLoader(Noise(args.count // 8, args.dims), args.batch, num_workers=2)
    trainer = pl.Trainer(
        max_epochs=args.epochs,
        accelerator="auto",
        devices=1,
        precision="bf16-mixed" if torch.cuda.is_available() else 32,
        num_sanity_val_steps=1,
        logger=False,
        enable_progress_bar=False,
    )
    trainer.fit(model, train, val)


if __name__ == "__main__":
    main()
