"""Multi-label photo tagging with torchvision's VGG13-BN under torch.compile, channels_last and bf16; DataLoader workers, images of 208 x 208, precision and recall at the end."""

import argparse
import time

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision.models import vgg13_bn

TAGS = 33


class Photos(Dataset):
    def __init__(self, n, side, seed):
        g = torch.Generator().manual_seed(seed)
        self.tags = (torch.rand(n, TAGS, generator=g) < 0.12).float()
        self.side, self.seed = side, seed

    def __len__(self):
        return len(self.tags)

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 65_537 + i)
        image = torch.randint(0, 256, (3, self.side, self.side), generator=g, dtype=torch.uint8)
        if torch.rand((), generator=g) < 0.5:
            image = image.flip(-1)
        return image, self.tags[i]


def normalise(image, device):
    image = image.to(device, non_blocking=True).float().div_(255)
    mean = torch.tensor([0.485, 0.456, 0.406], device=device).view(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225], device=device).view(3, 1, 1)
    return ((image - mean) / std).contiguous(memory_format=torch.channels_last)


def asymmetric(logits, tags, clip=0.05):
    """Easy negatives count less."""
    p = torch.sigmoid(logits.float())
    q = (1 - p + clip).clamp(max=1)
    loss = tags * p.clamp(min=1e-8).log() + (1 - tags) * (1 - q).pow(4) * q.clamp(min=1e-8).log()
    return -loss.sum(1).mean()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--side", type=int, default=208)
    p.add_argument("--batch", type=int, default=96)
    p.add_argument("--train", type=int, default=2000)
    p.add_argument("--test", type=int, default=300)
    p.add_argument("--workers", type=int, default=6)
    p.add_argument("--lr", type=float, default=0.01)
    p.add_argument("--no-compile", action="store_true")
    a = p.parse_args()
    torch.manual_seed(99)

    model = vgg13_bn(num_classes=TAGS, dropout=0.3)
    model = model.to(a.device, memory_format=torch.channels_last)
    run = model if a.no_compile else torch.compile(model)
    train = DataLoader(
        Photos(a.train, a.side, 1),
        a.batch,
        shuffle=True,
        num_workers=a.workers,
        drop_last=True,
        pin_memory=a.device == "cuda",
    )
    test = DataLoader(Photos(a.test, a.side, 2), a.batch, num_workers=a.workers, drop_last=True)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=a.lr, momentum=0.9, weight_decay=1e-4, nesterov=True
    )
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, a.lr, total_steps=len(train))

    model.train()
    for step, (image, tags) in enumerate(train):
        began = time.perf_counter()
        image, tags = normalise(image, a.device), tags.to(a.device)
        with torch.autocast(a.device, torch.bfloat16):
            logits = run(image)
        loss = asymmetric(logits, tags)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        cycle.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.3f} {time.perf_counter() - began:.2f} s")

    model.eval()
    right = said = there = 0
    plain = 0.0
    with torch.inference_mode(), torch.autocast(a.device, torch.bfloat16):
        for image, tags in test:
            tags = tags.to(a.device)
            logits = model(normalise(image, a.device)).float()
            plain += F.binary_cross_entropy_with_logits(logits, tags).item()
            guess = logits > 0
            right += (guess & tags.bool()).sum().item()
            said += guess.sum().item()
            there += tags.sum().item()
    print(
        f"precision {right / max(said, 1):.3f} recall {right / max(there, 1):.3f} bce {plain:.3f}"
    )


if __name__ == "__main__":
    main()
