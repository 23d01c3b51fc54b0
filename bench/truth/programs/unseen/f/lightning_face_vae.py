"""A residual VAE of faces with Lightning: KL warm-up, averaged weights in a callback, samples after training."""

import copy

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.utils import make_grid, save_image


class Faces(Dataset):
    def __init__(self, count, size):
        self.count, self.size = count, size

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        low = torch.rand(1, 3, 8, 8, generator=g)
        return F.interpolate(low, size=(self.size, self.size), mode="bilinear")[0]


class Residual(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.body = nn.Sequential(
            nn.GroupNorm(8, cin),
            nn.SiLU(),
            nn.Conv2d(cin, cout, 3, padding=1),
            nn.GroupNorm(8, cout),
            nn.SiLU(),
            nn.Dropout2d(0.05),
            nn.Conv2d(cout, cout, 3, padding=1),
        )
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x):
        return self.skip(x) + self.body(x)


class FaceVAE(pl.LightningModule):
    def __init__(self, widths=(64, 128, 256, 512), latent=16, lr=2e-4, warmup=40):
        super().__init__()
        self.save_hyperparameters()
        down, up = [nn.Conv2d(3, widths[0], 3, padding=1)], []
        for a, b in zip(widths, widths[1:]):
            down += [Residual(a, a), Residual(a, b), nn.Conv2d(b, b, 3, 2, 1)]
            up = [nn.Upsample(scale_factor=2), Residual(b, a), Residual(a, a), *up]
        self.encoder = nn.Sequential(
            *down, Residual(widths[-1], widths[-1]), nn.Conv2d(widths[-1], 2 * latent, 1)
        )
        self.decoder = nn.Sequential(
            nn.Conv2d(latent, widths[-1], 1),
            Residual(widths[-1], widths[-1]),
            *up,
            nn.Conv2d(widths[0], 3, 3, padding=1),
        )

    def forward(self, x):
        mean, logvar = self.encoder(x).chunk(2, 1)
        logvar = logvar.clamp(-20, 10)
        z = mean + torch.randn_like(mean) * (0.5 * logvar).exp()
        return self.decoder(z), mean.float(), logvar.float()

    def losses(self, x):
        guess, mean, logvar = self(x)
        rebuilt = F.l1_loss(guess.float(), x, reduction="none").sum((1, 2, 3)).mean()
        kl = 0.5 * (mean**2 + logvar.exp() - 1 - logvar).sum((1, 2, 3)).mean()
        return rebuilt, kl

    def training_step(self, x, index):
        rebuilt, kl = self.losses(x)
        loss = rebuilt + min(1.0, self.global_step / self.hparams.warmup) * kl
        if not torch.isfinite(loss):
            return None
        self.log_dict({"rebuilt": rebuilt, "kl": kl})
        return loss

    def validation_step(self, x, index):
        rebuilt, kl = self.losses(x)
        self.log("elbo", rebuilt + kl, prog_bar=True)

    def configure_optimizers(self):
        optimizer = torch.optim.Adamax(self.parameters(), lr=self.hparams.lr)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.995)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Averaging(pl.Callback):
    """Keeps averaged weights, and puts them in place for validation and at the end."""

    def __init__(self, decay=0.99):
        self.decay, self.average, self.kept = decay, None, None

    def on_fit_start(self, trainer, module):
        self.average = copy.deepcopy(module.state_dict())

    @torch.no_grad()
    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        for name, value in module.state_dict().items():
            self.average[name].lerp_(value, 1 - self.decay)

    def on_validation_start(self, trainer, module):
        if not trainer.sanity_checking:
            self.kept = copy.deepcopy(module.state_dict())
            module.load_state_dict(self.average)

    def on_validation_end(self, trainer, module):
        if self.kept is not None:
            module.load_state_dict(self.kept)
            self.kept = None

    def on_fit_end(self, trainer, module):
        module.load_state_dict(self.average)


def main(size=128, batch=48, images=1440, pictures=256):
    pl.seed_everything(9)
    model = FaceVAE()
    trainer = pl.Trainer(
        max_epochs=2,
        accelerator="gpu",
        devices=1,
        precision="bf16-mixed",
        accumulate_grad_batches=2,
        gradient_clip_val=100.0,
        callbacks=[Averaging(), pl.callbacks.ModelCheckpoint("vae", monitor="elbo")],
        logger=False,
        enable_progress_bar=False,
        num_sanity_val_steps=1,
    )
    train = DataLoader(Faces(images, size), batch, shuffle=True, num_workers=4, drop_last=True)
    val = DataLoader(Faces(2 * batch, size), 2 * batch, num_workers=1)
    trainer.fit(model, train, val)
    model = model.to("cuda").eval()
    with torch.no_grad():
        z = torch.randn(pictures, model.hparams.latent, size // 8, size // 8, device="cuda")
        faces = model.decoder(z).sigmoid()
    save_image(make_grid(faces[:64], nrow=8), "faces.png")
    print(faces.shape)


if __name__ == "__main__":
    main()
