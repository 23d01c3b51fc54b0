"""Fine-tune a Swin transformer of torchvision on flowers: mixup, layer-wise learning rates, test at the end."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, default_collate
from torchvision import models
from torchvision.datasets import FakeData
from torchvision.transforms import v2


def param_groups(model, base_lr, decay):
    """Deeper layers learn faster than the ones near the pixels."""
    groups = []
    stages = list(model.features)
    for depth, stage in enumerate(reversed(stages)):
        groups.append({"params": list(stage.parameters()), "lr": base_lr * decay**depth})
    groups.append({"params": [*model.norm.parameters(), *model.head.parameters()], "lr": base_lr})
    return groups


class AverageMeter:
    def __init__(self):
        self.sum = self.count = 0

    def update(self, value, n):
        self.sum += value * n
        self.count += n

    @property
    def avg(self):
        return self.sum / max(self.count, 1)


def train_one_epoch(model, loader, optimizer, criterion, device, epoch):
    model.train()
    meter = AverageMeter()
    for i, (images, target) in enumerate(loader):
        images, target = images.to(device, non_blocking=True), target.to(device, non_blocking=True)
        with torch.autocast(device_type=device.type, dtype=torch.bfloat16):
            output = model(images)
            loss = criterion(output, target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        meter.update(loss.item(), images.size(0))
        if i % 4 == 0:
            print(f"Epoch [{epoch}][{i}/{len(loader)}] loss {meter.avg:.4f}")


@torch.inference_mode()
def test(model, loader, device):
    model.eval()
    top1, top5, n = 0, 0, 0
    for images, target in loader:
        images, target = images.to(device), target.to(device)
        with torch.autocast(device_type=device.type, dtype=torch.bfloat16):
            output = model(images)
        _, predicted = output.float().topk(5, dim=1)
        hit = predicted.eq(target[:, None])
        top1 += hit[:, 0].sum().item()
        top5 += hit.any(1).sum().item()
        n += len(target)
    print(f"top-1 {100 * top1 / n:.2f}, top-5 {100 * top5 / n:.2f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", default="swin_t")
    parser.add_argument("--classes", type=int, default=102)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--samples", type=int, default=480)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    model = models.get_model(args.arch, weights=None)
    model.head = nn.Linear(model.head.in_features, args.classes)
    model.to(device)
    augment = v2.Compose(
        [
            v2.PILToTensor(),
            v2.RandomResizedCrop(args.size, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )
    mixup = v2.MixUp(num_classes=args.classes, alpha=0.2)
    shape = (3, args.size, args.size)
    train_set = FakeData(args.samples, shape, args.classes, augment)
    test_set = FakeData(args.samples // 3, shape, args.classes, augment, random_offset=99_999)
    train_loader = DataLoader(
        train_set,
        args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=True,
        collate_fn=lambda rows: mixup(*default_collate(rows)),
    )
    test_loader = DataLoader(test_set, args.batch_size * 2, num_workers=args.workers)
    optimizer = torch.optim.AdamW(param_groups(model, 1e-4, 0.85), weight_decay=0.05)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        [g["lr"] for g in optimizer.param_groups],
        epochs=args.epochs,
        steps_per_epoch=len(train_loader),
    )
    optimizer.register_step_post_hook(lambda *_: scheduler.step())
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    for epoch in range(args.epochs):
        train_one_epoch(model, train_loader, optimizer, criterion, device, epoch)
        test(model, test_loader, device)
    torch.save(model.state_dict(), f"{args.arch}_flowers.pth")


if __name__ == "__main__":
    main()
