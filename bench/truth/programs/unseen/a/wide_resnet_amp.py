"""Train a Wide ResNet on CIFAR-sized pictures with mixed precision, clipping and a cosine schedule."""

import argparse
import os
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class FakeCifar(Dataset):
    """Random pictures with labels, flipped at random, as CIFAR-10 would be."""

    def __init__(self, size, train=True):
        generator = torch.Generator().manual_seed(0 if train else 1)
        self.data = torch.randint(0, 256, (size, 3, 32, 32), dtype=torch.uint8, generator=generator)
        self.targets = torch.randint(0, 10, (size,), generator=generator)
        self.train = train
        self.mean = torch.tensor([0.4914, 0.4822, 0.4465]).view(3, 1, 1)
        self.std = torch.tensor([0.247, 0.243, 0.261]).view(3, 1, 1)

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        img = (self.data[index].float() / 255 - self.mean) / self.std
        if self.train and torch.rand(1).item() < 0.5:
            img = img.flip(-1)
        return img, int(self.targets[index])


class BasicBlock(nn.Module):
    def __init__(self, in_planes, out_planes, stride, drop_rate):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(in_planes)
        self.conv1 = nn.Conv2d(in_planes, out_planes, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_planes)
        self.conv2 = nn.Conv2d(out_planes, out_planes, 3, padding=1, bias=False)
        self.drop_rate = drop_rate
        self.equal = in_planes == out_planes
        if not self.equal:
            self.shortcut = nn.Conv2d(in_planes, out_planes, 1, stride=stride, bias=False)

    def forward(self, x):
        out = F.relu(self.bn1(x), inplace=True)
        residual = x if self.equal else self.shortcut(out)
        out = F.relu(self.bn2(self.conv1(out)), inplace=True)
        out = F.dropout(out, self.drop_rate, self.training)
        return self.conv2(out) + residual


class WideResNet(nn.Module):
    def __init__(self, depth, widen, num_classes=10, drop_rate=0.1):
        super().__init__()
        n = (depth - 4) // 6
        widths = [16, 16 * widen, 32 * widen, 64 * widen]
        self.conv1 = nn.Conv2d(3, widths[0], 3, padding=1, bias=False)
        blocks = []
        for i in range(3):
            for j in range(n):
                stride = 2 if i > 0 and j == 0 else 1
                blocks.append(
                    BasicBlock(
                        widths[i] if j == 0 else widths[i + 1], widths[i + 1], stride, drop_rate
                    )
                )
        self.blocks = nn.Sequential(*blocks)
        self.bn = nn.BatchNorm2d(widths[3])
        self.fc = nn.Linear(widths[3], num_classes)

    def forward(self, x):
        out = F.relu(self.bn(self.blocks(self.conv1(x))))
        return self.fc(F.adaptive_avg_pool2d(out, 1).flatten(1))


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    correct, total, loss_sum = 0, 0, 0.0
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.float16, enabled=device.type == "cuda"):
            logits = model(x)
        loss_sum += F.cross_entropy(logits.float(), y, reduction="sum").item()
        correct += (logits.argmax(1) == y).sum().item()
        total += len(y)
    return loss_sum / total, 100.0 * correct / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--test-batch-size", type=int, default=1000)
    parser.add_argument("--depth", type=int, default=28)
    parser.add_argument("--widen", type=int, default=6)
    parser.add_argument("--train-size", type=int, default=5000)
    parser.add_argument("--test-size", type=int, default=2500)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--out", default="checkpoints")
    args = parser.parse_args()

    torch.manual_seed(42)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    use_amp = device.type == "cuda"
    train_loader = DataLoader(
        FakeCifar(args.train_size),
        args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=use_amp,
    )
    test_loader = DataLoader(
        FakeCifar(args.test_size, train=False),
        args.test_batch_size,
        num_workers=args.workers,
        pin_memory=use_amp,
    )
    model = WideResNet(args.depth, args.widen).to(device)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters")
    optimizer = torch.optim.SGD(
        model.parameters(), args.lr, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer, args.epochs * len(train_loader)
    )
    scaler = torch.amp.GradScaler(enabled=use_amp)
    os.makedirs(args.out, exist_ok=True)
    best = 0.0
    for epoch in range(args.epochs):
        model.train()
        start = time.time()
        for i, (x, y) in enumerate(train_loader):
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device.type, dtype=torch.float16, enabled=use_amp):
                loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            if i % 5 == 0:
                print(
                    f"epoch {epoch} [{i}/{len(train_loader)}] loss {loss.item():.4f} norm {norm:.2f}"
                )
        test_loss, acc = evaluate(model, test_loader, device)
        print(
            f"epoch {epoch}: test loss {test_loss:.4f}, accuracy {acc:.2f} %, {time.time() - start:.1f} s"
        )
        if acc >= best:
            best = acc
            state = {
                "epoch": epoch,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "acc": acc,
            }
            torch.save(state, os.path.join(args.out, "best.pt"))


if __name__ == "__main__":
    main()
