"""FixMatch for diseases of rice leaves: few labels, weak and strong views, MobileNetV2 (torchvision), fp16 GradScaler, EMA network as the one that is tested."""

import argparse
import math
import os
import tempfile

import torch
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, Dataset
from torchvision.models import mobilenet_v2
from torchvision.transforms import v2

DISEASES = 7


class Leaves(Dataset):
    def __init__(self, n, side, mode, seed):
        self.n, self.mode, self.seed, self.side = n, mode, seed, side
        self.weak = v2.Compose([v2.RandomHorizontalFlip(), v2.RandomCrop(side, padding=side // 8)])
        self.strong = v2.Compose(
            [
                v2.RandomHorizontalFlip(),
                v2.RandomCrop(side, padding=side // 8),
                v2.RandomSolarize(0.5, p=0.3),
                v2.RandomErasing(p=1.0),
            ]
        )

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 2_003 + i)
        y = int(torch.randint(DISEASES, (1,), generator=g))
        image = torch.rand(3, self.side, self.side, generator=g) * 0.5
        image[1] += 0.07 * y
        if self.mode == "labelled":
            return self.weak(image), y
        if self.mode == "unlabelled":
            return self.weak(image), self.strong(image)
        return image, y


def forever(loader):
    while True:
        yield from loader


def cosine(opt, total):
    return torch.optim.lr_scheduler.LambdaLR(opt, lambda s: math.cos(7 / 16 * math.pi * s / total))


@torch.inference_mode()
def test(model, loader, device):
    model.eval()
    right = n = 0
    for x, y in loader:
        right += (model(x.to(device)).argmax(1).cpu() == y).sum().item()
        n += len(y)
    return right / n


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--side", type=int, default=160)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--mu", type=int, default=4)
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--threshold", type=float, default=0.7)
    p.add_argument("--workers", type=int, default=6)
    a = p.parse_args()
    torch.manual_seed(50)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    labelled = forever(
        DataLoader(
            Leaves(a.batch * 4, a.side, "labelled", 1),
            a.batch,
            shuffle=True,
            num_workers=2 if a.workers else 0,
            drop_last=True,
            persistent_workers=a.workers > 0,
        )
    )
    unlabelled = forever(
        DataLoader(
            Leaves(a.batch * a.mu * a.steps, a.side, "unlabelled", 2),
            a.batch * a.mu,
            shuffle=True,
            num_workers=a.workers,
            drop_last=True,
        )
    )
    tests = DataLoader(
        Leaves(a.batch * 12, a.side, "test", 3), a.batch * 4, num_workers=2 if a.workers else 0
    )
    model = mobilenet_v2(weights=None, num_classes=DISEASES).to(device)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99), use_buffers=True)
    opt = torch.optim.SGD(
        model.parameters(), lr=0.03, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    sched = cosine(opt, a.steps)
    scaler = torch.amp.GradScaler(device, enabled=device == "cuda")
    best = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for step in range(1, a.steps + 1):
            model.train()
            (x, y), (weak, strong) = next(labelled), next(unlabelled)
            inputs = torch.cat([x, weak, strong]).to(device, non_blocking=True)
            y = y.to(device)
            with torch.autocast(device, dtype=torch.float16, enabled=device == "cuda"):
                logits = model(inputs)
                first, rest = logits[: len(x)], logits[len(x) :]
                on_weak, on_strong = rest.chunk(2)
                supervised = F.cross_entropy(first, y)
                sure, pseudo = torch.softmax(on_weak.detach().float(), -1).max(-1)
                mask = (sure >= a.threshold).float()
                consistency = (F.cross_entropy(on_strong, pseudo, reduction="none") * mask).mean()
                loss = supervised + consistency
            opt.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            sched.step()
            ema.update_parameters(model)
            if step % 20 == 0:
                accuracy = test(ema, tests, device)
                print(
                    f"step {step} sup {supervised.item():.3f} cons {consistency.item():.3f} mask {mask.mean().item():.2f} acc {accuracy:.3f}"
                )
                if accuracy >= best:
                    best = accuracy
                    torch.save(
                        {"ema": ema.state_dict(), "step": step}, os.path.join(folder, "best.pt")
                    )
    print("best", best)


if __name__ == "__main__":
    main()
