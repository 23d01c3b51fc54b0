"""MLP-Mixer with an averaged copy of its weights and two optimizers: AdamW for the body, SGD for the head."""

import argparse

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader
from torchvision.datasets import FakeData
from torchvision.transforms import v2


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim, token_dim, channel_dim, drop):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.token_mix = nn.Sequential(
            nn.Linear(tokens, token_dim), nn.GELU(), nn.Dropout(drop), nn.Linear(token_dim, tokens)
        )
        self.norm2 = nn.LayerNorm(dim)
        self.channel_mix = nn.Sequential(
            nn.Linear(dim, channel_dim), nn.GELU(), nn.Dropout(drop), nn.Linear(channel_dim, dim)
        )

    def forward(self, x):
        x = x + self.token_mix(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel_mix(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, image=128, patch=16, dim=512, depth=12, classes=100, drop=0.1):
        super().__init__()
        tokens = (image // patch) ** 2
        self.stem = nn.Conv2d(3, dim, patch, stride=patch)
        self.blocks = nn.ModuleList(
            [MixerBlock(tokens, dim, dim // 2, dim * 4, drop) for _ in range(depth)]
        )
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


def accuracy(model, loader, device):
    model.eval()
    hits = seen = 0
    with torch.inference_mode():
        for images, labels in loader:
            out = model(images.to(device))
            hits += (out.argmax(-1).cpu() == labels).sum().item()
            seen += labels.numel()
    return hits / seen


def get_args():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--image-size", type=int, default=128)
    p.add_argument("--dim", type=int, default=512)
    p.add_argument("--depth", type=int, default=12)
    p.add_argument("--batch", type=int, default=192)
    p.add_argument("--samples", type=int, default=3000)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--decay", type=float, default=0.99)
    p.add_argument("--workers", type=int, default=6)
    return p.parse_args()


def main():
    args = get_args()
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    transform = v2.Compose(
        [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.RandomHorizontalFlip()]
    )
    shape = (3, args.image_size, args.image_size)
    train = FakeData(args.samples, shape, 100, transform)
    val = FakeData(args.samples // 4, shape, 100, transform, random_offset=10_000)
    train_loader = DataLoader(
        train, args.batch, shuffle=True, num_workers=args.workers, drop_last=True
    )
    val_loader = DataLoader(val, args.batch * 2, num_workers=args.workers)

    model = Mixer(args.image_size, dim=args.dim, depth=args.depth).to(device)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(args.decay))
    body = [p for n, p in model.named_parameters() if not n.startswith("head")]
    opt_body = torch.optim.AdamW(body, lr=1e-3, weight_decay=0.1)
    opt_head = torch.optim.SGD(model.head.parameters(), lr=0.05, momentum=0.9)
    warmup = torch.optim.lr_scheduler.LinearLR(opt_body, 0.01, total_iters=10)
    criterion = nn.CrossEntropyLoss()

    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for images, labels in train_loader:
            images, labels = images.to(device), labels.to(device)
            loss = criterion(model(images), labels)
            opt_body.zero_grad()
            opt_head.zero_grad()
            loss.backward()
            opt_body.step()
            opt_head.step()
            warmup.step()
            ema.update_parameters(model)
            running += loss.item()
        plain = accuracy(model, val_loader, device)
        averaged = accuracy(ema, val_loader, device)
        print(
            f"epoch {epoch + 1}: loss {running / len(train_loader):.3f} acc {plain:.3f} ema {averaged:.3f}"
        )
    torch.save({"model": model.state_dict(), "ema": ema.module.state_dict()}, "mixer.pth")


if __name__ == "__main__":
    main()
