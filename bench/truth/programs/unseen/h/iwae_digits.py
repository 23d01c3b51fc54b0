"""Importance-weighted autoencoder (two stochastic layers) on binarised digits."""

import argparse
import math

import torch
from torch import nn
from torch.distributions import Normal


def two(inp, hid):
    return nn.Sequential(nn.Linear(inp, hid), nn.Tanh(), nn.Linear(hid, hid), nn.Tanh())


class Gauss(nn.Module):
    def __init__(self, inp, hid, out):
        super().__init__()
        self.body, self.mu, self.logvar = two(inp, hid), nn.Linear(hid, out), nn.Linear(hid, out)

    def forward(self, x):
        h = self.body(x)
        return Normal(self.mu(h), torch.exp(0.5 * self.logvar(h).clamp(-10, 10)))


class IWAE(nn.Module):
    def __init__(self, hid, z1=100, z2=50):
        super().__init__()
        self.q1, self.q2 = Gauss(784, hid, z1), Gauss(z1, hid // 2, z2)
        self.p1 = Gauss(z2, hid // 2, z1)
        self.px = nn.Sequential(two(z1, hid), nn.Linear(hid, 784))

    def log_weights(self, x, k):
        q1 = self.q1(x)
        h1 = q1.rsample((k,))
        q2 = self.q2(h1)
        h2 = q2.rsample()
        p1 = self.p1(h2)
        logits = self.px(h1)
        log_px = -nn.functional.binary_cross_entropy_with_logits(
            logits, x.expand(k, -1, -1), reduction="none"
        ).sum(-1)
        prior = Normal(torch.zeros_like(h2), torch.ones_like(h2)).log_prob(h2).sum(-1)
        return (
            log_px
            + p1.log_prob(h1).sum(-1)
            + prior
            - q1.log_prob(h1).sum(-1)
            - q2.log_prob(h2).sum(-1)
        )

    def bound(self, x, k):
        return (torch.logsumexp(self.log_weights(x, k), 0) - math.log(k)).mean()

    @torch.no_grad()
    def sample(self, n, device):
        h2 = torch.randn(n, 50, device=device)
        return torch.sigmoid(self.px(self.p1(h2).sample()))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--k", type=int, default=100)
    ap.add_argument("--k-eval", type=int, default=500)
    ap.add_argument("--batch", type=int, default=1200)
    ap.add_argument("--hidden", type=int, default=800)
    ap.add_argument("--digits", type=int, default=12000)
    ap.add_argument("--epochs", type=int, default=3)
    args = ap.parse_args()
    torch.manual_seed(11)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    grey = torch.rand(args.digits, 784).pow(3).to(device)
    held = torch.rand(args.digits // 10, 784).pow(3).to(device).bernoulli()
    model = IWAE(args.hidden).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-4)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, milestones=[1, 2], gamma=10 ** (-1 / 7))
    for epoch in range(args.epochs):
        total = 0.0
        batches = torch.randperm(args.digits, device=device).split(args.batch)
        for idx in batches:
            x = torch.bernoulli(grey[idx])
            loss = -model.bound(x, args.k)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.item()
        sched.step()
        with torch.no_grad():
            nll = -sum(model.bound(x, args.k_eval).item() for x in held.split(100)) / len(
                held.split(100)
            )
        print(
            f"epoch {epoch}: train bound {-total / len(batches):.2f}, test NLL (k={args.k_eval}) {nll:.2f}"
        )
        torch.save(model.sample(100, device).view(-1, 28, 28).cpu(), f"iwae_samples_{epoch}.pt")
    torch.save(model.state_dict(), "iwae.pt")


if __name__ == "__main__":
    main()
