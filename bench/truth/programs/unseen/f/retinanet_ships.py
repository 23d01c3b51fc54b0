"""Ships from above: RetinaNet, the body frozen first and then free, bf16, larger pictures when it is tested."""

import argparse
import contextlib

import torch
import torchvision
from torch.utils.data import DataLoader, Dataset


class Ships(Dataset):
    def __init__(self, count, size, seed):
        self.count, self.size, self.seed = count, size, seed

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        image = torch.rand(3, self.size, self.size, generator=g) * 0.3
        count = i % 7  # some pictures show no ship at all
        xy = torch.rand(count, 2, generator=g) * (self.size - 80)
        boxes = torch.cat([xy, xy + 16 + 60 * torch.rand(count, 2, generator=g)], 1)
        return image, {"boxes": boxes, "labels": torch.ones(count, dtype=torch.long)}


def collate(rows):
    return [row[0] for row in rows], [row[1] for row in rows]


def set_body(model, trainable):
    for name, p in model.backbone.body.named_parameters():
        p.requires_grad_(trainable and not name.startswith(("conv1", "bn1")))


def run_epoch(model, loader, optimizer, device):
    model.train()
    total = 0.0
    for images, targets in loader:
        images = [image.to(device) for image in images]
        targets = [{k: v.to(device) for k, v in t.items()} for t in targets]
        with torch.autocast(device.type, dtype=torch.bfloat16):
            losses = model(images, targets)
        loss = losses["classification"] + losses["bbox_regression"]
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        total += loss.item()
    return total / len(loader)


@torch.inference_mode()
def test(model, loader, device):
    model.eval()
    found = 0
    for images, _ in loader:
        outputs = model([image.to(device) for image in images])
        found += sum(len(out["scores"]) for out in outputs)
    return found


@contextlib.contextmanager
def memory(title):
    torch.cuda.reset_peak_memory_stats()
    yield
    print(f"{title}: {torch.cuda.max_memory_allocated() / 1e9:.2f} GB")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=192)
    parser.add_argument("--size", type=int, default=640)
    parser.add_argument("--test-size", type=int, default=1280)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--test-batch", type=int, default=8)
    parser.add_argument("--frozen-epochs", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(5)
    device = torch.device("cuda")
    model = torchvision.models.detection.retinanet_resnet50_fpn(
        weights=None,
        weights_backbone=None,
        num_classes=2,
        min_size=args.size,
        max_size=2 * args.size,
    ).to(device)
    train = DataLoader(
        Ships(args.images, args.size, 0), args.batch, True, num_workers=4, collate_fn=collate
    )
    tests = DataLoader(
        Ships(16, args.test_size, 10_000), args.test_batch, num_workers=2, collate_fn=collate
    )
    set_body(model, False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    with memory("frozen"):
        for _ in range(args.frozen_epochs):
            print("frozen", run_epoch(model, train, optimizer, device))
    set_body(model, True)
    optimizer.add_param_group(
        {"params": [p for p in model.backbone.body.parameters() if p.requires_grad], "lr": 1e-5}
    )
    with memory("free"):
        for _ in range(args.epochs):
            print("free", run_epoch(model, train, optimizer, device))
    model.transform.min_size, model.transform.max_size = (args.test_size,), 2 * args.test_size
    with memory("test"):
        print("found", test(model, tests, device))


if __name__ == "__main__":
    main()
