"""E(n)-equivariant graph network written by hand: energies of small molecules."""

import argparse
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader


def molecules(n, seed):
    g = torch.Generator().manual_seed(seed)
    out = []
    for _ in range(n):
        atoms = int(torch.randint(9, 30, (), generator=g))
        kind = torch.randint(0, 5, (atoms,), generator=g)
        pos = torch.randn(atoms, 3, generator=g) * 2
        out.append((kind, pos, (kind.float() + 1).log().sum() + pos.norm(dim=1).mean()))
    return out


def collate(batch):
    kinds, poss, ys = zip(*batch)
    src, dst, graph, offset = [], [], [], 0
    for b, k in enumerate(kinds):
        n = len(k)
        i, j = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
        keep = i != j
        src.append(i[keep] + offset)
        dst.append(j[keep] + offset)
        graph.append(torch.full((n,), b))
        offset += n
    return (
        torch.cat(kinds),
        torch.cat(poss),
        torch.stack([torch.cat(src), torch.cat(dst)]),
        torch.cat(graph),
        torch.stack(ys),
    )


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(2 * d + 1, d), nn.SiLU(), nn.Linear(d, d), nn.SiLU())
        self.gate = nn.Sequential(nn.Linear(d, 1), nn.Sigmoid())
        self.coord = nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, 1, bias=False))
        self.node = nn.Sequential(nn.Linear(2 * d, d), nn.SiLU(), nn.Linear(d, d))

    def forward(self, h, x, edges):
        i, j = edges
        diff = x[i] - x[j]
        dist = diff.pow(2).sum(1, keepdim=True)
        m = self.edge(torch.cat([h[i], h[j], dist], 1))
        m = m * self.gate(m)
        shift = diff / (dist.sqrt() + 1) * self.coord(m)
        x = x + torch.zeros_like(x).index_add_(0, i, shift) / 20
        agg = torch.zeros_like(h).index_add_(0, i, m)
        return h + self.node(torch.cat([h, agg], 1)), x


class EGNN(nn.Module):
    def __init__(self, d, layers):
        super().__init__()
        self.emb = nn.Embedding(5, d)
        self.layers = nn.ModuleList(Layer(d) for _ in range(layers))
        self.read = nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, 1))

    def forward(self, kind, pos, edges, graph, count):
        h, x = self.emb(kind), pos
        for layer in self.layers:
            h, x = layer(h, x, edges)
        e = self.read(h).squeeze(1)
        return torch.zeros(count, device=e.device).index_add_(0, graph, e)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--molecules", type=int, default=3000)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--dim", type=int, default=128)
    ap.add_argument("--layers", type=int, default=7)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--workers", type=int, default=2)
    args = ap.parse_args()
    torch.manual_seed(77)
    device = torch.device("cuda")
    train = DataLoader(
        molecules(args.molecules, 0),
        args.batch,
        shuffle=True,
        collate_fn=collate,
        num_workers=args.workers,
    )
    val = DataLoader(molecules(args.molecules // 6, 1), args.batch, collate_fn=collate)
    mean = torch.stack([m[2] for m in train.dataset]).mean().item()
    std = torch.stack([m[2] for m in train.dataset]).std().item()
    model = EGNN(args.dim, args.layers).to(device)
    shadow = copy.deepcopy(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-12, amsgrad=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)

    for epoch in range(args.epochs):
        model.train()
        for i, batch in enumerate(train):
            kind, pos, edges, graph, y = [t.to(device) for t in batch]
            pred = model(kind, pos, edges, graph, len(y))
            loss = (pred - (y - mean) / std).abs().mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            opt.step()
            with torch.no_grad():
                torch._foreach_lerp_(list(shadow.parameters()), list(model.parameters()), 0.05)
            if i % 5 == 0:
                print(
                    f"epoch {epoch} {i}/{len(train)} edges {edges.shape[1]} loss {loss.item():.4f}"
                )
        sched.step()
        shadow.eval()
        err = n = 0
        with torch.no_grad():
            for batch in val:
                kind, pos, edges, graph, y = [t.to(device) for t in batch]
                err += (shadow(kind, pos, edges, graph, len(y)) * std + mean - y).abs().sum().item()
                n += len(y)
        print(f"epoch {epoch} MAE of the averaged weights {err / n:.4f}")
    torch.save(
        {"model": model.state_dict(), "ema": shadow.state_dict(), "mean": mean, "std": std},
        "egnn.pt",
    )


if __name__ == "__main__":
    main()
