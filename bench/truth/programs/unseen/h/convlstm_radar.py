"""Precipitation nowcasting: ConvLSTM encoder and forecaster, scheduled sampling."""

import argparse
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Radar(Dataset):
    """Rain cells that drift across the map."""

    def __init__(self, n, frames, size):
        self.n, self.frames, self.size = n, frames, size

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        field = torch.rand(1, 1, 8, 8, generator=g).pow(3)
        field = F.interpolate(
            field, size=(self.size, self.size), mode="bilinear", align_corners=False
        )[0]
        dy, dx = torch.randint(-3, 4, (2,), generator=g).tolist()
        return torch.stack(
            [torch.roll(field, (dy * t, dx * t), (1, 2)) for t in range(self.frames)]
        )


class Cell(nn.Module):
    def __init__(self, cin, hid, kernel=3):
        super().__init__()
        self.hid = hid
        self.conv = nn.Conv2d(cin + hid, 4 * hid, kernel, padding=kernel // 2)
        self.norm = nn.GroupNorm(4 * hid // 32, 4 * hid)

    def forward(self, x, state):
        h, c = state
        i, f, o, g = self.norm(self.conv(torch.cat([x, h], 1))).chunk(4, 1)
        c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, (h, c)

    def zero(self, x):
        z = x.new_zeros(x.shape[0], self.hid, x.shape[2], x.shape[3])
        return z, z


class Nowcaster(nn.Module):
    def __init__(self, hidden=(64, 64), patch=2):
        super().__init__()
        self.patch = patch
        cin = [patch * patch] + list(hidden[:-1])
        self.cells = nn.ModuleList(Cell(a, b) for a, b in zip(cin, hidden))
        self.out = nn.Conv2d(sum(hidden), patch * patch, 1)

    def forward(self, past, horizon, future=None, teacher=0.0):
        b, t = past.shape[:2]
        x = F.pixel_unshuffle(past.flatten(0, 1), self.patch).unflatten(0, (b, t))
        y = (
            None
            if future is None
            else F.pixel_unshuffle(future.flatten(0, 1), self.patch).unflatten(0, (b, horizon))
        )
        states = [c.zero(x[:, 0]) for c in self.cells]
        preds, frame = [], x[:, 0]
        for k in range(t + horizon - 1):
            if k < t:
                frame = x[:, k]
            elif y is not None and torch.rand(()).item() < teacher:
                frame = y[:, k - t]
            hs, h = [], frame
            for n, cell in enumerate(self.cells):
                h, states[n] = cell(h, states[n])
                hs.append(h)
            frame = torch.sigmoid(self.out(torch.cat(hs, 1)))
            if k >= t - 1:
                preds.append(frame)
        return F.pixel_shuffle(torch.stack(preds, 1), self.patch)


def csi(pred, true, threshold=0.3):
    p, t = pred > threshold, true > threshold
    return ((p & t).sum() / (p | t).sum().clamp(min=1)).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", type=int, default=128)
    ap.add_argument("--past", type=int, default=8)
    ap.add_argument("--horizon", type=int, default=8)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--sequences", type=int, default=170)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--workers", type=int, default=2)
    args = ap.parse_args()
    torch.manual_seed(6)
    device = torch.device("cuda")
    frames = args.past + args.horizon
    train = DataLoader(
        Radar(args.sequences, frames, args.size), args.batch, shuffle=True, num_workers=args.workers
    )
    val = DataLoader(Radar(40, frames, args.size), 20, num_workers=args.workers)
    model = Nowcaster().to(device)
    opt = torch.optim.RAdam(model.parameters(), lr=1e-3)

    for epoch in range(args.epochs):
        model.train()
        teacher = max(0.0, 0.5 - 0.5 * epoch)
        t0 = time.time()
        for i, seq in enumerate(train):
            seq = seq.to(device)
            past, future = seq[:, : args.past], seq[:, args.past :]
            pred = model(past, args.horizon, future, teacher)
            weight = 1 + 4 * (future > 0.3)
            loss = (weight * (pred - future).abs()).mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            if i % 4 == 0:
                print(f"epoch {epoch} {i}/{len(train)} loss {loss.item():.4f}")
        model.eval()
        with torch.no_grad():
            scores = [
                csi(model(s[:, : args.past].to(device), args.horizon), s[:, args.past :].to(device))
                for s in val
            ]
        print(f"epoch {epoch} CSI {sum(scores) / len(scores):.3f} {time.time() - t0:.1f}s")
        torch.save(model.state_dict(), "nowcaster.pt")


if __name__ == "__main__":
    main()
