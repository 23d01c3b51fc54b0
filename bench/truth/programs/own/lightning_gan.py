"""A small GAN with Lightning's manual optimization: two optimizers, images sampled after each epoch."""

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Gan(pl.LightningModule):
    def __init__(self, latent=100):
        super().__init__()
        self.automatic_optimization = False
        self.latent = latent
        self.generator = nn.Sequential(
            nn.Linear(latent, 1024), nn.LeakyReLU(0.2), nn.Linear(1024, 2048), nn.LeakyReLU(0.2),
            nn.Linear(2048, 4096), nn.BatchNorm1d(4096), nn.LeakyReLU(0.2),
            nn.Linear(4096, 3 * 64 * 64), nn.Tanh(), nn.Unflatten(1, (3, 64, 64)),
        )  # fmt: skip
        self.critic = nn.Sequential(
            nn.Flatten(), nn.Linear(3 * 64 * 64, 2048), nn.LeakyReLU(0.2), nn.Dropout(0.3),
            nn.Linear(2048, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1),
        )  # fmt: skip
        self.register_buffer("fixed", torch.randn(1024, latent))

    def training_step(self, batch, _):
        (real,) = batch
        of_generator, of_critic = self.optimizers()
        noise = torch.randn(len(real), self.latent, device=self.device)
        self.toggle_optimizer(of_generator)
        out = self.critic(self.generator(noise))
        loss = F.binary_cross_entropy_with_logits(out, torch.ones_like(out))
        of_generator.zero_grad()
        self.manual_backward(loss)
        of_generator.step()
        self.untoggle_optimizer(of_generator)
        self.toggle_optimizer(of_critic)
        good, bad = self.critic(real), self.critic(self.generator(noise).detach())
        cost = F.binary_cross_entropy_with_logits(good, torch.ones_like(good))
        cost = (cost + F.binary_cross_entropy_with_logits(bad, torch.zeros_like(bad))) / 2
        of_critic.zero_grad()
        self.manual_backward(cost)
        of_critic.step()
        self.untoggle_optimizer(of_critic)
        self.log_dict({"generator": loss, "critic": cost}, prog_bar=True)

    def on_train_epoch_end(self):
        with torch.no_grad():
            grid = self.generator(self.fixed).cpu()
        print("sampled", tuple(grid.shape))

    def configure_optimizers(self):
        return [
            torch.optim.Adam(self.generator.parameters(), 2e-4, betas=(0.5, 0.999)),
            torch.optim.Adam(self.critic.parameters(), 2e-4, betas=(0.5, 0.999)),
        ]


loader = DataLoader(TensorDataset(torch.rand(1500, 3, 64, 64)), 128, shuffle=True)
pl.Trainer(
    max_epochs=2, accelerator="auto", devices=1, logger=False, enable_progress_bar=False
).fit(Gan(), loader)
