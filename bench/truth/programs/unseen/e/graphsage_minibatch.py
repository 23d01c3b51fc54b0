"""GraphSAGE in plain torch: neighbours sampled for each batch, features on the GPU, all nodes at once to evaluate."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class SAGEConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.own, self.around = nn.Linear(cin, cout), nn.Linear(cin, cout, bias=False)

    def forward(self, x, edges, targets):
        src, dst = edges
        total = x.new_zeros(targets, x.shape[1]).index_add_(0, dst, x[src])
        degree = torch.zeros(targets, device=x.device).index_add_(
            0, dst, torch.ones(len(dst), device=x.device)
        )
        return self.own(x[:targets]) + self.around(total / degree.clamp(min=1).unsqueeze(1))


class SAGE(nn.Module):
    def __init__(self, cin, hidden, classes, layers):
        super().__init__()
        widths = [cin] + [hidden] * (layers - 1) + [classes]
        self.convs = nn.ModuleList([SAGEConv(a, b) for a, b in zip(widths, widths[1:])])

    def forward(self, x, blocks):
        for i, (edges, targets) in enumerate(blocks):
            x = self.convs[i](x, edges, targets)
            if i < len(self.convs) - 1:
                x = F.dropout(F.relu(x), 0.5, self.training)
        return x


def sample(table, seeds, fanouts):
    """From the seeds outwards: a fixed number of neighbours of each node, drawn with replacement."""
    blocks, nodes = [], seeds
    for fanout in fanouts:
        columns = torch.randint(0, table.shape[1], (len(nodes), fanout))
        neighbours = table[nodes].gather(1, columns).flatten()
        dst = torch.arange(len(nodes)).repeat_interleave(fanout)
        src = torch.arange(len(nodes), len(nodes) + len(neighbours))
        blocks.append((torch.stack([src, dst]), len(nodes)))
        nodes = torch.cat([nodes, neighbours])
    return nodes, blocks[::-1]


def main():
    parser = argparse.ArgumentParser(description="products (GraphSAGE)")
    parser.add_argument("--nodes", type=int, default=400_000)
    parser.add_argument("--degree", type=int, default=8)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--hidden_channels", type=int, default=256)
    parser.add_argument("--num_layers", type=int, default=3)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[15, 10, 5])
    parser.add_argument("--batch_size", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.003)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    classes = 47
    y = torch.randint(0, classes, (args.nodes,))
    x = torch.randn(args.nodes, args.features) + y.unsqueeze(1) / classes
    table = torch.randint(0, args.nodes, (args.nodes, args.degree))
    x, y = x.to(device), y.to(device)
    split = torch.randperm(args.nodes)
    train_idx, test_idx = split[: args.nodes // 2], split[args.nodes // 2 :].to(device)
    model = SAGE(args.features, args.hidden_channels, classes, args.num_layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    src = table.flatten().to(device)
    dst = torch.arange(args.nodes, device=device).repeat_interleave(args.degree)
    whole = [(torch.stack([src, dst]), args.nodes)] * args.num_layers
    for epoch in range(1, args.epochs + 1):
        model.train()
        total_loss = total_correct = total = 0
        order = train_idx[torch.randperm(len(train_idx))]
        for step, seeds in enumerate(order.split(args.batch_size)):
            nodes, blocks = sample(table, seeds, args.fanouts[::-1])
            blocks = [(edges.to(device), targets) for edges, targets in blocks]
            optimizer.zero_grad()
            out = model(x[nodes.to(device)], blocks)
            labels = y[seeds.to(device)]
            loss = F.cross_entropy(out, labels)
            loss.backward()
            optimizer.step()
            total_loss += float(loss) * len(seeds)
            total_correct += int(out.argmax(-1).eq(labels).sum())
            total += len(seeds)
            if step + 1 == args.steps:
                break
        print(f"epoch {epoch}: loss {total_loss / total:.4f}, train {total_correct / total:.4f}")
        model.eval()
        with torch.no_grad():
            out = model(x, whole)
            accuracy = (out[test_idx].argmax(-1) == y[test_idx]).float().mean().item()
        print(f"epoch {epoch}: test {accuracy:.4f}")


if __name__ == "__main__":
    main()
