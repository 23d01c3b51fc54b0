"""MoCo v2: a ResNet-50, its slow copy and a queue of 65,536 keys; fp16; nearest neighbours judge it."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms as T
from torchvision.models import resnet50


class Pictures(Dataset):
    def __init__(self, count, size, views, seed=0):
        self.count, self.size, self.views, self.seed = count, size, views, seed
        self.augment = T.Compose(
            [
                T.RandomResizedCrop(size, scale=(0.3, 1.0), antialias=True),
                T.RandomHorizontalFlip(),
                T.RandomGrayscale(p=0.2),
            ]
        )

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        label = i % 20
        image = torch.rand(3, 24, 24, generator=g)
        image[label % 3, label:] += 0.5
        image = F.interpolate(image[None], size=(self.size, self.size), mode="nearest")[0]
        if self.views == 1:
            return image, label
        return self.augment(image), self.augment(image)


class MoCo(nn.Module):
    def __init__(self, dim=128, keys=65536, momentum=0.999, temperature=0.2):
        super().__init__()
        self.keys, self.momentum, self.temperature = keys, momentum, temperature
        self.encoder_q, self.encoder_k = self.build(dim), self.build(dim)
        self.encoder_k.load_state_dict(self.encoder_q.state_dict())
        self.encoder_k.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(dim, keys), dim=0))
        self.register_buffer("pointer", torch.zeros(1, dtype=torch.long))

    @staticmethod
    def build(dim):
        net = resnet50(weights=None, num_classes=dim)
        net.fc = nn.Sequential(nn.Linear(2048, 2048), nn.ReLU(), net.fc)
        return net

    @torch.no_grad()
    def update_key_encoder(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.data = k.data * self.momentum + q.data * (1.0 - self.momentum)

    @torch.no_grad()
    def enqueue(self, keys):
        at = int(self.pointer)
        self.queue[:, at : at + len(keys)] = keys.T
        self.pointer[0] = (at + len(keys)) % self.keys

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            self.update_key_encoder()
            order = torch.randperm(len(im_k), device=im_k.device)
            k = F.normalize(self.encoder_k(im_k[order]), dim=1)[order.argsort()]
        positive = torch.einsum("nc,nc->n", q, k).unsqueeze(-1)
        negative = torch.einsum("nc,ck->nk", q, self.queue.clone().detach())
        logits = torch.cat([positive, negative], dim=1) / self.temperature
        labels = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
        self.enqueue(k)
        return logits, labels


@torch.no_grad()
def neighbours(net, bank_loader, test_loader, device, k=20):
    net.eval()

    def embed(loader):
        parts = [(F.normalize(net(x.to(device)).float(), dim=1), y.to(device)) for x, y in loader]
        return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])

    bank, bank_labels = embed(bank_loader)
    test, labels = embed(test_loader)
    weight, index = (test @ bank.T).topk(min(k, len(bank)), dim=1)
    votes = torch.zeros(len(test), 20, device=device)
    votes.scatter_add_(1, bank_labels[index], (weight / 0.07).exp())
    net.train()
    return (votes.argmax(1) == labels).float().mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--images", type=int, default=1600)
    p.add_argument("--size", type=int, default=128)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--keys", type=int, default=65536)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--lr", type=float, default=0.03)
    p.add_argument("--workers", type=int, default=6)
    a = p.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(
        Pictures(a.images, a.size, 2),
        a.batch,
        shuffle=True,
        num_workers=a.workers,
        pin_memory=device.type == "cuda",
        drop_last=True,
    )
    bank = DataLoader(Pictures(a.images, a.size, 1), 2 * a.batch, num_workers=2)
    test = DataLoader(Pictures(a.images // 4, a.size, 1, 10**6), 2 * a.batch, num_workers=2)
    model = MoCo(keys=a.keys).to(device)
    optimizer = torch.optim.SGD(
        model.encoder_q.parameters(), lr=a.lr, momentum=0.9, weight_decay=1e-4
    )
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    for epoch in range(a.epochs):
        for group in optimizer.param_groups:
            group["lr"] = a.lr * 0.5 * (1.0 + math.cos(math.pi * epoch / a.epochs))
        for one, two in loader:
            one, two = one.to(device, non_blocking=True), two.to(device, non_blocking=True)
            with torch.autocast(device.type, dtype=torch.float16, enabled=scaler.is_enabled()):
                logits, labels = model(one, two)
                loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        right = neighbours(model.encoder_q, bank, test, device)
        print(f"epoch {epoch}: loss {loss.item():.3f}, kNN {right:.3f}")
        torch.save({"epoch": epoch, "model": model.state_dict()}, f"moco_{epoch:03d}.pth")


if __name__ == "__main__":
    main()
