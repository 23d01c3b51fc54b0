"""Land cover from aerial tiles: LR-ASPP on MobileNetV3, poly learning rate, running confusion matrix on the GPU.

Writes to TensorBoard if it is installed.
"""

import argparse
import os
import shutil

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision.models.segmentation import lraspp_mobilenet_v3_large

try:
    from torch.utils.tensorboard import SummaryWriter
except ImportError:

    class SummaryWriter:
        def __init__(self, *args, **kwargs):
            pass

        def add_scalar(self, *args, **kwargs):
            pass

        def add_images(self, *args, **kwargs):
            pass

        def close(self):
            pass


NAMES = ["other", "field", "forest", "water", "road", "building", "orchard", "bare"]
IGNORE = 255


class Tiles(Dataset):
    def __init__(self, n, side, seed):
        self.n, self.side, self.seed = n, side, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        coarse = torch.rand(1, len(NAMES), 6, 6, generator=g)
        mask = (
            F.interpolate(coarse, size=self.side, mode="bilinear", align_corners=False)
            .argmax(1)[0]
            .to(torch.uint8)
        )
        noise = torch.randint(0, 64, (3, self.side, self.side), generator=g, dtype=torch.uint8)
        image = noise + (mask * 20)[None]
        mask[:4] = IGNORE
        return image, mask


class ConfusionMatrix:
    def __init__(self, n):
        self.n, self.mat = n, None

    def update(self, truth, pred):
        if self.mat is None:
            self.mat = torch.zeros((self.n, self.n), dtype=torch.int64, device=truth.device)
        with torch.inference_mode():
            k = (truth >= 0) & (truth < self.n)
            inds = self.n * truth[k].to(torch.int64) + pred[k]
            self.mat += torch.bincount(inds, minlength=self.n**2).reshape(self.n, self.n)

    def compute(self):
        h = self.mat.float()
        acc = torch.diag(h) / h.sum(1)
        iu = torch.diag(h) / (h.sum(1) + h.sum(0) - torch.diag(h))
        return (torch.diag(h).sum() / h.sum()).item(), acc, iu


def normalise(x, device):
    x = x.to(device, non_blocking=True).float() / 255
    mean = torch.tensor([0.4, 0.4, 0.4], device=device).view(1, 3, 1, 1)
    return (x - mean) / 0.25


def save(path, **parts):
    torch.save(
        {k: (v.state_dict() if hasattr(v, "state_dict") else v) for k, v in parts.items()}, path
    )


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tiles", type=int, default=360)
    ap.add_argument("--val-tiles", type=int, default=90)
    ap.add_argument("--side", type=int, default=512)
    ap.add_argument("--batch", type=int, default=24)
    ap.add_argument("--val-batch", type=int, default=40)
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--lr", type=float, default=0.02)
    ap.add_argument("--workers", type=int, default=6)
    ap.add_argument("--logdir", default="runs_fields")
    ap.add_argument("--resume", default="")
    args = ap.parse_args()
    device = torch.device("cuda")
    os.makedirs(args.logdir, exist_ok=True)
    writer = SummaryWriter(args.logdir)

    train_loader = DataLoader(
        Tiles(args.tiles, args.side, 0),
        args.batch,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=True,
        drop_last=True,
    )
    val_loader = DataLoader(
        Tiles(args.val_tiles, args.side, 10**6),
        args.val_batch,
        num_workers=args.workers,
        pin_memory=True,
    )
    model = lraspp_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=len(NAMES)
    ).to(device)
    backbone = [p for p in model.backbone.parameters() if p.requires_grad]
    head = [p for p in model.classifier.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(
        [{"params": backbone}, {"params": head, "lr": args.lr * 10}],
        lr=args.lr,
        momentum=0.9,
        weight_decay=1e-4,
    )
    iters = args.epochs * len(train_loader)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda x: (1 - x / (iters + 1)) ** 0.9)
    start_epoch, best = 0, 0.0
    if args.resume:
        ckpt = torch.load(args.resume, map_location="cpu")
        model.load_state_dict(ckpt["model"])
        optimizer.load_state_dict(ckpt["optimizer"])
        scheduler.load_state_dict(ckpt["scheduler"])
        start_epoch, best = ckpt["epoch"] + 1, ckpt["best"]

    step = start_epoch * len(train_loader)
    for epoch in range(start_epoch, args.epochs):
        model.train()
        for images, masks in train_loader:
            images, masks = normalise(images, device), masks.to(device, non_blocking=True).long()
            out = model(images)["out"]
            loss = F.cross_entropy(out, masks, ignore_index=IGNORE)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            writer.add_scalar("train/loss", loss.item(), step)
            writer.add_scalar("train/lr", optimizer.param_groups[0]["lr"], step)
            if step % 10 == 0:
                print(f"epoch {epoch} step {step}/{iters} loss {loss.item():.4f}")
            step += 1

        model.eval()
        cm = ConfusionMatrix(len(NAMES))
        with torch.inference_mode():
            for images, masks in val_loader:
                out = model(normalise(images, device))["out"]
                cm.update(masks.to(device).flatten(), out.argmax(1).flatten())
        acc, per_class, iou = cm.compute()
        miou = iou.nanmean().item()
        writer.add_scalar("val/miou", miou, step)
        print(
            f"epoch {epoch} global {acc:.3f} mIoU {miou:.3f} |",
            " ".join(f"{n} {v:.2f}" for n, v in zip(NAMES, iou.tolist())),
        )
        if miou >= best:
            best = miou
            save(os.path.join(args.logdir, "best.pth"), model=model, epoch=epoch, best=best)
        save(
            os.path.join(args.logdir, "last.pth"),
            model=model,
            optimizer=optimizer,
            scheduler=scheduler,
            epoch=epoch,
            best=best,
        )
    writer.close()
    shutil.rmtree(args.logdir)


if __name__ == "__main__":
    main()
