"""Conditional WGAN-GP that makes heartbeats (12 leads, 1-D convolutions)."""

import csv
import logging
import os

import torch
from torch import nn
from torch.autograd import grad as torch_grad
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger("ecg-gan")

CONFIG = dict(
    records=4096,
    leads=12,
    length=2048,
    classes=5,
    z_dim=128,
    g_channels=96,
    d_channels=96,
    batch_size=256,
    critic_iterations=5,
    gp_weight=10.0,
    epochs=6,
    lr=1e-4,
    betas=(0.0, 0.9),
)


def make_records(n, leads, length, classes):
    """Sums of bumps at a class-dependent rate, with noise per lead."""
    t = torch.linspace(0, 1, length)
    y = torch.randint(0, classes, (n,))
    rate = (4 + 2 * y).float()[:, None]
    phase = torch.rand(n, 1)
    wave = torch.sin(2 * torch.pi * (rate * t + phase)).clamp(min=0.6) - 0.6
    gain = torch.randn(n, leads, 1)
    x = wave[:, None, :] * gain + 0.02 * torch.randn(n, leads, length)
    return x, y


class UpBlock(nn.Module):
    def __init__(self, cin, cout, classes):
        super().__init__()
        self.up = nn.ConvTranspose1d(cin, cout, kernel_size=8, stride=4, padding=2)
        self.norm = nn.BatchNorm1d(cout, affine=False)
        self.embed = nn.Embedding(classes, 2 * cout)
        nn.init.zeros_(self.embed.weight)
        self.conv = nn.Conv1d(cout, cout, 7, padding=3)
        self.act = nn.PReLU()

    def forward(self, x, y):
        gamma, beta = self.embed(y).unsqueeze(-1).chunk(2, 1)
        h = self.norm(self.up(x))
        h = self.act(h * (1 + gamma) + beta)
        return self.act(h + self.conv(h))


class Generator(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        c = cfg["g_channels"]
        self.start = cfg["length"] // 256
        self.fc = nn.Linear(cfg["z_dim"], 8 * c * self.start)
        self.blocks = nn.ModuleList(
            [
                UpBlock(8 * c, 8 * c, cfg["classes"]),
                UpBlock(8 * c, 4 * c, cfg["classes"]),
                UpBlock(4 * c, 2 * c, cfg["classes"]),
                UpBlock(2 * c, c, cfg["classes"]),
            ]
        )
        self.out = nn.Conv1d(c, cfg["leads"], 7, padding=3)

    def forward(self, z, y):
        h = self.fc(z).view(z.size(0), -1, self.start)
        for block in self.blocks:
            h = block(h, y)
        return torch.tanh(self.out(h))


class Critic(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        c = cfg["d_channels"]
        dims = [c, 2 * c, 4 * c, 8 * c]
        layers = [nn.Conv1d(cfg["leads"], c, 7, padding=3), nn.LeakyReLU(0.2)]
        prev = c
        for d in dims:
            layers += [
                nn.Conv1d(prev, d, 9, stride=4, padding=4),
                nn.InstanceNorm1d(d, affine=True),
                nn.LeakyReLU(0.2),
            ]
            prev = d
        self.features = nn.Sequential(*layers)
        self.linear = nn.Linear(prev, 1)
        self.embed = nn.Embedding(cfg["classes"], prev)

    def forward(self, x, y):
        h = self.features(x).mean(-1)
        return self.linear(h).squeeze(1) + (self.embed(y) * h).sum(1)


class Trainer:
    def __init__(self, generator, critic, cfg, device):
        self.G, self.D, self.cfg, self.device = generator, critic, cfg, device
        self.G_opt = torch.optim.Adam(generator.parameters(), lr=cfg["lr"], betas=cfg["betas"])
        self.D_opt = torch.optim.Adam(critic.parameters(), lr=cfg["lr"], betas=cfg["betas"])
        self.losses = {"G": [], "D": [], "GP": [], "gradient_norm": []}
        self.num_steps = 0

    def sample(self, y):
        z = torch.randn(y.size(0), self.cfg["z_dim"], device=self.device)
        return self.G(z, y)

    def _gradient_penalty(self, real, fake, y):
        alpha = torch.rand(real.size(0), 1, 1, device=self.device).expand_as(real)
        interpolated = (alpha * real.data + (1 - alpha) * fake.data).requires_grad_(True)
        prob = self.D(interpolated, y)
        gradients = torch_grad(
            outputs=prob,
            inputs=interpolated,
            grad_outputs=torch.ones_like(prob),
            create_graph=True,
            retain_graph=True,
        )[0]
        gradients = gradients.view(real.size(0), -1)
        self.losses["gradient_norm"].append(gradients.norm(2, dim=1).mean().item())
        gradients_norm = torch.sqrt(torch.sum(gradients**2, dim=1) + 1e-12)
        return self.cfg["gp_weight"] * ((gradients_norm - 1) ** 2).mean()

    def _critic_train_iteration(self, x, y):
        fake = self.sample(y)
        d_real = self.D(x, y)
        d_fake = self.D(fake, y)
        gp = self._gradient_penalty(x, fake, y)
        self.losses["GP"].append(gp.item())
        self.D_opt.zero_grad()
        d_loss = d_fake.mean() - d_real.mean() + gp
        d_loss.backward()
        self.D_opt.step()
        self.losses["D"].append(d_loss.item())

    def _generator_train_iteration(self, y):
        self.G_opt.zero_grad()
        g_loss = -self.D(self.sample(y), y).mean()
        g_loss.backward()
        self.G_opt.step()
        self.losses["G"].append(g_loss.item())

    def train(self, loader, epochs, path):
        with open(path, "w", newline="") as f:
            writer = csv.DictWriter(f, fieldnames=["epoch", "D", "G", "GP"])
            writer.writeheader()
            for epoch in range(epochs):
                for x, y in loader:
                    x, y = x.to(self.device), y.to(self.device)
                    self.num_steps += 1
                    self._critic_train_iteration(x, y)
                    if self.num_steps % self.cfg["critic_iterations"] == 0:
                        self._generator_train_iteration(y)
                row = {
                    "epoch": epoch,
                    "D": self.losses["D"][-1],
                    "GP": self.losses["GP"][-1],
                    "G": self.losses["G"][-1] if self.losses["G"] else float("nan"),
                }
                writer.writerow(row)
                log.info(
                    "epoch %d  D %.3f  G %.3f  GP %.3f  |grad| %.3f",
                    epoch,
                    row["D"],
                    row["G"],
                    row["GP"],
                    self.losses["gradient_norm"][-1],
                )


if __name__ == "__main__":
    torch.manual_seed(7)
    cfg = CONFIG
    device = torch.device("cuda")
    x, y = make_records(cfg["records"], cfg["leads"], cfg["length"], cfg["classes"])
    x = x / x.abs().max()
    loader = DataLoader(
        TensorDataset(x, y), batch_size=cfg["batch_size"], shuffle=True, drop_last=True
    )
    trainer = Trainer(Generator(cfg).to(device), Critic(cfg).to(device), cfg, device)
    log.info(
        "generator %d critic %d parameters",
        sum(p.numel() for p in trainer.G.parameters()),
        sum(p.numel() for p in trainer.D.parameters()),
    )
    trainer.train(loader, cfg["epochs"], "heartbeats_log.csv")
    trainer.G.eval()
    with torch.no_grad():
        beats = trainer.sample(torch.arange(cfg["classes"], device=device).repeat_interleave(20))
    log.info("made %s, std %.4f", tuple(beats.shape), beats.std().item())
    os.remove("heartbeats_log.csv")
