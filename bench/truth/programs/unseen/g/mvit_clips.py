"""Fine-tuning a video transformer (MViT v2 small) on short clips with accelerate: fp16, accumulation, layer-wise lr."""

import argparse
import math

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models.video import MViT_V2_S_Weights, mvit_v2_s  # noqa: F401
from tqdm.auto import tqdm


class Clips(Dataset):
    def __init__(self, n, frames, size, classes, seed):
        self.n, self.frames, self.size, self.classes, self.seed = n, frames, size, classes, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        label = int(torch.randint(self.classes, (1,), generator=g))
        still = torch.rand(3, 1, self.size, self.size, generator=g)
        # the content drifts in a direction that depends on the class
        clip = torch.cat(
            [torch.roll(still, (label % 3 - 1) * 4 * t, dims=-1) for t in range(self.frames)], dim=1
        )
        return {"video": (clip - 0.45) / 0.225, "label": label}


def build_model(classes, frames, size):
    model = mvit_v2_s(weights=None)
    model.head[1] = nn.Linear(model.head[1].in_features, classes)
    return model


def param_groups(model, lr, decay):
    depth = len(model.blocks)
    groups = {}
    for name, p in model.named_parameters():
        if name.startswith("blocks."):
            layer = int(name.split(".")[1]) + 1
        elif name.startswith("conv_proj") or name.startswith("pos_encoding"):
            layer = 0
        else:
            layer = depth + 1
        wd = 0.0 if p.ndim == 1 else 0.05
        key = (layer, wd)
        groups.setdefault(
            key, {"params": [], "lr": lr * decay ** (depth + 1 - layer), "weight_decay": wd}
        )
        groups[key]["params"].append(p)
    return list(groups.values())


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--train", type=int, default=160)
    ap.add_argument("--val", type=int, default=50)
    ap.add_argument("--frames", type=int, default=16)
    ap.add_argument("--size", type=int, default=224)
    ap.add_argument("--classes", type=int, default=6)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--accum", type=int, default=2)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--lr", type=float, default=3e-4)
    ap.add_argument("--mixed-precision", default="fp16")
    ap.add_argument("--workers", type=int, default=6)
    args = ap.parse_args()

    accelerator = Accelerator(
        mixed_precision=args.mixed_precision, gradient_accumulation_steps=args.accum
    )
    set_seed(1)
    train_loader = DataLoader(
        Clips(args.train, args.frames, args.size, args.classes, 0),
        batch_size=args.batch,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=True,
    )
    val_loader = DataLoader(
        Clips(args.val, args.frames, args.size, args.classes, 50_000),
        batch_size=2 * args.batch,
        num_workers=args.workers,
    )
    model = build_model(args.classes, args.frames, args.size)
    optimizer = torch.optim.AdamW(param_groups(model, args.lr, 0.8), betas=(0.9, 0.999))
    total = args.epochs * math.ceil(len(train_loader) / args.accum)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=total)
    model, optimizer, train_loader, val_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, val_loader, scheduler
    )
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    accelerator.print(
        f"training on {accelerator.device}, {sum(p.numel() for p in model.parameters()):,} parameters"
    )

    for epoch in range(args.epochs):
        model.train()
        bar = tqdm(train_loader, disable=not accelerator.is_local_main_process, mininterval=5)
        for batch in bar:
            with accelerator.accumulate(model):
                logits = model(batch["video"])
                loss = criterion(logits, batch["label"])
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            bar.set_postfix(loss=loss.item())

        model.eval()
        right, seen = 0, 0
        for batch in val_loader:
            with torch.no_grad():
                logits = model(batch["video"])
            pred, label = accelerator.gather_for_metrics((logits.argmax(-1), batch["label"]))
            right += (pred == label).sum().item()
            seen += label.numel()
        accelerator.print(f"epoch {epoch}: accuracy {right / seen:.3f} ({seen} clips)")


if __name__ == "__main__":
    main()
