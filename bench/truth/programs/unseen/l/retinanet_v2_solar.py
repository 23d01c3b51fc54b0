"""torchvision RetinaNet v2 (GIoU) that finds solar panels of three kinds; TF32, linear warm-up, DataLoader with workers, recall at the end, as in the reference scripts."""

import argparse
import time
from collections import defaultdict

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.models.detection import retinanet_resnet50_fpn_v2
from torchvision.ops import box_iou


class Roofs(Dataset):
    def __init__(self, n, sizes, seed):
        self.n, self.sizes, self.seed = n, sizes, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 3_571 + i)
        h, w = self.sizes[i % len(self.sizes)]
        image = torch.rand(3, h, w, generator=g)
        k = int(torch.randint(1, 9, (1,), generator=g))
        xy = torch.rand(k, 2, generator=g) * torch.tensor([w * 0.7, h * 0.7])
        wh = torch.rand(k, 2, generator=g) * torch.tensor([w * 0.2, h * 0.2]) + 16
        boxes = torch.cat([xy, xy + wh], 1)
        for x0, y0, x1, y1 in boxes.int().tolist():
            image[:, y0:y1, x0:x1] *= 0.3
        return image, {"boxes": boxes, "labels": torch.randint(1, 4, (k,), generator=g)}


def collate(rows):
    return tuple(zip(*rows))


class Meter:
    def __init__(self):
        self.values = defaultdict(list)

    def add(self, **kw):
        for k, v in kw.items():
            self.values[k].append(float(v))

    def __str__(self):
        return " ".join(f"{k} {sum(v[-10:]) / len(v[-10:]):.4f}" for k, v in self.values.items())


def train_one_epoch(model, opt, loader, device, epoch):
    model.train()
    meter = Meter()
    warm = None
    if epoch == 0:
        warm = torch.optim.lr_scheduler.LinearLR(
            opt, start_factor=0.001, total_iters=min(20, len(loader) - 1)
        )
    for i, (images, targets) in enumerate(loader):
        images = [x.to(device) for x in images]
        targets = [{k: v.to(device) for k, v in t.items()} for t in targets]
        losses = model(images, targets)
        loss = sum(losses.values())
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        opt.step()
        if warm is not None:
            warm.step()
        meter.add(loss=loss, **losses)
        if i % 8 == 0:
            print(f"epoch {epoch} [{i}/{len(loader)}] {meter}")


@torch.inference_mode()
def recall(model, loader, device):
    model.eval()
    hit = total = 0
    for images, targets in loader:
        outputs = model([x.to(device) for x in images])
        for out, t in zip(outputs, targets):
            total += len(t["boxes"])
            if len(out["boxes"]):
                hit += int((box_iou(t["boxes"].to(device), out["boxes"]).amax(1) > 0.5).sum())
    return hit / max(total, 1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--train", type=int, default=8 * 16)
    ap.add_argument("--test", type=int, default=24)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--side", type=int, default=640)
    ap.add_argument("--workers", type=int, default=4)
    a = ap.parse_args()
    torch.manual_seed(33)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    s = a.side
    sizes = [(s, s), (s, s * 5 // 4), (s * 9 // 8, s)]
    model = retinanet_resnet50_fpn_v2(
        weights=None,
        weights_backbone=None,
        num_classes=4,
        min_size=s,
        max_size=2 * s,
        topk_candidates=500,
        detections_per_img=100,
    ).to(device)
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.SGD(params, lr=0.005, momentum=0.9, weight_decay=1e-4)
    train = DataLoader(
        Roofs(a.train, sizes, 1),
        a.batch,
        shuffle=True,
        collate_fn=collate,
        num_workers=a.workers,
        drop_last=True,
    )
    test = DataLoader(
        Roofs(a.test, sizes, 2), a.batch // 2, collate_fn=collate, num_workers=a.workers
    )
    start = time.time()
    for epoch in range(a.epochs):
        train_one_epoch(model, opt, train, device, epoch)
    print(f"recall {recall(model, test, device):.3f} after {time.time() - start:.1f}s")


if __name__ == "__main__":
    main()
