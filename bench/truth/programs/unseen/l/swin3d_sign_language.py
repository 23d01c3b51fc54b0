"""Isolated signs from short clips with Video Swin (torchvision swin3d_t): plain bf16 loop, stochastic weight averaging in the last third, top-1/top-5."""

import argparse
import os
import tempfile

import torch
import torch.nn.functional as F
from torch.optim.swa_utils import SWALR, AveragedModel
from torchvision.models.video import swin3d_t

SIGNS = 60


class ClipSource:
    """Clips are held on the host as uint8 at low resolution and enlarged on the device."""

    def __init__(self, n, frames, side, seed):
        g = torch.Generator().manual_seed(seed)
        self.clips = torch.randint(
            0, 256, (n, 3, frames, side // 4, side // 4), generator=g, dtype=torch.uint8
        )
        self.labels = torch.randint(0, SIGNS, (n,), generator=g)
        self.side = side

    def batches(self, size, device, shuffle=False):
        order = torch.randperm(len(self.labels)) if shuffle else torch.arange(len(self.labels))
        for at in order.split(size):
            x = self.clips[at].to(device).float() / 255
            x = F.interpolate(
                x, size=(x.shape[2], self.side, self.side), mode="trilinear", align_corners=False
            )
            if shuffle and torch.rand(()) < 0.5:
                x = x.flip(-1)
            yield (x - 0.45) / 0.225, self.labels[at].to(device)


def accuracy(model, source, size, device):
    model.eval()
    top1 = top5 = 0
    with torch.no_grad(), torch.autocast(device, torch.bfloat16):
        for x, y in source.batches(size, device):
            ranks = model(x).topk(5, 1).indices == y[:, None]
            top1 += ranks[:, 0].sum().item()
            top5 += ranks.any(1).sum().item()
    model.train()
    return top1 / len(source.labels), top5 / len(source.labels)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--frames", type=int, default=16)
    p.add_argument("--side", type=int, default=160)
    p.add_argument("--batch", type=int, default=30)
    p.add_argument("--train", type=int, default=30 * 10)
    p.add_argument("--val", type=int, default=120)
    p.add_argument("--epochs", type=int, default=3)
    args = p.parse_args()
    torch.manual_seed(88)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = swin3d_t(weights=None, num_classes=SIGNS).to(device)
    averaged = AveragedModel(model)
    backbone = [
        q for n, q in model.named_parameters() if "relative_position_bias" not in n and q.ndim > 1
    ]
    others = [
        q for n, q in model.named_parameters() if "relative_position_bias" in n or q.ndim <= 1
    ]
    opt = torch.optim.AdamW(
        [{"params": backbone, "weight_decay": 0.02}, {"params": others, "weight_decay": 0.0}],
        lr=3e-4,
    )
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    swa = SWALR(opt, swa_lr=1e-4, anneal_epochs=1)
    train = ClipSource(args.train, args.frames, args.side, 1)
    val = ClipSource(args.val, args.frames, args.side, 2)
    for epoch in range(args.epochs):
        seen = 0.0
        for x, y in train.batches(args.batch, device, shuffle=True):
            with torch.autocast(device, torch.bfloat16):
                loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            seen += loss.item() * len(y)
        if epoch >= args.epochs * 2 // 3:
            averaged.update_parameters(model)
            swa.step()
        else:
            sched.step()
        print(
            f"epoch {epoch}: loss {seen / args.train:.3f} top1/top5 {accuracy(model, val, 2 * args.batch, device)}"
        )
    print("averaged", accuracy(averaged, val, 2 * args.batch, device))
    with tempfile.TemporaryDirectory() as folder:
        torch.save(averaged.module.state_dict(), os.path.join(folder, "swin3d_signs.pt"))


if __name__ == "__main__":
    main()
