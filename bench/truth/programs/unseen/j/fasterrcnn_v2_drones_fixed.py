"""Drones in the sky with Faster R-CNN v2. All pictures are 640x640 and have the same number of boxes."""

import random

import numpy as np
import torch
from torchvision.models.detection import fasterrcnn_resnet50_fpn_v2

SIZE = 640
BOXES = 6
CLASSES = 4  # background, quad, plane, bird
BATCH = 6
STEPS = 16


def make_sample(rng):
    image = rng.random((3, SIZE, SIZE), dtype=np.float32) * 0.2 + 0.6
    boxes, labels = [], []
    for _ in range(BOXES):
        w, h = rng.integers(24, 120, 2)
        x, y = rng.integers(0, SIZE - w), rng.integers(0, SIZE - h)
        label = int(rng.integers(1, CLASSES))
        image[:, y : y + h, x : x + w] *= 0.2 * label
        boxes.append([x, y, x + w, y + h])
        labels.append(label)
    target = {
        "boxes": torch.tensor(boxes, dtype=torch.float32),
        "labels": torch.tensor(labels, dtype=torch.int64),
    }
    return torch.from_numpy(image), target


def main():
    random.seed(8)
    np.random.seed(8)
    torch.manual_seed(8)
    rng = np.random.default_rng(8)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    model = fasterrcnn_resnet50_fpn_v2(
        weights=None,
        weights_backbone=None,
        num_classes=CLASSES,
        min_size=SIZE,
        max_size=SIZE,
        trainable_backbone_layers=5,
    ).to(device)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=0.002, momentum=0.9, weight_decay=1e-4)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.01, total_iters=10)

    model.train()
    for step in range(STEPS):
        images, targets = zip(*[make_sample(rng) for _ in range(BATCH)])
        images = [im.to(device) for im in images]
        targets = [{k: v.to(device) for k, v in t.items()} for t in targets]
        losses = model(images, targets)
        loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 10.0)
        optimizer.step()
        warmup.step()
        if step % 4 == 0:
            text = " ".join(f"{k} {v.item():.3f}" for k, v in losses.items())
            print(f"step {step} total {loss.item():.3f} {text}")

    model.eval()
    found = 0
    with torch.no_grad():
        for _ in range(3):
            images = [make_sample(rng)[0].to(device) for _ in range(4)]
            for out in model(images):
                found += int((out["scores"] > 0.3).sum())
    print("boxes above 0.3:", found)


if __name__ == "__main__":
    main()
