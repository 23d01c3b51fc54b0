"""Mark P waves, QRS complexes and T waves in twelve-lead ECGs with a 1-D U-Net under torch.compile; fp32, cross entropy plus soft Dice, EMA of the weights for the test."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn

WAVES = 4  # nothing, P, QRS, T


def double(a, b, kernel=9):
    return nn.Sequential(
        nn.Conv1d(a, b, kernel, padding=kernel // 2, bias=False),
        nn.BatchNorm1d(b),
        nn.GELU(),
        nn.Conv1d(b, b, kernel, padding=kernel // 2, bias=False),
        nn.BatchNorm1d(b),
        nn.GELU(),
    )


class UNet1d(nn.Module):
    def __init__(self, leads, width, depth):
        super().__init__()
        sizes = [width * min(2**i, 8) for i in range(depth + 1)]
        self.down = nn.ModuleList(double(a, b) for a, b in zip([leads, *sizes], sizes))
        self.up = nn.ModuleList(double(a + b, b) for a, b in zip(sizes[:0:-1], sizes[-2::-1]))
        self.out = nn.Conv1d(width, WAVES, 1)

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool1d(x, 2) if i else x)
            kept.append(x)
        kept.pop()
        for block in self.up:
            skip = kept.pop()
            x = block(torch.cat([F.interpolate(x, size=skip.size(-1)), skip], 1))
        return self.out(x)


def ecgs(n, leads, samples, seed):
    """Beats at a steady rate, each with three bumps."""
    g = torch.Generator().manual_seed(seed)
    period = torch.randint(300, 500, (n, 1), generator=g)
    phase = (torch.arange(samples)[None] + torch.randint(0, 300, (n, 1), generator=g)) % period
    marks = torch.zeros(n, samples, dtype=torch.long)
    wave = torch.zeros(n, samples)
    for kind, (start, end, height) in enumerate(
        ((40, 90, 0.2), (110, 150, 1.0), (190, 280, 0.3)), 1
    ):
        inside = (phase >= start) & (phase < end)
        marks[inside] = kind
        wave[inside] = height * torch.sin((phase[inside] - start) * math.pi / (end - start))
    gains = torch.randn(n, leads, 1, generator=g)
    return wave[:, None] * gains + 0.05 * torch.randn(n, leads, samples, generator=g), marks


def dice_loss(logits, marks):
    p = logits.softmax(1)
    one_hot = F.one_hot(marks, WAVES).transpose(1, 2).float()
    both = (p * one_hot).sum((0, 2))
    return 1 - ((2 * both + 1) / (p.sum((0, 2)) + one_hot.sum((0, 2)) + 1)).mean()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--leads", type=int, default=12)
    p.add_argument("--samples", type=int, default=5000)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--depth", type=int, default=4)
    p.add_argument("--batch", type=int, default=96)
    p.add_argument("--records", type=int, default=384)
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--no-compile", action="store_true")
    a = p.parse_args()
    torch.manual_seed(120)

    net = UNet1d(a.leads, a.width, a.depth).to(a.device)
    average = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.95))
    run = net if a.no_compile else torch.compile(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    x, y = ecgs(a.records, a.leads, a.samples, 1)
    test_x, test_y = ecgs(a.batch, a.leads, a.samples, 2)
    for epoch in range(a.epochs):
        total = 0.0
        for pick in torch.randperm(len(x)).split(a.batch):
            if len(pick) < a.batch:
                continue
            signal, marks = x[pick].to(a.device), y[pick].to(a.device)
            logits = run(signal)
            loss = F.cross_entropy(logits, marks) + dice_loss(logits, marks)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            average.update_parameters(net)
            total += loss.item()
        print(f"epoch {epoch} loss {total / max(1, len(x) // a.batch):.4f}")

    update_bn((chunk for chunk in x[: 2 * a.batch].split(a.batch)), average, device=a.device)
    average.eval()
    with torch.no_grad():
        guess = average(test_x.to(a.device)).argmax(1).cpu()
    for kind, name in enumerate(("nothing", "P", "QRS", "T")):
        both = ((guess == kind) & (test_y == kind)).sum().item()
        either = ((guess == kind) | (test_y == kind)).sum().item()
        print(f"{name}: IoU {both / max(either, 1):.3f}")


if __name__ == "__main__":
    main()
