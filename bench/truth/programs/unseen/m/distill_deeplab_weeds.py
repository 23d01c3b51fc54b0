"""Weed segmentation on a budget: a DeepLabV3-ResNet101 teaches a DeepLabV3-MobileNet at 360 x 360, fp16 with GradScaler, DataLoader workers, drop_last in training, larger validation batches."""

import argparse

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision.models.segmentation import (
    deeplabv3_mobilenet_v3_large,
    deeplabv3_resnet101,
)

CLASSES = ("soil", "crop", "thistle", "dock", "grass", "stone")


class Fields(Dataset):
    def __init__(self, n, side, seed):
        self.n, self.side, self.seed = n, side, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 10_000 + i)
        small = torch.randint(0, len(CLASSES), (1, 1, 12, 12), generator=g)
        mask = F.interpolate(small.float(), size=self.side, mode="nearest")[0, 0].long()
        image = torch.rand(3, self.side, self.side, generator=g) * 0.5 + mask / 12
        return image, mask


class MeanIoU:
    def __init__(self, classes, device):
        self.table = torch.zeros(classes, classes, device=device)

    def add(self, guess, truth):
        n = len(self.table)
        self.table += torch.bincount(truth.flatten() * n + guess.flatten(), minlength=n * n).view(
            n, n
        )

    def value(self):
        both = self.table.diag()
        return (both / (self.table.sum(0) + self.table.sum(1) - both).clamp(min=1)).mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--side", type=int, default=360)
    p.add_argument("--batch", type=int, default=24)
    p.add_argument("--val-batch", type=int, default=40)
    p.add_argument("--train", type=int, default=500)
    p.add_argument("--val", type=int, default=90)
    p.add_argument("--workers", type=int, default=6)
    p.add_argument("--soft", type=float, default=0.5)
    a = p.parse_args()
    torch.manual_seed(0)
    amp = a.device == "cuda"
    torch.backends.cudnn.benchmark = True

    nothing = {"weights": None, "weights_backbone": None, "num_classes": len(CLASSES)}
    teacher = deeplabv3_resnet101(**nothing).to(a.device).eval()
    for q in teacher.parameters():
        q.requires_grad = False
    student = deeplabv3_mobilenet_v3_large(**nothing, aux_loss=True).to(a.device)
    train = DataLoader(
        Fields(a.train, a.side, 1),
        a.batch,
        shuffle=True,
        num_workers=a.workers,
        drop_last=True,
        pin_memory=amp,
        persistent_workers=a.workers > 0,
    )
    val = DataLoader(Fields(a.val, a.side, 2), a.val_batch, num_workers=a.workers)
    optimizer = torch.optim.SGD(
        [
            {"params": student.backbone.parameters(), "lr": 0.01},
            {"params": student.classifier.parameters(), "lr": 0.1},
            {"params": student.aux_classifier.parameters(), "lr": 0.1},
        ],
        momentum=0.9,
        weight_decay=1e-4,
    )
    poly = torch.optim.lr_scheduler.PolynomialLR(optimizer, len(train), 0.9)
    scaler = torch.amp.GradScaler(a.device, enabled=amp)

    student.train()
    for step, (image, mask) in enumerate(train):
        image = image.to(a.device, non_blocking=True)
        mask = mask.to(a.device, non_blocking=True)
        with torch.autocast(a.device, torch.float16, enabled=amp):
            with torch.no_grad():
                wanted = teacher(image)["out"]
            out = student(image)
            hard = F.cross_entropy(out["out"], mask) + 0.4 * F.cross_entropy(out["aux"], mask)
            soft = F.kl_div(
                F.log_softmax(out["out"], 1), F.log_softmax(wanted, 1), log_target=True,
                reduction="none",
            ).sum(1).mean()  # fmt: skip
            loss = hard + a.soft * soft
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        poly.step()
        if step % 5 == 0:
            print(f"step {step} hard {hard.item():.3f} soft {soft.item():.4f}")

    student.eval()
    iou = MeanIoU(len(CLASSES), a.device)
    with torch.inference_mode():
        for image, mask in val:
            with torch.autocast(a.device, torch.float16, enabled=amp):
                guess = student(image.to(a.device))["out"].argmax(1)
            iou.add(guess, mask.to(a.device))
    print(f"mIoU {iou.value():.4f}")
    torch.save(student.state_dict(), "weeds.pt")


if __name__ == "__main__":
    main()
