"""A trainer for pictures with many switches: mixup, EMA, channels last, fp16 with a loss scale, recovery points."""

import argparse
import copy
import logging
import os
import time
from collections import OrderedDict

import torch
import torchvision
import yaml
from torch import nn

_logger = logging.getLogger("train")

DEFAULTS = """
model: regnet_y_3_2gf
num_classes: 1000
img_size: 224
batch_size: 128
validation_batch_size: 320
opt: rmsprop
lr: 0.016
weight_decay: 1.0e-5
epochs: 2
steps_per_epoch: 22
warmup_lr: 1.0e-6
smoothing: 0.1
mixup: 0.2
clip_grad: 1.0
model_ema: true
model_ema_decay: 0.998
channels_last: true
amp: true
workers: 6
recovery_interval: 10
log_interval: 10
seed: 42
"""


class FakeImages(torch.utils.data.Dataset):
    def __init__(self, count, size, classes):
        self.count, self.size, self.classes = count, size, classes

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        x = torch.randint(0, 256, (3, self.size, self.size), generator=g, dtype=torch.uint8)
        return x, i * 7919 % self.classes


class PrefetchLoader:
    """Copies the next batch to the card on its own stream, and makes it float there."""

    def __init__(self, loader, device):
        self.loader, self.device = loader, device
        self.mean = torch.tensor([0.485, 0.456, 0.406], device=device).mul(255).view(1, 3, 1, 1)
        self.std = torch.tensor([0.229, 0.224, 0.225], device=device).mul(255).view(1, 3, 1, 1)

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        stream = torch.cuda.Stream()
        images = target = None
        for next_input, next_target in self.loader:
            with torch.cuda.stream(stream):
                next_input = next_input.to(self.device, non_blocking=True)
                next_target = next_target.to(self.device, non_blocking=True)
                next_input = next_input.float().sub_(self.mean).div_(self.std)
            if images is not None:
                yield images, target
            torch.cuda.current_stream().wait_stream(stream)
            images, target = next_input, next_target
        yield images, target


class ModelEma(nn.Module):
    def __init__(self, model, decay):
        super().__init__()
        self.module = copy.deepcopy(model).eval()
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for e, m in zip(self.module.state_dict().values(), model.state_dict().values()):
            e.copy_(self.decay * e + (1.0 - self.decay) * m)


def mixup(x, y, alpha, classes, smoothing):
    off = smoothing / classes
    one = torch.full((len(y), classes), off, device=y.device).scatter_(
        1, y[:, None], 1 - smoothing + off
    )
    lam = torch.distributions.Beta(alpha, alpha).sample().item()
    return x.mul_(lam).add_(x.flip(0).mul(1 - lam)), one * lam + one.flip(0) * (1 - lam)


def train_one_epoch(epoch, model, loader, tools, args):
    optimizer, scaler, ema = tools
    model.train()
    losses, start = 0.0, time.time()
    for i, (images, target) in enumerate(loader):
        if args.channels_last:
            images = images.contiguous(memory_format=torch.channels_last)
        images, target = mixup(images, target, args.mixup, args.num_classes, args.smoothing)
        with torch.autocast("cuda", torch.float16, enabled=args.amp):
            output = model(images)
            loss = torch.sum(-target * torch.log_softmax(output, dim=-1), dim=-1).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), args.clip_grad)
        scaler.step(optimizer)
        scaler.update()
        if ema is not None:
            ema.update(model)
        losses += loss.item()
        if (i + 1) % args.log_interval == 0:
            _logger.info(
                "Train: %d [%d/%d] loss %.3f (%.1fs)",
                epoch,
                i,
                len(loader),
                losses / (i + 1),
                time.time() - start,
            )
        if (i + 1) % args.recovery_interval == 0:
            state = {
                "epoch": epoch,
                "state_dict": model.state_dict(),
                "optimizer": optimizer.state_dict(),
            }
            torch.save(state, os.path.join(".", f"recovery-{epoch}.pth.tar"))
    return OrderedDict(loss=losses / len(loader))


@torch.no_grad()
def validate(model, loader, args):
    model.eval()
    top1 = seen = 0
    for images, target in loader:
        if args.channels_last:
            images = images.contiguous(memory_format=torch.channels_last)
        with torch.autocast("cuda", torch.float16, enabled=args.amp):
            output = model(images)
        top1 += (output.argmax(1) == target).sum().item()
        seen += len(target)
    return OrderedDict(top1=100.0 * top1 / seen)


def main():
    parser = argparse.ArgumentParser(description="Training")
    parser.add_argument("-c", "--config", default="", help="YAML file with other defaults")
    for key, value in yaml.safe_load(DEFAULTS).items():
        kind = type(value)
        parser.add_argument("--" + key.replace("_", "-"), type=kind, default=value)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(args.seed)
    device = torch.device("cuda")
    model = getattr(torchvision.models, args.model)(num_classes=args.num_classes).to(device)
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
    _logger.info(
        "%s: %.1f M parameters", args.model, sum(p.numel() for p in model.parameters()) / 1e6
    )
    optimizer = torch.optim.RMSprop(
        model.parameters(),
        lr=args.lr,
        alpha=0.9,
        eps=1e-3,
        momentum=0.9,
        weight_decay=args.weight_decay,
    )
    scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
    ema = ModelEma(model, args.model_ema_decay) if args.model_ema else None
    train_set = FakeImages(args.batch_size * args.steps_per_epoch, args.img_size, args.num_classes)
    val_set = FakeImages(args.validation_batch_size * 2 + 50, args.img_size, args.num_classes)
    options = {"num_workers": args.workers, "pin_memory": True, "persistent_workers": True}
    train_loader = torch.utils.data.DataLoader(
        train_set, args.batch_size, shuffle=True, drop_last=True, **options
    )
    val_loader = torch.utils.data.DataLoader(val_set, args.validation_batch_size, **options)
    train_loader, val_loader = (
        PrefetchLoader(train_loader, device),
        PrefetchLoader(val_loader, device),
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs, args.warmup_lr)
    best = None
    for epoch in range(args.epochs):
        stats = train_one_epoch(epoch, model, train_loader, (optimizer, scaler, ema), args)
        score = validate(model, val_loader, args)
        if ema is not None:
            score = validate(ema.module, val_loader, args)
        schedule.step()
        if best is None or score["top1"] >= best:
            best = score["top1"]
            torch.save(
                {"state_dict": model.state_dict(), "ema": ema.state_dict()}, "model_best.pth.tar"
            )
        _logger.info(
            "epoch %d: loss %.3f, top1 %.2f, best %.2f", epoch, stats["loss"], score["top1"], best
        )


if __name__ == "__main__":
    main()
