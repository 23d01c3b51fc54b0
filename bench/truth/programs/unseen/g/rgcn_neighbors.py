"""Relational GCN over sampled neighbourhoods. The sampler is written by hand (CSR in numpy, in the workers)."""

import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
from torch_geometric.nn import RGCNConv


class CSRGraph:
    def __init__(self, num_nodes, num_edges, num_relations, seed=0):
        rng = np.random.default_rng(seed)
        dst = rng.integers(0, num_nodes, num_edges)
        # popular nodes are cited more
        src = (num_nodes * rng.random(num_edges) ** 2).astype(np.int64)
        rel = rng.integers(0, num_relations, num_edges)
        order = np.argsort(dst, kind="stable")
        self.indices, self.rel = src[order], rel[order]
        self.indptr = np.zeros(num_nodes + 1, dtype=np.int64)
        np.cumsum(np.bincount(dst, minlength=num_nodes), out=self.indptr[1:])
        self.num_nodes = num_nodes


class NeighborCollate:
    """Seeds -> (all nodes, edges, relation types, number of seeds). Seeds come first."""

    def __init__(self, graph, fanouts):
        self.graph, self.fanouts = graph, fanouts

    def __call__(self, seeds):
        g = self.graph
        rng = np.random.default_rng(np.random.randint(1 << 31))
        seeds = np.asarray(seeds)
        frontier, nodes = seeds, [seeds]
        srcs, dsts, rels = [], [], []
        for fanout in self.fanouts:
            deg = g.indptr[frontier + 1] - g.indptr[frontier]
            keep = deg > 0
            f, d = frontier[keep], deg[keep]
            pick = (rng.random((len(f), fanout)) * d[:, None]).astype(np.int64) + g.indptr[f][
                :, None
            ]
            pick = np.unique(pick)
            dst_of = np.searchsorted(g.indptr, pick, side="right") - 1
            srcs.append(g.indices[pick])
            dsts.append(dst_of)
            rels.append(g.rel[pick])
            frontier = np.unique(g.indices[pick])
            nodes.append(frontier)
        rest = np.setdiff1d(np.concatenate(nodes[1:]), seeds)
        all_nodes = np.concatenate([seeds, rest])
        lookup = np.full(g.num_nodes, -1, dtype=np.int64)
        lookup[all_nodes] = np.arange(len(all_nodes))
        edge_index = np.stack([lookup[np.concatenate(srcs)], lookup[np.concatenate(dsts)]])
        return (
            torch.from_numpy(all_nodes),
            torch.from_numpy(edge_index),
            torch.from_numpy(np.concatenate(rels)),
            len(seeds),
        )


class RGCN(nn.Module):
    def __init__(self, num_nodes, dim, hidden, classes, relations, bases, layers):
        super().__init__()
        self.emb = nn.Embedding(num_nodes, dim)
        nn.init.normal_(self.emb.weight, std=0.1)
        sizes = [dim] + [hidden] * layers
        self.convs = nn.ModuleList(
            [RGCNConv(a, b, relations, num_bases=bases) for a, b in zip(sizes, sizes[1:])]
        )
        self.norms = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(layers)])
        self.out = nn.Linear(hidden, classes)

    def forward(self, n_id, edge_index, edge_type, seeds):
        x = self.emb(n_id)
        for conv, norm in zip(self.convs, self.norms):
            x = F.dropout(F.relu(norm(conv(x, edge_index, edge_type))), 0.3, self.training)
        return self.out(x[:seeds])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--nodes", type=int, default=600_000)
    ap.add_argument("--edges", type=int, default=6_000_000)
    ap.add_argument("--relations", type=int, default=8)
    ap.add_argument("--dim", type=int, default=128)
    ap.add_argument("--hidden", type=int, default=256)
    ap.add_argument("--classes", type=int, default=50)
    ap.add_argument("--bases", type=int, default=4)
    ap.add_argument("--fanouts", default="15,10")
    ap.add_argument("--batch", type=int, default=1024)
    ap.add_argument("--eval-batch", type=int, default=2048)
    ap.add_argument("--train-nodes", type=int, default=40_000)
    ap.add_argument("--val-nodes", type=int, default=10_000)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--workers", type=int, default=6)
    args = ap.parse_args()
    device = torch.device("cuda")

    torch.manual_seed(0)
    graph = CSRGraph(args.nodes, args.edges, args.relations)
    labels = torch.randint(0, args.classes, (args.nodes,)).to(device)
    perm = torch.randperm(args.nodes)
    train_ids = perm[: args.train_nodes].tolist()
    val_ids = perm[args.train_nodes : args.train_nodes + args.val_nodes].tolist()
    collate = NeighborCollate(graph, [int(f) for f in args.fanouts.split(",")])
    train_loader = DataLoader(
        train_ids, batch_size=args.batch, shuffle=True, collate_fn=collate, num_workers=args.workers
    )
    val_loader = DataLoader(
        val_ids, batch_size=args.eval_batch, collate_fn=collate, num_workers=args.workers
    )

    layers = len(args.fanouts.split(","))
    model = RGCN(
        args.nodes, args.dim, args.hidden, args.classes, args.relations, args.bases, layers
    ).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=0.005)
    for epoch in range(args.epochs):
        t0, total, biggest = time.time(), 0.0, 0
        model.train()
        for it, (n_id, edge_index, edge_type, seeds) in enumerate(train_loader):
            n_id, edge_index, edge_type = (
                n_id.to(device),
                edge_index.to(device),
                edge_type.to(device),
            )
            biggest = max(biggest, edge_index.shape[1])
            out = model(n_id, edge_index, edge_type, seeds)
            loss = F.cross_entropy(out, labels[n_id[:seeds]])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        model.eval()
        correct = count = 0
        with torch.no_grad():
            for n_id, edge_index, edge_type, seeds in val_loader:
                n_id = n_id.to(device)
                out = model(n_id, edge_index.to(device), edge_type.to(device), seeds)
                correct += (out.argmax(1) == labels[n_id[:seeds]]).sum().item()
                count += seeds
        print(
            f"epoch {epoch}: loss {total / len(train_loader):.4f}, val acc {correct / count:.4f}, "
            f"largest block {biggest} edges, {time.time() - t0:.1f}s"
        )


if __name__ == "__main__":
    main()
