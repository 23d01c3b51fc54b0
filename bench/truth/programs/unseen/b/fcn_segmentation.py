"""Semantic segmentation with FCN-ResNet50 of torchvision: auxiliary loss, poly schedule, confusion matrix."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models.segmentation import fcn_resnet50


class Shapes(Dataset):
    """Rectangles on noise, with their masks."""

    def __init__(self, count, size, classes):
        self.count, self.size, self.classes = count, size, classes

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        g = torch.Generator().manual_seed(index)
        image = torch.rand(3, self.size, self.size, generator=g) * 0.2
        mask = torch.zeros(self.size, self.size, dtype=torch.long)
        for _ in range(4):
            label = int(torch.randint(1, self.classes, (1,), generator=g))
            x, y = torch.randint(0, self.size * 3 // 4, (2,), generator=g).tolist()
            h, w = torch.randint(self.size // 8, self.size // 4, (2,), generator=g).tolist()
            mask[y : y + h, x : x + w] = label
            image[:, y : y + h, x : x + w] += label / self.classes
        mask[:2] = 255
        return image, mask


class ConfusionMatrix:
    def __init__(self, classes):
        self.n, self.matrix = classes, None

    def update(self, target, predicted):
        if self.matrix is None:
            self.matrix = torch.zeros(self.n, self.n, dtype=torch.int64, device=target.device)
        with torch.inference_mode():
            valid = target < self.n
            index = self.n * target[valid] + predicted[valid]
            self.matrix += torch.bincount(index, minlength=self.n**2).reshape(self.n, self.n)

    def mean_iou(self):
        h = self.matrix.float()
        return (h.diag() / (h.sum(1) + h.sum(0) - h.diag()).clamp(min=1)).mean().item()


def criterion(outputs, target):
    losses = {
        name: nn.functional.cross_entropy(x, target, ignore_index=255)
        for name, x in outputs.items()
    }
    return losses["out"] + 0.5 * losses["aux"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--classes", type=int, default=21)
    parser.add_argument("--size", type=int, default=320)
    parser.add_argument("--count", type=int, default=160)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--workers", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = DataLoader(
        Shapes(args.count, args.size, args.classes),
        args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        drop_last=True,
    )
    val = DataLoader(Shapes(args.count // 5, args.size, args.classes), 1, num_workers=args.workers)
    model = fcn_resnet50(
        weights=None, weights_backbone=None, num_classes=args.classes, aux_loss=True
    ).to(device)
    groups = [
        {"params": model.backbone.parameters()},
        {"params": model.classifier.parameters()},
        {"params": model.aux_classifier.parameters(), "lr": args.lr * 10},
    ]
    optimizer = torch.optim.SGD(groups, lr=args.lr, momentum=0.9, weight_decay=1e-4)
    total = args.epochs * len(train)
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=total, power=0.9)
    for epoch in range(args.epochs):
        model.train()
        start = time.time()
        for i, (image, target) in enumerate(train):
            image, target = image.to(device), target.to(device)
            loss = criterion(model(image), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            if i % 5 == 0:
                print(
                    f"epoch {epoch} {i}/{len(train)} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.5f}"
                )
        model.eval()
        confusion = ConfusionMatrix(args.classes)
        with torch.inference_mode():
            for image, target in val:
                image, target = image.to(device), target.to(device)
                output = model(image)["out"]
                confusion.update(target.flatten(), output.argmax(1).flatten())
        print(f"epoch {epoch}: mean IoU {confusion.mean_iou():.3f}, {time.time() - start:.1f} s")
        checkpoint = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "epoch": epoch,
            "args": args,
        }
        torch.save(checkpoint, "checkpoint.pth")


if __name__ == "__main__":
    main()
