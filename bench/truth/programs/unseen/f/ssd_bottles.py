"""Bottles in shelves: SSD300 on VGG-16, two groups of weights, steps of a fixed count instead of epochs."""

import itertools
import os
import tempfile
import time

import torch
import torchvision
from torchvision.models.detection.ssd import SSDClassificationHead

CLASSES = 21
BATCH, ITERATIONS, LOG_EVERY, SAVE_EVERY = 64, 90, 15, 45
LR, MOMENTUM, DECAY = 1e-3, 0.9, 5e-4
SHELF = 300

torch.manual_seed(42)


class Shelves(torch.utils.data.IterableDataset):
    """Endless; each worker has its own seed."""

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        g = torch.Generator().manual_seed(worker.id if worker else 0)
        while True:
            image = torch.rand(3, SHELF, SHELF, generator=g)
            n = int(torch.randint(1, 30, (1,), generator=g))
            start = torch.rand(n, 2, generator=g) * SHELF * 0.7
            size = SHELF * (0.05 + 0.2 * torch.rand(n, 2, generator=g))
            labels = torch.randint(1, CLASSES, (n,), generator=g)
            yield image, {"boxes": torch.cat([start, start + size], 1), "labels": labels}


def split_params(model):
    biases, others = [], []
    for name, param in model.named_parameters():
        if param.requires_grad:
            (biases if name.endswith(".bias") else others).append(param)
    return [{"params": biases, "lr": 2 * LR, "weight_decay": 0.0}, {"params": others}]


def save(path, model, optimizer, step):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, path + ".tmp")
    os.replace(path + ".tmp", path)


def main():
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model = torchvision.models.detection.ssd300_vgg16(weights=None, weights_backbone=None)
    anchors = model.anchor_generator.num_anchors_per_location()
    channels = torchvision.models.detection._utils.retrieve_out_channels(model.backbone, (300, 300))
    model.head.classification_head = SSDClassificationHead(channels, anchors, CLASSES)
    model.to(device)
    model.train()
    optimizer = torch.optim.SGD(split_params(model), lr=LR, momentum=MOMENTUM, weight_decay=DECAY)
    loader = torch.utils.data.DataLoader(
        Shelves(),
        BATCH,
        num_workers=4,
        collate_fn=lambda rows: tuple(zip(*rows)),
        prefetch_factor=2,
    )
    start, running = time.perf_counter(), 0.0
    with tempfile.TemporaryDirectory() as folder:
        for step, (images, targets) in enumerate(itertools.islice(loader, ITERATIONS), 1):
            images = [image.to(device, non_blocking=True) for image in images]
            targets = [{k: v.to(device) for k, v in target.items()} for target in targets]
            losses = model(images, targets)
            loss = losses["bbox_regression"] + losses["classification"]
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 10)
            optimizer.step()
            running += loss.detach()
            if step % LOG_EVERY == 0:
                spent = time.perf_counter() - start
                print(
                    f"step {step}: loss {float(running) / LOG_EVERY:.3f}, {BATCH * step / spent:.0f} images/s"
                )
                running = 0.0
            if step % SAVE_EVERY == 0:
                save(os.path.join(folder, "ssd.pth"), model, optimizer, step)
        loaded = torch.load(os.path.join(folder, "ssd.pth"), map_location=device)
        model.load_state_dict(loaded["model"])
        optimizer.load_state_dict(loaded["optimizer"])
    model.eval()
    model.score_thresh = 0.05
    with torch.no_grad():
        images, _ = next(iter(loader))
        found = model([image.to(device) for image in images])
    print("boxes per picture:", sum(len(f["boxes"]) for f in found) / len(found))


if __name__ == "__main__":
    main()
