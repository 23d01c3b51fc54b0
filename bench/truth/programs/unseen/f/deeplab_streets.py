"""Streets: DeepLabV3 with the auxiliary head, fp16, poly rate, then whole pictures in one piece at three scales."""

import os

import torch
import torch.nn.functional as F
import torchvision
from torch import nn
from torch.utils.data import DataLoader, Dataset

CROP = int(os.environ.get("CROP", "512"))
FULL = (1024, 2048)
CLASSES, IGNORE = 19, 255
BATCH, STEPS = 12, 40
SCALES = (0.75, 1.0, 1.25)


class Streets(Dataset):
    def __init__(self, count, height, width):
        self.count, self.height, self.width = count, height, width

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        small = torch.randint(0, CLASSES, (1, 1, self.height // 32, self.width // 32), generator=g)
        mask = F.interpolate(small.float(), size=(self.height, self.width))[0, 0].long()
        image = mask[None] / CLASSES + torch.rand(3, self.height, self.width, generator=g) * 0.2
        mask[: self.height // 16] = IGNORE
        return image, mask.to(torch.uint8)


class ConfusionMatrix:
    def __init__(self, n):
        self.n, self.mat = n, None

    def update(self, truth, guess):
        if self.mat is None:
            self.mat = torch.zeros((self.n, self.n), dtype=torch.int64, device=truth.device)
        with torch.inference_mode():
            k = (truth >= 0) & (truth < self.n)
            inds = self.n * truth[k].to(torch.int64) + guess[k]
            self.mat += torch.bincount(inds, minlength=self.n**2).reshape(self.n, self.n)

    def compute(self):
        h = self.mat.float()
        acc = torch.diag(h).sum() / h.sum()
        iou = torch.diag(h) / (h.sum(1) + h.sum(0) - torch.diag(h)).clamp(min=1)
        return acc.item(), iou.mean().item()


def criterion(outputs, target):
    losses = {
        k: nn.functional.cross_entropy(x, target, ignore_index=IGNORE) for k, x in outputs.items()
    }
    return losses["out"] + 0.5 * losses["aux"]


@torch.no_grad()
def whole(model, image):
    """The mean of several scales and of the mirrored picture."""
    size = image.shape[-2:]
    total = torch.zeros(len(image), CLASSES, *size, device=image.device)
    for scale in SCALES:
        x = F.interpolate(image, scale_factor=scale, mode="bilinear", align_corners=False)
        for flip in (False, True):
            with torch.autocast("cuda", torch.float16):
                out = model(x.flip(-1) if flip else x)["out"]
            out = F.interpolate(out.float(), size=size, mode="bilinear", align_corners=False)
            total += (out.flip(-1) if flip else out).softmax(1)
    return total


def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = torchvision.models.segmentation.deeplabv3_resnet50(
        weights=None, weights_backbone=None, num_classes=CLASSES, aux_loss=True
    ).to(device)
    groups = [
        {"params": model.backbone.parameters()},
        {"params": model.classifier.parameters()},
        {"params": model.aux_classifier.parameters(), "lr": 0.1},
    ]
    optimizer = torch.optim.SGD(groups, lr=0.01, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=STEPS, power=0.9)
    scaler = torch.amp.GradScaler("cuda")
    loader = DataLoader(
        Streets(BATCH * STEPS, CROP, CROP), BATCH, num_workers=6, pin_memory=True, drop_last=True
    )
    model.train()
    for step, (image, mask) in enumerate(loader):
        image, mask = image.to(device, non_blocking=True), mask.to(device, non_blocking=True).long()
        with torch.autocast("cuda", torch.float16):
            loss = criterion(model(image), mask)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        if step % 10 == 0:
            print(f"{step}: {loss.item():.3f}, lr {schedule.get_last_lr()[0]:.4f}")
    model.eval()
    matrix = ConfusionMatrix(CLASSES)
    for image, mask in DataLoader(Streets(6, *FULL), 2):
        guess = whole(model, image.to(device)).argmax(1)
        matrix.update(mask.to(device).flatten().long(), guess.flatten())
    print("accuracy {:.3f}, mean IoU {:.3f}".format(*matrix.compute()))


if __name__ == "__main__":
    main()
