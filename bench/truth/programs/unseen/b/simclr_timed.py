"""SimCLR with Lion and a time budget: two views on the GPU, NT-Xent, then a linear probe on frozen features."""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models import resnet18


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.mul_(1 - group["lr"] * group["weight_decay"])
                state = self.state[p]
                if not state:
                    state["exp_avg"] = torch.zeros_like(p)
                m = state["exp_avg"]
                update = m * b1 + p.grad * (1 - b1)
                p.add_(update.sign_(), alpha=-group["lr"])
                m.mul_(b2).add_(p.grad, alpha=1 - b2)
        return loss


class SimCLR(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.backbone = resnet18(weights=None)
        self.backbone.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        self.backbone.maxpool = nn.Identity()
        self.backbone.fc = nn.Identity()
        self.projector = nn.Sequential(
            nn.Linear(512, 512), nn.ReLU(inplace=True), nn.Linear(512, dim)
        )

    def forward(self, x):
        return F.normalize(self.projector(self.backbone(x)), dim=-1)


def augment(x):
    """Flip, shift, scale brightness and add noise, for the whole batch at once."""
    x = torch.where(torch.rand(len(x), 1, 1, 1, device=x.device) < 0.5, x.flip(-1), x)
    theta = torch.zeros(len(x), 2, 3, device=x.device)
    scale = 0.6 + 0.4 * torch.rand(len(x), device=x.device)
    theta[:, 0, 0] = theta[:, 1, 1] = scale
    theta[:, :, 2] = (torch.rand(len(x), 2, device=x.device) - 0.5) * (1 - scale)[:, None]
    grid = F.affine_grid(theta, x.shape, align_corners=False)
    x = F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)
    x = x * (0.6 + 0.8 * torch.rand(len(x), 1, 1, 1, device=x.device))
    return x + 0.05 * torch.randn_like(x)


def nt_xent(a, b, temperature=0.5):
    z = torch.cat([a, b])
    similarity = z @ z.T / temperature
    similarity.fill_diagonal_(float("-inf"))
    n = len(a)
    target = torch.cat([torch.arange(n, 2 * n), torch.arange(n)]).to(z.device)
    return F.cross_entropy(similarity, target)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=8192)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--max-steps", type=int, default=60)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--probe-steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(77)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images = torch.rand(args.images, 3, 32, 32)
    labels = torch.randint(0, 10, (args.images,))
    model = SimCLR(args.dim).to(device)
    optimizer = Lion(model.parameters(), lr=3e-4, weight_decay=1e-2)
    deadline = time.monotonic() + args.minutes * 60
    step, smooth = 0, None
    while time.monotonic() < deadline:
        index = torch.randint(0, args.images, (args.batch,))
        x = images[index].to(device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            a, b = model(augment(x)), model(augment(x))
        loss = nt_xent(a.float(), b.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        smooth = loss.item() if smooth is None else 0.9 * smooth + 0.1 * loss.item()
        step += 1
        if step % 10 == 0:
            print(f"step {step}: {smooth:.4f}")
        if step >= args.max_steps:
            break
    model.eval()
    with torch.no_grad():
        features = torch.cat([model.backbone(part.to(device)) for part in images.split(1024)])
    probe = nn.Linear(512, 10).to(device)
    targets = labels.to(device)
    fit = torch.optim.LBFGS(probe.parameters(), lr=0.5, max_iter=args.probe_steps)

    def closure():
        fit.zero_grad()
        loss = F.cross_entropy(probe(features), targets)
        loss.backward()
        return loss

    fit.step(closure)
    print(f"probe accuracy {(probe(features).argmax(1) == targets).float().mean():.3f}")


if __name__ == "__main__":
    main()
