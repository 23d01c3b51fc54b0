"""Day-ahead electricity load: GRU encoder-decoder with additive attention and scheduled sampling."""

import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class LoadWindows(Dataset):
    def __init__(self, meters, hours, history, horizon, stride):
        t = torch.arange(hours).float()
        phase = torch.rand(meters, 1) * 24
        self.load = (
            1 + 0.5 * torch.sin(2 * math.pi * (t + phase) / 24) + 0.1 * torch.randn(meters, hours)
        )
        self.cal = torch.stack(
            [
                torch.sin(2 * math.pi * t / 24),
                torch.cos(2 * math.pi * t / 24),
                torch.sin(2 * math.pi * t / 168),
                torch.cos(2 * math.pi * t / 168),
            ],
            1,
        )
        self.history, self.horizon = history, horizon
        self.index = [
            (m, s) for m in range(meters) for s in range(0, hours - history - horizon, stride)
        ]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        m, s = self.index[i]
        h, e = s + self.history, s + self.history + self.horizon
        past = torch.cat([self.load[m, s:h, None], self.cal[s:h]], 1)
        return m, past, self.cal[h:e], self.load[m, h:e]


class Seq2Seq(nn.Module):
    def __init__(self, meters, hidden=384, emb=32):
        super().__init__()
        self.embed = nn.Embedding(meters, emb)
        self.encoder = nn.GRU(
            5 + emb, hidden, num_layers=2, batch_first=True, dropout=0.1, bidirectional=True
        )
        self.bridge = nn.Linear(2 * hidden, hidden)
        self.keys = nn.Linear(2 * hidden, hidden, bias=False)
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)
        self.cell = nn.GRUCell(1 + 4 + emb + 2 * hidden, hidden)
        self.out = nn.Linear(3 * hidden, 1)

    def forward(self, meter, past, future, target=None, teacher=0.0):
        e = self.embed(meter)
        enc, h = self.encoder(torch.cat([past, e[:, None].expand(-1, past.size(1), -1)], -1))
        state = torch.tanh(self.bridge(torch.cat([h[-1], h[-2]], -1)))
        keys = self.keys(enc)
        y = past[:, -1, :1]
        preds = []
        for t in range(future.size(1)):
            w = self.score(torch.tanh(keys + self.query(state)[:, None])).softmax(1)
            ctx = (w * enc).sum(1)
            state = self.cell(torch.cat([y, future[:, t], e, ctx], -1), state)
            p = self.out(torch.cat([state, ctx], -1))
            preds.append(p)
            y = (
                target[:, t : t + 1]
                if target is not None and torch.rand(()).item() < teacher
                else p.detach()
            )
        return torch.cat(preds, 1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--meters", type=int, default=40)
    ap.add_argument("--history", type=int, default=168)
    ap.add_argument("--horizon", type=int, default=24)
    ap.add_argument("--batch-size", type=int, default=256)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--stride", type=int, default=24)
    args = ap.parse_args()
    torch.manual_seed(77)
    dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = DataLoader(
        LoadWindows(args.meters, 24 * 45, args.history, args.horizon, args.stride),
        args.batch_size,
        shuffle=True,
    )
    valid = DataLoader(
        LoadWindows(args.meters, 24 * 20, args.history, args.horizon, args.stride * 2),
        args.batch_size * 2,
    )
    model = Seq2Seq(args.meters).to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.StepLR(opt, 1, 0.7)
    loss_fn = nn.SmoothL1Loss()
    best = float("inf")
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        teacher = max(0.2, 0.9 - 0.3 * epoch)
        for batch in train:
            meter, past, future, target = (b.to(dev) for b in batch)
            loss = loss_fn(model(meter, past, future, target, teacher), target)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            opt.step()
            total += loss.item()
        sched.step()
        model.eval()
        err = n = 0
        with torch.no_grad():
            for batch in valid:
                meter, past, future, target = (b.to(dev) for b in batch)
                pred = model(meter, past, future)
                err += ((pred - target).abs() / target.abs().clamp(min=0.1)).sum().item()
                n += target.numel()
        print(
            f"epoch {epoch} loss {total / len(train):.4f} mape {err / n:.3f} teacher {teacher:.1f}"
        )
        if err / n < best:
            best = err / n
            torch.save(model.state_dict(), "load_best.pt")


if __name__ == "__main__":
    main()
