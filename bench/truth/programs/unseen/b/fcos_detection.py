"""Train torchvision's FCOS on pictures with a random number of boxes, warm-up, then evaluate its detections."""

import argparse
import math
import sys

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.models.detection import fcos_resnet50_fpn
from torchvision.ops import box_iou


class Boxes(Dataset):
    def __init__(self, count, size, most, classes, seed=0):
        self.count, self.size, self.most, self.classes, self.seed = count, size, most, classes, seed

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        g = torch.Generator().manual_seed(self.seed * 100_000 + index)
        n = int(torch.randint(1, self.most + 1, (1,), generator=g))
        corner = torch.rand(n, 2, generator=g) * self.size * 0.7
        extent = 16 + torch.rand(n, 2, generator=g) * self.size * 0.25
        boxes = torch.cat([corner, corner + extent], 1)
        labels = torch.randint(1, self.classes, (n,), generator=g)
        return torch.rand(3, self.size, self.size, generator=g), {"boxes": boxes, "labels": labels}


def collate(batch):
    return tuple(zip(*batch, strict=True))


def train_one_epoch(model, optimizer, loader, device, epoch):
    model.train()
    warmup = None
    if epoch == 0:
        warmup = torch.optim.lr_scheduler.LinearLR(
            optimizer, 0.001, total_iters=min(20, len(loader) - 1)
        )
    for i, (images, targets) in enumerate(loader):
        images = [image.to(device) for image in images]
        targets = [{k: v.to(device) for k, v in t.items()} for t in targets]
        losses = model(images, targets)
        loss = sum(losses.values())
        value = loss.item()
        if not math.isfinite(value):
            print(f"Loss is {value}, stopping training")
            sys.exit(1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if warmup is not None:
            warmup.step()
        if i % 5 == 0:
            parts = ", ".join(f"{k} {v.item():.3f}" for k, v in losses.items())
            print(f"[{epoch}] {i}/{len(loader)} loss {value:.3f} ({parts})")


@torch.inference_mode()
def evaluate(model, loader, device):
    model.eval()
    found = total = 0
    for images, targets in loader:
        outputs = model([image.to(device) for image in images])
        for out, target in zip(outputs, targets, strict=True):
            boxes = out["boxes"].cpu()
            total += len(target["boxes"])
            if len(boxes):
                found += (box_iou(target["boxes"], boxes).max(1).values > 0.5).sum().item()
    print(f"recall at 0.5: {found / max(total, 1):.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--count", type=int, default=96)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--most", type=int, default=12)
    parser.add_argument("--classes", type=int, default=21)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(9)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = DataLoader(
        Boxes(args.count, args.size, args.most, args.classes),
        args.batch_size,
        True,
        collate_fn=collate,
        num_workers=4,
    )
    test = DataLoader(
        Boxes(args.count // 4, args.size, args.most, args.classes, 1), 4, collate_fn=collate
    )
    model = fcos_resnet50_fpn(
        weights=None,
        weights_backbone=None,
        num_classes=args.classes,
        min_size=args.size,
        max_size=args.size,
    ).to(device)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=0.005, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.1)
    for epoch in range(args.epochs):
        train_one_epoch(model, optimizer, train, device, epoch)
        schedule.step()
        evaluate(model, test, device)
    torch.save(model.state_dict(), "fcos.pth")


if __name__ == "__main__":
    main()
