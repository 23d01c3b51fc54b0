"""Domain-adversarial training (gradient reversal) from clean street signs to dusk street signs."""

import argparse
import itertools
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.strength * grad, None


def conv(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1),
        nn.BatchNorm2d(cout),
        nn.ReLU(),
        nn.Conv2d(cout, cout, 3, padding=1),
        nn.BatchNorm2d(cout),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


class Features(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.body = nn.Sequential(
            conv(3, width),
            conv(width, 2 * width),
            conv(2 * width, 4 * width),
            conv(4 * width, 4 * width),
        )
        self.out = nn.Linear(4 * width * 16, 1024)

    def forward(self, x):
        return F.relu(self.out(self.body(x).flatten(1)))


def signs(n, classes, shift):
    y = torch.randint(0, classes, (n,))
    x = torch.randn(n, 3, 64, 64).mul_(0.3)
    x += (y.float() / classes).view(-1, 1, 1, 1) + shift
    return TensorDataset(x, y)


@torch.no_grad()
def test(feat, head, loader, device):
    feat.eval(), head.eval()
    good = total = 0
    for x, y in loader:
        out = head(feat(x.to(device)))
        good += (out.argmax(1).cpu() == y).sum().item()
        total += len(y)
    feat.train(), head.train()
    return 100.0 * good / total


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--n", type=int, default=2700)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--classes", type=int, default=43)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--device", default="cuda")
    a = ap.parse_args()
    torch.manual_seed(0)

    source = DataLoader(signs(a.n, a.classes, 0.0), a.batch, shuffle=True, drop_last=True)
    target = DataLoader(signs(a.n // 2, a.classes, -0.4), a.batch, shuffle=True, drop_last=True)
    held = DataLoader(signs(a.n // 3, a.classes, -0.4), 1000)

    feat = Features().to(a.device)
    label_head = nn.Sequential(
        nn.Linear(1024, 512), nn.ReLU(), nn.Dropout(0.5), nn.Linear(512, a.classes)
    ).to(a.device)
    domain_head = nn.Sequential(
        nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1)
    ).to(a.device)
    opt_task = torch.optim.Adam(
        itertools.chain(feat.parameters(), label_head.parameters()), lr=a.lr
    )
    opt_domain = torch.optim.Adagrad(domain_head.parameters(), lr=a.lr * 10)

    steps, k = a.epochs * len(source), 0
    for epoch in range(a.epochs):
        other = itertools.cycle(target)
        for xs, ys in source:
            xt, _ = next(other)
            xs, ys, xt = xs.to(a.device), ys.to(a.device), xt.to(a.device)
            strength = 2 / (1 + math.exp(-10 * k / steps)) - 1
            fs, ft = feat(xs), feat(xt)
            task = F.cross_entropy(label_head(fs), ys)
            d = domain_head(Reverse.apply(torch.cat([fs, ft]), strength)).squeeze(1)
            which = torch.cat([torch.ones(len(fs)), torch.zeros(len(ft))]).to(a.device)
            domain = F.binary_cross_entropy_with_logits(d, which)
            opt_task.zero_grad()
            opt_domain.zero_grad()
            (task + domain).backward()
            opt_task.step()
            opt_domain.step()
            k += 1
            if k % 5 == 0:
                print(
                    f"{k}/{steps} task {task.item():.3f} domain {domain.item():.3f} reversal {strength:.2f}"
                )
        print(f"epoch {epoch} accuracy at dusk {test(feat, label_head, held, a.device):.1f}%")
    torch.save([feat.state_dict(), label_head.state_dict()], "dann.pt")
