"""Hand gesture recognition from short clips: R(2+1)D-18 with fp16 AMP; the stem is frozen."""

import argparse

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision.models.video import r2plus1d_18


class Clips(Dataset):
    def __init__(self, n, frames, side, jitter):
        self.video = torch.randint(0, 256, (6, 3, 64, side, side), dtype=torch.uint8)
        self.n, self.frames, self.jitter = n, frames, jitter

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        v = self.video[i % 6]
        start = (
            int(torch.randint(0, 64 - self.frames, ())) if self.jitter else (64 - self.frames) // 2
        )
        clip = v[:, start : start + self.frames].float().div(255)
        return (clip - 0.45) / 0.225, i % 27


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch-size", type=int, default=14)
    ap.add_argument("--frames", type=int, default=16)
    ap.add_argument("--side", type=int, default=112)
    ap.add_argument("--clips", type=int, default=90)
    ap.add_argument("--epochs", type=int, default=2)
    args = ap.parse_args()
    torch.manual_seed(2024)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    use_scaler = device == "cuda"

    model = r2plus1d_18(weights=None, num_classes=27).to(device)
    for p in model.stem.parameters():
        p.requires_grad_(False)
    head = list(model.fc.parameters())
    body = [p for n, p in model.named_parameters() if p.requires_grad and not n.startswith("fc.")]
    opt = torch.optim.SGD(
        [{"params": body, "lr": 1e-3}, {"params": head, "lr": 1e-2}],
        momentum=0.9,
        weight_decay=1e-4,
    )
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    scaler = torch.amp.GradScaler(enabled=use_scaler)
    train = DataLoader(
        Clips(args.clips, args.frames, args.side, True),
        args.batch_size,
        shuffle=True,
        num_workers=2,
        drop_last=True,
        persistent_workers=True,
    )
    val = DataLoader(
        Clips(args.clips // 3, args.frames, args.side, False), args.batch_size * 2, num_workers=1
    )

    for epoch in range(args.epochs):
        model.train()
        model.stem.eval()
        for i, (clip, y) in enumerate(train):
            clip, y = clip.to(device), y.to(device)
            with torch.autocast(device, dtype=torch.float16 if use_scaler else torch.bfloat16):
                loss = F.cross_entropy(model(clip), y)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            opt.zero_grad(set_to_none=True)
            if i % 2 == 0:
                print(f"epoch {epoch} it {i} loss {loss.item():.3f} scale {scaler.get_scale():.0f}")
        sched.step()
        model.eval()
        top1 = top5 = count = 0
        with torch.no_grad():
            for clip, y in val:
                with torch.autocast(device, dtype=torch.float16 if use_scaler else torch.bfloat16):
                    out = model(clip.to(device))
                rank = out.topk(5, dim=1).indices.cpu()
                top1 += (rank[:, 0] == y).sum().item()
                top5 += (rank == y[:, None]).any(1).sum().item()
                count += len(y)
        print(f"epoch {epoch} top1 {top1 / count:.3f} top5 {top5 / count:.3f}")
        torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, f"gestures_{epoch}.pt")


if __name__ == "__main__":
    main()
