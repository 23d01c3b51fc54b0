"""ResNet-50 from scratch with MixUp / CutMix in the collate function, fp16, channels_last."""

import argparse
import time

import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader, Dataset, default_collate
from torchvision.transforms import v2


class AverageMeter:
    """Computes and stores the average and current value"""

    def __init__(self, name, fmt=":f"):
        self.name = name
        self.fmt = fmt
        self.reset()

    def reset(self):
        self.val = 0
        self.avg = 0
        self.sum = 0
        self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        fmtstr = "{name} {val" + self.fmt + "} ({avg" + self.fmt + "})"
        return fmtstr.format(**self.__dict__)


class FakePhotos(Dataset):
    def __init__(self, n, num_classes, transform):
        self.n = n
        self.num_classes = num_classes
        self.transform = transform
        g = torch.Generator().manual_seed(0)
        self.base = torch.randint(0, 256, (64, 3, 256, 256), dtype=torch.uint8, generator=g)
        self.labels = torch.randint(0, num_classes, (n,), generator=g)

    def __len__(self):
        return self.n

    def __getitem__(self, idx):
        img = self.base[idx % len(self.base)]
        return self.transform(img), int(self.labels[idx])


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        maxk = max(topk)
        batch_size = target.size(0)
        if target.ndim == 2:
            target = target.max(dim=1)[1]
        _, pred = output.topk(maxk, 1, True, True)
        pred = pred.t()
        correct = pred.eq(target[None])
        res = []
        for k in topk:
            correct_k = correct[:k].flatten().sum(dtype=torch.float32)
            res.append(correct_k * (100.0 / batch_size))
        return res


def train_one_epoch(model, criterion, optimizer, scheduler, loader, device, epoch, args, scaler):
    model.train()
    losses = AverageMeter("loss", ":.3f")
    top1 = AverageMeter("acc1", ":.2f")
    speed = AverageMeter("img/s", ":.0f")
    for i, (image, target) in enumerate(loader):
        start = time.time()
        image = image.to(device, non_blocking=True, memory_format=torch.channels_last)
        target = target.to(device, non_blocking=True)
        with torch.cuda.amp.autocast(enabled=args.amp):
            output = model(image)
            loss = criterion(output, target)

        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if args.clip_grad_norm is not None:
            # we should unscale the gradients of optimizer's assigned params if do gradient clipping
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), args.clip_grad_norm)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()

        acc1, acc5 = accuracy(output, target, topk=(1, 5))
        losses.update(loss.item(), image.size(0))
        top1.update(acc1.item(), image.size(0))
        speed.update(image.size(0) / (time.time() - start))
        if i % args.print_freq == 0:
            print(f"Epoch [{epoch}][{i}/{len(loader)}]", losses, top1, speed)


@torch.inference_mode()
def evaluate(model, criterion, loader, device, args):
    model.eval()
    losses, top5 = AverageMeter("loss", ":.3f"), AverageMeter("acc5", ":.2f")
    for image, target in loader:
        image = image.to(device, non_blocking=True)
        target = target.to(device, non_blocking=True)
        with torch.cuda.amp.autocast(enabled=args.amp):
            output = model(image)
            loss = criterion(output, target)
        _, acc5 = accuracy(output, target, topk=(1, 5))
        losses.update(loss.item(), image.size(0))
        top5.update(acc5.item(), image.size(0))
    print(" * Test:", losses, top5)
    return top5.avg


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("-b", "--batch-size", default=160, type=int)
    parser.add_argument("--val-batch-size", default=400, type=int)
    parser.add_argument("--train-images", default=3000, type=int)
    parser.add_argument("--val-images", default=900, type=int)
    parser.add_argument("--crop", default=176, type=int)
    parser.add_argument("--val-crop", default=224, type=int)
    parser.add_argument("--classes", default=1000, type=int)
    parser.add_argument("--epochs", default=2, type=int)
    parser.add_argument("-j", "--workers", default=8, type=int)
    parser.add_argument("--lr", default=0.5, type=float)
    parser.add_argument("--clip-grad-norm", default=1.0, type=float)
    parser.add_argument("--print-freq", default=5, type=int)
    parser.add_argument("--no-amp", dest="amp", action="store_false")
    return parser.parse_args()


def main(args):
    torch.backends.cudnn.benchmark = True
    device = torch.device(args.device)

    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    train_tf = v2.Compose(
        [
            v2.RandomCrop(args.crop),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(mean, std),
        ]
    )
    val_tf = v2.Compose(
        [
            v2.CenterCrop(args.val_crop),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(mean, std),
        ]
    )
    train_set = FakePhotos(args.train_images, args.classes, train_tf)
    val_set = FakePhotos(args.val_images, args.classes, val_tf)

    mix = v2.RandomChoice(
        [v2.MixUp(alpha=0.2, num_classes=args.classes), v2.CutMix(num_classes=args.classes)]
    )

    def collate_fn(batch):
        return mix(*default_collate(batch))

    train_loader = DataLoader(
        train_set,
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=True,
        collate_fn=collate_fn,
        drop_last=True,
    )
    val_loader = DataLoader(
        val_set, batch_size=args.val_batch_size, num_workers=args.workers, pin_memory=True
    )

    model = torchvision.models.resnet50(num_classes=args.classes, zero_init_residual=True)
    model.to(device, memory_format=torch.channels_last)

    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    norm_params, other_params = [], []
    for name, p in model.named_parameters():
        (norm_params if p.ndim == 1 else other_params).append(p)
    optimizer = torch.optim.SGD(
        [
            {"params": norm_params, "weight_decay": 0.0},
            {"params": other_params, "weight_decay": 2e-5},
        ],
        lr=args.lr,
        momentum=0.9,
        nesterov=True,
    )
    total = args.epochs * len(train_loader)
    warmup = max(1, total // 10)
    scheduler = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.01, total_iters=warmup),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=total - warmup),
        ],
        milestones=[warmup],
    )
    scaler = torch.cuda.amp.GradScaler(enabled=args.amp)

    best = 0.0
    for epoch in range(args.epochs):
        train_one_epoch(
            model, criterion, optimizer, scheduler, train_loader, device, epoch, args, scaler
        )
        acc5 = evaluate(model, criterion, val_loader, device, args)
        best = max(best, acc5)
    print(f"best acc@5 {best:.3f}")


if __name__ == "__main__":
    main(get_args())
