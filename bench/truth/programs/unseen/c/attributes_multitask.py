"""Age, gender and 40 attributes of a face: learned weights of the tasks, accumulation by hand, two optimizers."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models import mobilenet_v3_large


class Faces(Dataset):
    def __init__(self, count, size, start=0):
        self.count, self.size, self.start = count, size, start

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.start + i)
        face = torch.randn(3, self.size, self.size, generator=g)
        labels = {
            "age": torch.rand((), generator=g) * 80,
            "gender": torch.randint(0, 2, (), generator=g),
            "attributes": (torch.rand(40, generator=g) > 0.7).float(),
        }
        return face, labels


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        net = mobilenet_v3_large(weights=None)
        self.features, self.pool = net.features, net.avgpool
        self.shared = nn.Sequential(nn.Linear(960, 512), nn.Hardswish(), nn.Dropout(0.2))
        self.tasks = nn.ModuleDict(
            {
                "age": nn.Linear(512, 1),
                "gender": nn.Linear(512, 2),
                "attributes": nn.Linear(512, 40),
            }
        )
        self.log_variance = nn.ParameterDict({k: nn.Parameter(torch.zeros(())) for k in self.tasks})

    def forward(self, x):
        z = self.shared(self.pool(self.features(x)).flatten(1))
        return {name: head(z) for name, head in self.tasks.items()}

    def losses(self, out, labels):
        each = {
            "age": F.smooth_l1_loss(out["age"][:, 0], labels["age"]) / 10,
            "gender": F.cross_entropy(out["gender"], labels["gender"]),
            "attributes": F.binary_cross_entropy_with_logits(
                out["attributes"], labels["attributes"]
            ),
        }
        total = sum(
            torch.exp(-self.log_variance[k]) * v + self.log_variance[k] for k, v in each.items()
        )
        return total, each


def to(labels, device):
    return {k: v.to(device) for k, v in labels.items()}


def validate(model, loader, device):
    model.eval()
    years = right = hits = seen = 0
    with torch.no_grad():
        for x, labels in loader:
            out, labels = model(x.to(device)), to(labels, device)
            years += (out["age"][:, 0] - labels["age"]).abs().sum().item()
            right += (out["gender"].argmax(1) == labels["gender"]).sum().item()
            hits += (
                ((out["attributes"] > 0) == labels["attributes"].bool())
                .float()
                .mean(1)
                .sum()
                .item()
            )
            seen += len(x)
    return years / seen, right / seen, hits / seen


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--size", type=int, default=176)
    p.add_argument("--count", type=int, default=1000)
    p.add_argument("--micro", type=int, default=48)
    p.add_argument("--accumulate", type=int, default=4)
    p.add_argument("--eval-batch", type=int, default=200)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--workers", type=int, default=3)
    a = p.parse_args()
    torch.manual_seed(21)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = DataLoader(Faces(a.count, a.size), a.micro, shuffle=True, num_workers=a.workers)
    val = DataLoader(Faces(a.count // 4, a.size, 10**6), a.eval_batch, num_workers=a.workers)
    model = Heads().to(device)
    backbone = torch.optim.SGD(model.features.parameters(), lr=0.01, momentum=0.9)
    rest = [p for n, p in model.named_parameters() if not n.startswith("features.")]
    heads = torch.optim.AdamW(rest, lr=1e-3)
    for epoch in range(a.epochs):
        model.train()
        running = dict.fromkeys(model.tasks, 0.0)
        for i, (x, labels) in enumerate(train):
            total, each = model.losses(model(x.to(device)), to(labels, device))
            (total / a.accumulate).backward()
            for k, v in each.items():
                running[k] += v.item()
            if (i + 1) % a.accumulate == 0 or i + 1 == len(train):
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                for optimizer in (backbone, heads):
                    optimizer.step()
                    optimizer.zero_grad()
        years, gender, attributes = validate(model, val, device)
        said = " ".join(f"{k} {v / len(train):.3f}" for k, v in running.items())
        print(
            f"{epoch}: {said} | off by {years:.1f} years, gender {gender:.2f}, attributes {attributes:.2f}"
        )
    torch.save(
        {
            "model": model.state_dict(),
            "optimizers": [backbone.state_dict(), heads.state_dict()],
        },
        "faces.pt",
    )


if __name__ == "__main__":
    main()
