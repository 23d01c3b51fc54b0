"""SimCLR on pollen crops (96 x 96) with a ResNet-18, augmentation on the card and a LARS optimizer written here; then a linear probe with LBFGS on the frozen features."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models import resnet18


class LARS(torch.optim.Optimizer):
    """SGD with momentum whose step is scaled per layer by |w| / |g|."""

    def __init__(self, params, lr, momentum=0.9, weight_decay=1e-6, trust=0.001):
        super().__init__(
            params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, trust=trust)
        )

    @torch.no_grad()
    def step(self, closure=None):
        loss = closure() if closure is not None else None
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                update = p.grad
                if p.ndim > 1:
                    update = update.add(p, alpha=group["weight_decay"])
                    weight, size = p.norm(), update.norm()
                    ratio = group["trust"] * weight / size
                    update = update * torch.where((weight > 0) & (size > 0), ratio, 1.0)
                state = self.state[p]
                if "mu" not in state:
                    state["mu"] = torch.zeros_like(p)
                state["mu"].mul_(group["momentum"]).add_(update)
                p.add_(state["mu"], alpha=-group["lr"])
        return loss


def augment(x, side):
    """Random resized crop, flip, brightness, contrast and grey, each per image."""
    n = len(x)
    scale = torch.empty(n, device=x.device).uniform_(0.3, 1.0).sqrt()
    flip = torch.where(torch.rand(n, device=x.device) < 0.5, -1.0, 1.0)
    theta = torch.zeros(n, 2, 3, device=x.device)
    theta[:, 0, 0], theta[:, 1, 1] = scale * flip, scale
    theta[:, :, 2] = (torch.rand(n, 2, device=x.device) * 2 - 1) * (1 - scale)[:, None]
    grid = F.affine_grid(theta, (n, 3, side, side), align_corners=False)
    x = F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)
    bright, contrast = torch.empty(2, n, 1, 1, 1, device=x.device).uniform_(0.6, 1.4)
    x = (x - x.mean((1, 2, 3), keepdim=True)) * contrast + x.mean((1, 2, 3), keepdim=True) * bright
    grey = (torch.rand(n, 1, 1, 1, device=x.device) < 0.2).float()
    return grey * x.mean(1, keepdim=True) + (1 - grey) * x


class SimCLR(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = resnet18(weights=None)
        self.net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.net.maxpool = nn.Identity()
        self.net.fc = nn.Identity()
        self.head = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, dim))

    def forward(self, x):
        return self.head(self.net(x))


def nt_xent(z, temperature):
    z = F.normalize(z.float(), dim=1)
    similarity = z @ z.t() / temperature
    similarity.fill_diagonal_(float("-inf"))
    half = len(z) // 2
    partner = torch.arange(len(z), device=z.device).roll(half)
    return F.cross_entropy(similarity, partner)


def probe(features, labels, classes):
    layer = nn.Linear(features.size(1), classes).to(features.device)
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=30, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(layer(features), labels) + 1e-4 * layer.weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return (layer(features).argmax(1) == labels).float().mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--side", type=int, default=96)
    p.add_argument("--batch", type=int, default=384)
    p.add_argument("--steps", type=int, default=24)
    p.add_argument("--pool", type=int, default=1500)
    p.add_argument("--classes", type=int, default=15)
    p.add_argument("--temperature", type=float, default=0.2)
    a = p.parse_args()
    torch.manual_seed(73)

    g = torch.Generator().manual_seed(0)
    labels = torch.randint(0, a.classes, (a.pool,), generator=g)
    crops = torch.rand(a.pool, 3, 104, 104, generator=g) * 0.5 + labels.view(-1, 1, 1, 1) / 30
    model = SimCLR(128).to(a.device, memory_format=torch.channels_last)
    lr = 0.3 * a.batch / 256
    optimizer = LARS(model.parameters(), lr=lr)

    model.train()
    for step in range(a.steps):
        for group in optimizer.param_groups:
            warm = min(1.0, (step + 1) / 5)
            group["lr"] = lr * warm * 0.5 * (1 + math.cos(math.pi * step / a.steps))
        pick = torch.randperm(a.pool)[: a.batch]
        x = crops[pick].to(a.device)
        views = torch.cat([augment(x, a.side), augment(x, a.side)])
        views = views.contiguous(memory_format=torch.channels_last)
        with torch.autocast(a.device, torch.bfloat16):
            z = model(views)
        loss = nt_xent(z, a.temperature)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")

    model.eval()
    features = []
    with torch.no_grad():
        for chunk in crops.split(500):
            x = F.interpolate(chunk.to(a.device), a.side, mode="bilinear")
            features.append(model.net(x))
    print("probe accuracy", probe(torch.cat(features), labels.to(a.device), a.classes))


if __name__ == "__main__":
    main()
