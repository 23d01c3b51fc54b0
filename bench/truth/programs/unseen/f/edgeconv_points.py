"""Shapes from clouds of points: a dynamic graph of nearest neighbours in every layer, tested with twice the points."""

import argparse
import os

import torch
import torch.nn.functional as F
from torch import nn


def knn(x, k):
    inner = -2 * torch.matmul(x.transpose(2, 1), x)
    xx = torch.sum(x**2, dim=1, keepdim=True)
    pairwise_distance = -xx - inner - xx.transpose(2, 1)
    return pairwise_distance.topk(k=k, dim=-1)[1]


def get_graph_feature(x, k):
    batch_size, num_dims, num_points = x.size()
    idx = knn(x, k)
    idx_base = torch.arange(0, batch_size, device=x.device).view(-1, 1, 1) * num_points
    idx = (idx + idx_base).view(-1)
    x = x.transpose(2, 1).contiguous()
    feature = x.view(batch_size * num_points, -1)[idx, :]
    feature = feature.view(batch_size, num_points, k, num_dims)
    x = x.view(batch_size, num_points, 1, num_dims).repeat(1, 1, k, 1)
    return torch.cat((feature - x, x), dim=3).permute(0, 3, 1, 2).contiguous()


class EdgeConv(nn.Module):
    def __init__(self, cin, cout, k):
        super().__init__()
        self.k = k
        self.conv = nn.Sequential(
            nn.Conv2d(2 * cin, cout, 1, bias=False), nn.BatchNorm2d(cout), nn.LeakyReLU(0.2)
        )

    def forward(self, x):
        return self.conv(get_graph_feature(x, self.k)).max(dim=-1)[0]


class DGCNN(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.layers = nn.ModuleList(
            [EdgeConv(a, b, args.k) for a, b in ((3, 64), (64, 64), (64, 128), (128, 256))]
        )
        self.join = nn.Sequential(
            nn.Conv1d(512, args.emb_dims, 1, bias=False),
            nn.BatchNorm1d(args.emb_dims),
            nn.LeakyReLU(0.2),
        )
        self.head = nn.Sequential(
            nn.Linear(2 * args.emb_dims, 512, bias=False),
            nn.BatchNorm1d(512),
            nn.LeakyReLU(0.2),
            nn.Dropout(args.dropout),
            nn.Linear(512, args.classes),
        )

    def forward(self, x):
        kept = []
        for layer in self.layers:
            x = layer(x)
            kept.append(x)
        x = self.join(torch.cat(kept, dim=1))
        x = torch.cat([F.adaptive_max_pool1d(x, 1), F.adaptive_avg_pool1d(x, 1)], 1).squeeze(-1)
        return self.head(x)


class Clouds(torch.utils.data.Dataset):
    def __init__(self, count, points, classes):
        self.count, self.points, self.classes = count, points, classes

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        label = i % self.classes
        p = torch.randn(self.points, 3, generator=g)
        p = p / p.norm(dim=1, keepdim=True) * torch.tensor([1.0, 1 + label / self.classes, 0.5])
        return (p * (0.8 + 0.4 * torch.rand(3, generator=g))).T.contiguous(), label


def main():
    parser = argparse.ArgumentParser(description="Point Cloud Recognition")
    parser.add_argument("--exp_name", type=str, default="exp")
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--test_batch_size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--num_points", type=int, default=1024)
    parser.add_argument("--test_points", type=int, default=2048)
    parser.add_argument("--clouds", type=int, default=1000)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--emb_dims", type=int, default=1024)
    parser.add_argument("--classes", type=int, default=40)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--votes", type=int, default=3)
    args = parser.parse_args()
    os.makedirs("checkpoints/" + args.exp_name, exist_ok=True)
    torch.manual_seed(1)
    device = torch.device("cuda")
    train = torch.utils.data.DataLoader(
        Clouds(args.clouds, args.num_points, args.classes),
        args.batch_size,
        shuffle=True,
        num_workers=4,
    )
    test = torch.utils.data.DataLoader(
        Clouds(100, args.test_points, args.classes), args.test_batch_size
    )
    model = (
        nn.DataParallel(DGCNN(args).to(device))
        if torch.cuda.device_count() > 1
        else DGCNN(args).to(device)
    )
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs, eta_min=1e-3)
    for epoch in range(args.epochs):
        model.train()
        train_loss, count, pred = 0.0, 0, []
        for data, label in train:
            data, label = data.to(device), label.to(device)
            opt.zero_grad()
            logits = model(data)
            loss = F.cross_entropy(logits, label, label_smoothing=0.2)
            loss.backward()
            opt.step()
            count += len(label)
            train_loss += loss.item() * len(label)
            pred.append((logits.max(dim=1)[1] == label).float().mean().item())
        scheduler.step()
        print(
            f"Train {epoch}, loss: {train_loss / count:.6f}, train acc: {sum(pred) / len(pred):.6f}"
        )
        torch.save(model.state_dict(), f"checkpoints/{args.exp_name}/model.t7")
    model.eval()
    right = 0
    with torch.no_grad():
        for data, label in test:
            data, label = data.to(device), label.to(device)
            votes = 0
            for _ in range(args.votes):
                votes = votes + model(
                    data * (0.8 + 0.4 * torch.rand(1, 3, 1, device=device))
                ).softmax(-1)
            right += (votes.argmax(1) == label).sum().item()
    print(f"Test :: acc {right / len(test.dataset):.4f}")


if __name__ == "__main__":
    main()
