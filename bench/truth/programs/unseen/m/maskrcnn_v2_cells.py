"""Instance segmentation of cells with torchvision's Mask R-CNN v2; microscope images of different sizes, SGD with linear warm-up, DataLoader workers, a last short batch."""

import argparse
import random
import time

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.models.detection import maskrcnn_resnet50_fpn_v2
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor
from torchvision.models.detection.mask_rcnn import MaskRCNNPredictor


class Cells(Dataset):
    """Discs on noise."""

    def __init__(self, n, low, high, most, seed):
        rnd = random.Random(seed)
        self.sizes = [(rnd.randint(low, high), rnd.randint(low, high)) for _ in range(n)]
        self.counts = [rnd.randint(3, most) for _ in range(n)]
        self.seed = seed

    def __len__(self):
        return len(self.sizes)

    def __getitem__(self, i):
        rnd = random.Random(self.seed * 7919 + i)
        h, w = self.sizes[i]
        image = torch.rand(3, h, w) * 0.3
        yy, xx = torch.arange(h)[:, None], torch.arange(w)[None]
        boxes, masks, labels = [], [], []
        for _ in range(self.counts[i]):
            r = rnd.randint(h // 24, h // 8)
            y, x = rnd.randint(r, h - r - 1), rnd.randint(r, w - r - 1)
            mask = (yy - y) ** 2 + (xx - x) ** 2 <= r * r
            kind = rnd.randint(1, 3)
            image[kind - 1][mask] += 0.6
            boxes.append([x - r, y - r, x + r, y + r])
            masks.append(mask)
            labels.append(kind)
        return image, {
            "boxes": torch.tensor(boxes, dtype=torch.float32),
            "labels": torch.tensor(labels),
            "masks": torch.stack(masks).to(torch.uint8),
            "image_id": torch.tensor(i),
        }


def collate(batch):
    return tuple(zip(*batch))


def make_model(classes, min_size, max_size):
    model = maskrcnn_resnet50_fpn_v2(
        weights=None, weights_backbone=None, min_size=min_size, max_size=max_size
    )
    inside = model.roi_heads.box_predictor.cls_score.in_features
    model.roi_heads.box_predictor = FastRCNNPredictor(inside, classes)
    inside = model.roi_heads.mask_predictor.conv5_mask.in_channels
    model.roi_heads.mask_predictor = MaskRCNNPredictor(inside, 256, classes)
    return model


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--images", type=int, default=70)
    p.add_argument("--low", type=int, default=380)
    p.add_argument("--high", type=int, default=640)
    p.add_argument("--min-size", type=int, default=600)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--cells", type=int, default=25)
    p.add_argument("--workers", type=int, default=4)
    a = p.parse_args()
    random.seed(6)
    torch.manual_seed(6)

    model = make_model(4, a.min_size, int(a.min_size * 1.6)).to(a.device)
    loader = DataLoader(
        Cells(a.images, a.low, a.high, a.cells, 1),
        a.batch,
        shuffle=True,
        num_workers=a.workers,
        collate_fn=collate,
    )
    test = DataLoader(Cells(8, a.low, a.high, a.cells, 2), 2, collate_fn=collate)
    optimizer = torch.optim.SGD(
        [q for q in model.parameters() if q.requires_grad], 0.005, momentum=0.9, weight_decay=5e-4
    )
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.001, total_iters=len(loader) - 1)

    model.train()
    began = time.time()
    for step, (images, targets) in enumerate(loader):
        images = [x.to(a.device) for x in images]
        targets = [{k: v.to(a.device) for k, v in t.items()} for t in targets]
        losses = model(images, targets)
        total = sum(losses.values())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        warmup.step()
        if step % 4 == 0:
            parts = " ".join(f"{k[5:]} {v.item():.3f}" for k, v in losses.items())
            print(f"{step} total {total.item():.3f} {parts} ({time.time() - began:.1f} s)")

    model.eval()
    found = 0
    with torch.inference_mode():
        for images, _ in test:
            for out in model([x.to(a.device) for x in images]):
                found += int((out["scores"] > 0.3).sum())
    print("cells found", found)


if __name__ == "__main__":
    main()
