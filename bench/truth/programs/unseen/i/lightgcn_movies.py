"""LightGCN on a synthetic user-movie graph: sparse propagation, BPR loss, full-ranking recall@20."""

import argparse
import time

import torch
import torch.nn.functional as F


def make_graph(users, items, edges, device):
    u = torch.randint(0, users, (edges,))
    i = (torch.rand(edges) ** 2 * items).long().clamp(max=items - 1)
    n = users + items
    src = torch.cat([u, i + users])
    dst = torch.cat([i + users, u])
    deg = torch.bincount(src, minlength=n).clamp(min=1).float()
    val = deg[src].rsqrt() * deg[dst].rsqrt()
    adj = torch.sparse_coo_tensor(torch.stack([src, dst]), val, (n, n)).coalesce().to(device)
    return u, i, adj


class LightGCN(torch.nn.Module):
    def __init__(self, users, items, dim, layers):
        super().__init__()
        self.users, self.layers = users, layers
        self.table = torch.nn.Parameter(torch.empty(users + items, dim))
        torch.nn.init.normal_(self.table, std=0.1)

    def forward(self, adj):
        x, outs = self.table, [self.table]
        for _ in range(self.layers):
            x = torch.sparse.mm(adj, x)
            outs.append(x)
        mean = torch.stack(outs).mean(0)
        return mean[: self.users], mean[self.users :]


@torch.no_grad()
def recall_at(model, adj, users, held_u, held_i, k=20, chunk=2000):
    model.eval()
    ue, ie = model(adj)
    truth = {}
    for a, b in zip(held_u.tolist(), held_i.tolist()):
        truth.setdefault(a, set()).add(b)
    hit = total = 0
    for start in range(0, users, chunk):
        scores = ue[start : start + chunk] @ ie.t()
        top = scores.topk(k, dim=1).indices.cpu()
        for row, uid in zip(top, range(start, min(start + chunk, users))):
            if uid in truth:
                hit += len(truth[uid] & set(row.tolist()))
                total += len(truth[uid])
    return hit / max(total, 1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--users", type=int, default=400_000)
    p.add_argument("--items", type=int, default=60_000)
    p.add_argument("--edges", type=int, default=4_000_000)
    p.add_argument("--dim", type=int, default=128)
    p.add_argument("--layers", type=int, default=3)
    p.add_argument("--batch", type=int, default=65536)
    p.add_argument("--steps", type=int, default=10)
    args = p.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    u, i, adj = make_graph(args.users, args.items, args.edges, device)
    u, i = u.to(device), i.to(device)
    model = LightGCN(args.users, args.items, args.dim, args.layers).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        t0 = time.time()
        model.train()
        e = torch.randint(0, len(u), (args.batch,), device=device)
        neg = torch.randint(0, args.items, (args.batch,), device=device)
        ue, ie = model(adj)
        pu, pi, ni = ue[u[e]], ie[i[e]], ie[neg]
        bpr = -F.logsigmoid((pu * pi).sum(1) - (pu * ni).sum(1)).mean()
        ego = model.table
        reg = (
            ego[u[e]].pow(2).sum()
            + ego[args.users + i[e]].pow(2).sum()
            + ego[args.users + neg].pow(2).sum()
        ) / (2 * args.batch)
        loss = bpr + 1e-4 * reg
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} bpr {bpr.item():.4f} {time.time() - t0:.2f}s")
    sub = min(4000, args.users)
    keep = u[:200_000] < sub
    print("recall@20", recall_at(model, adj, sub, u[:200_000][keep].cpu(), i[:200_000][keep].cpu()))
    torch.save(model.state_dict(), "lightgcn.pt")


if __name__ == "__main__":
    main()
