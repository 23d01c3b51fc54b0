"""A VAE with three groups of latents; after each epoch the bound with 40 samples for each picture."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Bernoulli, Normal, kl_divergence
from torch.utils.data import DataLoader, TensorDataset


class Cell(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(c),
            nn.SiLU(),
            nn.Conv2d(c, 2 * c, 3, padding=1),
            nn.BatchNorm2d(2 * c),
            nn.SiLU(),
            nn.Conv2d(2 * c, c, 3, padding=1),
        )

    def forward(self, x):
        return x + 0.1 * self.body(x)


def two(x):
    mean, log = x.chunk(2, 1)
    return Normal(mean, F.softplus(log) + 1e-3)


class LadderVAE(nn.Module):
    def __init__(self, c, z, levels):
        super().__init__()
        self.stem = nn.Conv2d(1, c, 3, padding=1)
        self.down = nn.ModuleList(
            [nn.Sequential(Cell(c), nn.Conv2d(c, c, 4, 2, 1)) for _ in range(levels)]
        )
        self.posterior = nn.ModuleList([nn.Conv2d(2 * c, 2 * z, 1) for _ in range(levels)])
        self.prior = nn.ModuleList([nn.Conv2d(c, 2 * z, 1) for _ in range(levels)])
        self.merge = nn.ModuleList([nn.Conv2d(c + z, c, 1) for _ in range(levels)])
        self.up = nn.ModuleList(
            [nn.Sequential(Cell(c), nn.ConvTranspose2d(c, c, 4, 2, 1)) for _ in range(levels)]
        )
        self.top = nn.Parameter(torch.zeros(1, c, 1, 1))
        self.out = nn.Sequential(Cell(c), nn.Conv2d(c, 1, 3, padding=1))

    def forward(self, x):
        """The picture's distribution, and for each level its two distributions and what was drawn."""
        features, h = [], self.stem(x)
        for step in self.down:
            h = step(h)
            features.append(h)
        h = self.top.expand_as(features[-1])
        groups = []
        for i in reversed(range(len(self.down))):
            q = two(self.posterior[i](torch.cat([h, features[i]], 1)))
            p = two(self.prior[i](h))
            z = q.rsample()
            groups.append((q, p, z))
            h = self.up[i](self.merge[i](torch.cat([h, z], 1)))
        return Bernoulli(logits=self.out(h)), groups

    @torch.no_grad()
    def sample(self, count, side):
        h = self.top.expand(count, -1, side, side)
        for i in reversed(range(len(self.down))):
            z = two(self.prior[i](h)).sample()
            h = self.up[i](self.merge[i](torch.cat([h, z], 1)))
        return self.out(h).sigmoid()


def negative_elbo(model, x, beta):
    px, groups = model(x)
    reconstruction = -px.log_prob(x).flatten(1).sum(1)
    kl = sum(kl_divergence(q, p).flatten(1).sum(1) for q, p, _ in groups)
    return (reconstruction + beta * kl).mean(), kl.mean()


@torch.no_grad()
def iwae_bound(model, x, k):
    repeated = x.repeat_interleave(k, 0)
    px, groups = model(repeated)
    log_w = px.log_prob(repeated).flatten(1).sum(1)
    for q, p, z in groups:
        log_w = log_w + (p.log_prob(z) - q.log_prob(z)).flatten(1).sum(1)
    return (torch.logsumexp(log_w.view(-1, k), 1) - math.log(k)).mean()


def drawings(count, size, seed):
    g = torch.Generator().manual_seed(seed)
    coarse = torch.rand(count, 1, 7, 7, generator=g)
    return (F.interpolate(coarse, size=(size, size), mode="bilinear") > 0.5).float()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--images", type=int, default=3000)
    p.add_argument("--size", type=int, default=64)
    p.add_argument("--channels", type=int, default=64)
    p.add_argument("--latent", type=int, default=16)
    p.add_argument("--levels", type=int, default=3)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--importance", type=int, default=40)
    p.add_argument("--eval-batch", type=int, default=25)
    a = p.parse_args()
    torch.manual_seed(6)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = DataLoader(TensorDataset(drawings(a.images, a.size, 1)), a.batch, shuffle=True)
    test = DataLoader(TensorDataset(drawings(a.images // 20, a.size, 2)), a.eval_batch)
    model = LadderVAE(a.channels, a.latent, a.levels).to(device)
    optimizer = torch.optim.Adamax(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, a.epochs, eta_min=1e-5)
    for epoch in range(a.epochs):
        model.train()
        beta = min(1.0, (epoch + 1) / a.epochs)
        for (x,) in train:
            loss, kl = negative_elbo(model, x.to(device), beta)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 200.0)
            optimizer.step()
        schedule.step()
        model.eval()
        bounds = [iwae_bound(model, x.to(device), a.importance) for (x,) in test]
        print(
            f"epoch {epoch}: loss {loss.item():.1f}, kl {kl.item():.1f},"
            f" bound {torch.stack(bounds).mean().item():.1f}"
        )
    torch.save(model.sample(100, a.size >> a.levels).cpu(), "samples.pt")
    torch.save(model.state_dict(), "ladder.pt")


if __name__ == "__main__":
    main()
