"""Parcels on a belt: Faster R-CNN with pictures of uneven size, warm-up, fp16, and evaluation each epoch."""

import math
import time
from collections import defaultdict

import torch
import torchvision
from torch.utils.data import DataLoader, Dataset
from torchvision.models.detection import fasterrcnn_resnet50_fpn_v2
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor

NUM_CLASSES = 6
TRAIN, VAL = 160, 24
BATCH = 8
EPOCHS = 2


class Parcels(Dataset):
    sizes = [(480, 640), (640, 480), (600, 800), (540, 960)]

    def __init__(self, count, seed):
        self.count, self.seed = count, seed

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        h, w = self.sizes[i % len(self.sizes)]
        image = 0.2 * torch.rand(3, h, w, generator=g)
        n = int(torch.randint(1, 12, (1,), generator=g))
        xy = torch.rand(n, 2, generator=g) * torch.tensor([w - 140.0, h - 140.0])
        wh = 30 + torch.rand(n, 2, generator=g) * 100
        boxes = torch.cat([xy, xy + wh], 1)
        for x0, y0, x1, y1 in boxes.long().tolist():
            image[:, y0:y1, x0:x1] += torch.rand(3, 1, 1, generator=g)
        target = {
            "boxes": boxes,
            "labels": torch.randint(1, NUM_CLASSES, (n,), generator=g),
            "image_id": i,
            "area": wh.prod(1),
            "iscrowd": torch.zeros(n, dtype=torch.int64),
        }
        return image, target


def collate_fn(batch):
    return tuple(zip(*batch))


class SmoothedValue:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value):
        self.total += value
        self.count += 1

    def __str__(self):
        return f"{self.total / max(self.count, 1):.4f}"


def train_one_epoch(model, optimizer, loader, epoch, scaler):
    model.train()
    meters = defaultdict(SmoothedValue)
    warmup = None
    if epoch == 0:
        iters = min(1000, len(loader) - 1)
        warmup = torch.optim.lr_scheduler.LinearLR(
            optimizer, start_factor=1.0 / 1000, total_iters=iters
        )
    for images, targets in loader:
        images = [image.to(device) for image in images]
        targets = [
            {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in t.items()}
            for t in targets
        ]
        with torch.autocast("cuda", dtype=torch.float16, enabled=scaler is not None):
            loss_dict = model(images, targets)
            losses = sum(loss for loss in loss_dict.values())
        value = losses.item()
        if not math.isfinite(value):
            print(f"Loss is {value}, batch skipped")
            print(loss_dict)
            continue
        optimizer.zero_grad()
        if scaler is not None:
            scaler.scale(losses).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            losses.backward()
            optimizer.step()
        if warmup is not None:
            warmup.step()
        for name, loss in loss_dict.items():
            meters[name].update(loss.item())
    print(f"epoch {epoch}: " + ", ".join(f"{k} {v}" for k, v in meters.items()))


@torch.inference_mode()
def evaluate(model, loader):
    cpu_device = torch.device("cpu")
    model.eval()
    hits = total = 0
    start = time.time()
    for images, targets in loader:
        images = [img.to(device) for img in images]
        outputs = model(images)
        outputs = [{k: v.to(cpu_device) for k, v in t.items()} for t in outputs]
        for out, target in zip(outputs, targets):
            if len(out["boxes"]):
                iou = torchvision.ops.box_iou(target["boxes"], out["boxes"])
                hits += (iou.max(1).values > 0.5).sum().item()
            total += len(target["boxes"])
    print(f"recall {hits / total:.3f} in {time.time() - start:.1f} s")


torch.manual_seed(0)
device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
model = fasterrcnn_resnet50_fpn_v2(weights=None, weights_backbone=None, trainable_backbone_layers=5)
in_features = model.roi_heads.box_predictor.cls_score.in_features
model.roi_heads.box_predictor = FastRCNNPredictor(in_features, NUM_CLASSES)
model.to(device)
params = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.SGD(params, lr=0.002, momentum=0.9, weight_decay=0.0005)
lr_scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.1)
scaler = torch.amp.GradScaler("cuda")
train_loader = DataLoader(
    Parcels(TRAIN, 0), BATCH, shuffle=True, num_workers=4, collate_fn=collate_fn
)
val_loader = DataLoader(Parcels(VAL, 9000), 1, num_workers=2, collate_fn=collate_fn)
for epoch in range(EPOCHS):
    train_one_epoch(model, optimizer, train_loader, epoch, scaler)
    lr_scheduler.step()
    evaluate(model, val_loader)
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"model_{epoch}.pth"
    )
