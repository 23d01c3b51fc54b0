"""Temporal fusion transformer (trimmed) for electricity load: variable selection, LSTM, attention, quantile loss."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

QUANTILES = [0.1, 0.5, 0.9]


class LoadCurves(Dataset):
    def __init__(self, customers, hours, history, horizon, start, stop, n_covariates):
        rng = np.random.RandomState(5)
        t = np.arange(hours)
        base = rng.rand(customers, 1) * 3 + 1
        daily = np.sin(2 * np.pi * (t / 24 + rng.rand(customers, 1)))
        weekly = np.cos(2 * np.pi * t / 168)
        self.load = (base + daily + 0.5 * weekly + 0.1 * rng.randn(customers, hours)).astype(
            np.float32
        )
        cov = [np.sin(2 * np.pi * t / p) for p in (24, 168, 12)] + [
            rng.randn(hours) for _ in range(n_covariates - 3)
        ]
        self.cov = np.stack(cov, 1).astype(np.float32)
        self.history, self.horizon, self.start = history, horizon, start
        self.per = stop - start - history - horizon
        self.customers = customers

    def __len__(self):
        return self.customers * self.per

    def __getitem__(self, i):
        c, off = divmod(i, self.per)
        a = self.start + off
        b, e = a + self.history, a + self.history + self.horizon
        past = self.load[c, a:b]
        scale = np.abs(past).mean() + 1e-3
        return past / scale, self.cov[a:e], self.load[c, b:e] / scale, c, np.float32(scale)


class GRN(nn.Module):
    """Gated residual network."""

    def __init__(self, inp, hidden, out=None, context=None, dropout=0.1):
        super().__init__()
        out = out or inp
        self.skip = nn.Linear(inp, out) if inp != out else nn.Identity()
        self.fc1 = nn.Linear(inp, hidden)
        self.ctx = nn.Linear(context, hidden, bias=False) if context else None
        self.fc2 = nn.Linear(hidden, hidden)
        self.gate = nn.Linear(hidden, 2 * out)
        self.drop, self.norm = nn.Dropout(dropout), nn.LayerNorm(out)

    def forward(self, x, c=None):
        h = self.fc1(x)
        if self.ctx is not None and c is not None:
            h = h + self.ctx(c).unsqueeze(1) if x.dim() == 3 else h + self.ctx(c)
        h = self.drop(self.fc2(F.elu(h)))
        return self.norm(self.skip(x) + F.glu(self.gate(h), dim=-1))


class VariableSelection(nn.Module):
    def __init__(self, n_vars, d):
        super().__init__()
        self.lift = nn.ModuleList([nn.Linear(1, d) for _ in range(n_vars)])
        self.each = nn.ModuleList([GRN(d, d) for _ in range(n_vars)])
        self.weights = GRN(n_vars * d, d, n_vars, context=d)

    def forward(self, x, static):
        lifted = [lin(x[..., i : i + 1]) for i, lin in enumerate(self.lift)]
        w = torch.softmax(self.weights(torch.cat(lifted, -1), static), dim=-1)
        out = torch.stack([g(v) for g, v in zip(self.each, lifted)], dim=-1)
        return (out * w.unsqueeze(-2)).sum(-1), w


class TFT(nn.Module):
    def __init__(self, customers, n_cov, d, heads, history, horizon):
        super().__init__()
        self.history = history
        self.static = nn.Embedding(customers, d)
        self.past_select = VariableSelection(n_cov + 1, d)
        self.future_select = VariableSelection(n_cov, d)
        self.h0, self.c0 = GRN(d, d), GRN(d, d)
        self.encoder = nn.LSTM(d, d, batch_first=True)
        self.decoder = nn.LSTM(d, d, batch_first=True)
        self.gate1, self.norm1 = nn.Linear(d, 2 * d), nn.LayerNorm(d)
        self.enrich = GRN(d, d, context=d)
        self.attn = nn.MultiheadAttention(d, heads, dropout=0.1, batch_first=True)
        self.gate2, self.norm2 = nn.Linear(d, 2 * d), nn.LayerNorm(d)
        self.ff = GRN(d, d)
        self.out = nn.Linear(d, len(QUANTILES))
        total = history + horizon
        self.register_buffer(
            "mask", torch.triu(torch.ones(horizon, total, dtype=torch.bool), diagonal=history + 1)
        )

    def forward(self, past, cov, customer):
        s = self.static(customer)
        x_past, _ = self.past_select(torch.cat([past.unsqueeze(-1), cov[:, : self.history]], -1), s)
        x_fut, w = self.future_select(cov[:, self.history :], s)
        enc, state = self.encoder(x_past, (self.h0(s).unsqueeze(0), self.c0(s).unsqueeze(0)))
        dec, _ = self.decoder(x_fut, state)
        lstm = torch.cat([enc, dec], 1)
        x = self.norm1(F.glu(self.gate1(lstm), -1) + torch.cat([x_past, x_fut], 1))
        x = self.enrich(x, s)
        q = x[:, self.history :]
        a, _ = self.attn(q, x, x, attn_mask=self.mask, need_weights=True)
        x = self.norm2(F.glu(self.gate2(a), -1) + q)
        return self.out(self.ff(x)), w


def quantile_loss(pred, y):
    err = y.unsqueeze(-1) - pred
    q = torch.tensor(QUANTILES, device=pred.device)
    return torch.maximum(q * err, (q - 1) * err).sum(-1).mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--customers", type=int, default=100)
    ap.add_argument("--hours", type=int, default=2000)
    ap.add_argument("--history", type=int, default=168)
    ap.add_argument("--horizon", type=int, default=24)
    ap.add_argument("--cov", type=int, default=8)
    ap.add_argument("--d", type=int, default=160)
    ap.add_argument("--heads", type=int, default=4)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--per-epoch", type=int, default=10000)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--workers", type=int, default=4)
    args = ap.parse_args()
    device = "cuda"
    torch.manual_seed(1)

    split = int(args.hours * 0.85)
    train = LoadCurves(args.customers, args.hours, args.history, args.horizon, 0, split, args.cov)
    val = LoadCurves(
        args.customers, args.hours, args.history, args.horizon, split, args.hours, args.cov
    )
    train_dl = DataLoader(
        train,
        args.batch,
        sampler=RandomSampler(train, num_samples=args.per_epoch),
        num_workers=args.workers,
    )
    val_dl = DataLoader(val, args.batch * 2, num_workers=args.workers)

    model = TFT(args.customers, args.cov, args.d, args.heads, args.history, args.horizon).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.5)
    for epoch in range(args.epochs):
        model.train()
        avg = None
        for i, (past, cov, y, customer, _) in enumerate(train_dl):
            past, cov, y, customer = (
                past.to(device),
                cov.to(device),
                y.to(device),
                customer.to(device),
            )
            with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
                pred, _ = model(past, cov, customer)
            loss = quantile_loss(pred.float(), y)
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            opt.step()
            avg = loss.item() if avg is None else 0.95 * avg + 0.05 * loss.item()
            if i % 10 == 0:
                print(f"[{epoch}:{i:03d}] loss {avg:.4f}")
        sched.step()

        model.eval()
        num, den, inside, count = 0.0, 0.0, 0, 0
        with torch.no_grad():
            for past, cov, y, customer, scale in val_dl:
                pred, w = model(past.to(device), cov.to(device), customer.to(device))
                pred, scale = pred.cpu(), scale[:, None]
                num += ((pred[..., 1] - y).abs() * scale).sum().item()
                den += (y.abs() * scale).sum().item()
                inside += ((y > pred[..., 0]) & (y < pred[..., 2])).sum().item()
                count += y.numel()
        print(
            f"epoch {epoch} ND {num / den:.4f} coverage {inside / count:.3f} weights {w.mean((0, 1)).tolist()[:3]}"
        )


if __name__ == "__main__":
    main()
