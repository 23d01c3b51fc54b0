"""Metric learning: ResNet-34 with batch-hard triplets, fp16 with a scaler, then recall over a larger gallery."""

import argparse
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler
from torchvision.models import resnet34


class Shoes(Dataset):
    def __init__(self, identities, each, size):
        self.identities, self.each, self.size = identities, each, size

    def __len__(self):
        return self.identities * self.each

    def __getitem__(self, i):
        label = i // self.each
        base = torch.Generator().manual_seed(label)
        own = torch.Generator().manual_seed(10_000 + i)
        coarse = torch.rand(3, 8, 8, generator=base)
        image = F.interpolate(coarse[None], size=self.size, mode="nearest")[0]
        return image + 0.1 * torch.randn(3, self.size, self.size, generator=own), label


class PK(Sampler):
    """Batches of P identities with K pictures of each."""

    def __init__(self, data, p, k, batches, seed):
        self.data, self.p, self.k, self.batches, self.rng = (
            data,
            p,
            k,
            batches,
            random.Random(seed),
        )

    def __len__(self):
        return self.batches

    def __iter__(self):
        for _ in range(self.batches):
            batch = []
            for who in self.rng.sample(range(self.data.identities), self.p):
                chosen = self.rng.sample(range(self.data.each), self.k)
                batch += [who * self.data.each + c for c in chosen]
            yield batch


class Embedder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.body = resnet34(weights=None)
        self.body.fc = nn.Sequential(
            nn.Linear(512, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, dim)
        )

    def forward(self, x):
        return F.normalize(self.body(x), dim=-1)


def batch_hard(z, labels, margin):
    d = torch.cdist(z, z)
    same = labels[:, None] == labels[None]
    far = d.masked_fill(~same, 0).amax(1)
    near = d.masked_fill(same, 1e4).amin(1)
    return F.relu(far - near + margin).mean(), (far < near).float().mean()


@torch.no_grad()
def recall(model, data, batch, device):
    model.eval()
    vectors, labels = [], []
    for x, y in DataLoader(data, batch, num_workers=2):
        with torch.autocast(device.type, dtype=torch.float16, enabled=device.type == "cuda"):
            vectors.append(model(x.to(device)).float())
        labels.append(y.to(device))
    z, y = torch.cat(vectors), torch.cat(labels)
    similar = z @ z.t()
    similar.fill_diagonal_(-2)
    hits = y[similar.topk(4, 1).indices] == y[:, None]
    return hits[:, 0].float().mean().item(), hits.any(1).float().mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--identities", type=int, default=120)
    p.add_argument("--each", type=int, default=8)
    p.add_argument("--size", type=int, default=160)
    p.add_argument("-P", type=int, default=24)
    p.add_argument("-K", type=int, default=4)
    p.add_argument("--batches", type=int, default=20)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--gallery-batch", type=int, default=384)
    a = p.parse_args()
    random.seed(1)
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = Shoes(a.identities, a.each, a.size)
    loader = DataLoader(
        data,
        batch_sampler=PK(data, a.P, a.K, a.batches, 1),
        num_workers=2,
        pin_memory=device.type == "cuda",
    )
    model = Embedder(128).to(device)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.02, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    for epoch in range(a.epochs):
        model.train()
        for step, (x, y) in enumerate(loader):
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            with torch.autocast(device.type, dtype=torch.float16, enabled=device.type == "cuda"):
                z = model(x)
            loss, solved = batch_hard(z.float(), y, 0.3)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            scaler.step(optimizer)
            scaler.update()
            if step % 10 == 0:
                print(f"{epoch}:{step} loss {loss.item():.3f} solved {solved.item():.2f}")
        first, four = recall(model, data, a.gallery_batch, device)
        print(
            f"epoch {epoch} recall@1 {first:.3f} recall@4 {four:.3f} scale {scaler.get_scale():.0f}"
        )
    torch.save({"model": model.state_dict(), "scaler": scaler.state_dict()}, "shoes.pt")


if __name__ == "__main__":
    main()
