"""Faster R-CNN with a MobileNetV3 backbone for pallets in warehouse pictures of different shapes."""

import bisect
import datetime
import math
import sys
import time
from collections import defaultdict, deque

import torch
import torch.utils.data
import torchvision
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor
from torchvision.ops import box_iou

NUM_CLASSES = 4  # background, pallet, fork lift, person
TRAIN_IMAGES = 240
TEST_IMAGES = 60
BATCH_SIZE = 12
WORKERS = 6
EPOCHS = 2
SHAPES = [(600, 800), (800, 600), (720, 1280), (768, 768)]
MIN_SIZE = (480, 560, 640, 720)


class SmoothedValue:
    def __init__(self, window_size=20):
        self.deque = deque(maxlen=window_size)
        self.total, self.count = 0.0, 0

    def update(self, value):
        self.deque.append(value)
        self.count += 1
        self.total += value

    @property
    def median(self):
        return torch.tensor(list(self.deque)).median().item()

    def __str__(self):
        return f"{self.median:.4f} ({self.total / max(1, self.count):.4f})"


class MetricLogger:
    def __init__(self):
        self.meters = defaultdict(SmoothedValue)

    def update(self, **kwargs):
        for k, v in kwargs.items():
            self.meters[k].update(v.item() if isinstance(v, torch.Tensor) else v)

    def log_every(self, iterable, freq, header):
        start = time.time()
        for i, obj in enumerate(iterable):
            yield obj
            if i % freq == 0:
                print(
                    header,
                    f"[{i}/{len(iterable)}]",
                    "  ".join(f"{k}: {v}" for k, v in self.meters.items()),
                )
        print(header, "total time", datetime.timedelta(seconds=int(time.time() - start)))


class Warehouse(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def shape(self, i):
        return SHAPES[(i * 7 + self.seed) % len(SHAPES)]

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 1000 + i)
        h, w = self.shape(i)
        img = torch.rand(3, h, w, generator=g) * 0.3
        k = int(torch.randint(0, 9, (1,), generator=g))
        boxes, labels = [], []
        for _ in range(k):
            bw, bh = (torch.rand(2, generator=g) * torch.tensor([w, h]) * 0.25 + 20).long().tolist()
            x, y = (
                int(torch.randint(0, w - bw, (1,), generator=g)),
                int(torch.randint(0, h - bh, (1,), generator=g)),
            )
            c = int(torch.randint(1, NUM_CLASSES, (1,), generator=g))
            img[c - 1, y : y + bh, x : x + bw] += 0.6
            boxes.append([x, y, x + bw, y + bh])
            labels.append(c)
        target = {
            "boxes": torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4),
            "labels": torch.tensor(labels, dtype=torch.int64),
            "image_id": i,
        }
        return img, target


class GroupedBatchSampler(torch.utils.data.Sampler):
    """Puts pictures with a similar aspect ratio into one batch."""

    def __init__(self, sampler, dataset, batch_size, bins=(0.9, 1.1)):
        self.sampler, self.batch_size = sampler, batch_size
        self.group = [
            bisect.bisect_right(bins, dataset.shape(i)[1] / dataset.shape(i)[0])
            for i in range(len(dataset))
        ]

    def __iter__(self):
        buffers = defaultdict(list)
        for i in self.sampler:
            buf = buffers[self.group[i]]
            buf.append(i)
            if len(buf) == self.batch_size:
                yield list(buf)
                buf.clear()
        for buf in buffers.values():
            if buf:
                yield buf

    def __len__(self):
        counts = defaultdict(int)
        for gr in self.group:
            counts[gr] += 1
        return sum(math.ceil(c / self.batch_size) for c in counts.values())


def collate_fn(batch):
    return tuple(zip(*batch))


def get_model():
    model = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_fpn(
        weights=None,
        weights_backbone=None,
        trainable_backbone_layers=6,
        min_size=MIN_SIZE,
        max_size=1280,
    )
    in_features = model.roi_heads.box_predictor.cls_score.in_features
    model.roi_heads.box_predictor = FastRCNNPredictor(in_features, NUM_CLASSES)
    return model


def train_one_epoch(model, optimizer, loader, device, epoch):
    model.train()
    logger = MetricLogger()
    warmup = None
    if epoch == 0:
        iters = min(1000, len(loader) - 1)
        warmup = torch.optim.lr_scheduler.LinearLR(
            optimizer, start_factor=1.0 / 1000, total_iters=iters
        )
    for images, targets in logger.log_every(loader, 5, f"Epoch: [{epoch}]"):
        images = [image.to(device) for image in images]
        targets = [
            {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in t.items()}
            for t in targets
        ]
        loss_dict = model(images, targets)
        losses = sum(loss for loss in loss_dict.values())
        loss_value = losses.item()
        if not math.isfinite(loss_value):
            print(f"Loss is {loss_value}, stopping training")
            print(loss_dict)
            sys.exit(1)
        optimizer.zero_grad()
        losses.backward()
        optimizer.step()
        if warmup is not None:
            warmup.step()
        logger.update(loss=losses, lr=optimizer.param_groups[0]["lr"], **loss_dict)


@torch.inference_mode()
def evaluate(model, loader, device):
    model.eval()
    tp = found = truth = 0
    for images, targets in loader:
        outputs = model([img.to(device) for img in images])
        outputs = [{k: v.to("cpu") for k, v in o.items()} for o in outputs]
        for out, tgt in zip(outputs, targets):
            keep = out["scores"] > 0.3
            found += int(keep.sum())
            truth += len(tgt["boxes"])
            if keep.any() and len(tgt["boxes"]):
                iou = box_iou(out["boxes"][keep], tgt["boxes"])
                tp += int((iou.max(0).values > 0.5).sum())
    print(f"recall {tp / max(1, truth):.3f} with {found} detections for {truth} objects")


def main():
    device = torch.device("cuda")
    torch.manual_seed(0)
    train, test = Warehouse(TRAIN_IMAGES, 1), Warehouse(TEST_IMAGES, 2)
    batch_sampler = GroupedBatchSampler(torch.utils.data.RandomSampler(train), train, BATCH_SIZE)
    loader = torch.utils.data.DataLoader(
        train, batch_sampler=batch_sampler, num_workers=WORKERS, collate_fn=collate_fn
    )
    test_loader = torch.utils.data.DataLoader(
        test, batch_size=4, num_workers=WORKERS, collate_fn=collate_fn
    )
    model = get_model().to(device)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=0.005, momentum=0.9, weight_decay=0.0005)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
    for epoch in range(EPOCHS):
        train_one_epoch(model, optimizer, loader, device, epoch)
        scheduler.step()
        evaluate(model, test_loader, device)


if __name__ == "__main__":
    main()
