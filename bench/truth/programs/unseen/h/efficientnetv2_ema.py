"""EfficientNetV2-S from scratch with RMSprop, an EMA of the weights, and gradient accumulation."""

import copy
import time
from dataclasses import dataclass

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, Dataset
from torchvision.models import efficientnet_v2_s
from torchvision.transforms import v2


@dataclass
class Config:
    image: int = 256
    eval_image: int = 288
    classes: int = 102
    train_n: int = 1200
    val_n: int = 330
    batch: int = 80
    eval_batch: int = 110
    accumulate: int = 2
    epochs: int = 2
    lr: float = 2e-3
    ema: float = 0.99
    workers: int = 2


class Flowers(Dataset):
    def __init__(self, n, size, classes, train):
        self.raw = torch.randint(0, 256, (24, 3, size + 40, size + 40), dtype=torch.uint8)
        self.y = torch.arange(n) % classes
        crop = [v2.RandomCrop(size), v2.RandomHorizontalFlip()] if train else [v2.CenterCrop(size)]
        self.tf = v2.Compose(
            crop
            + [
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
            ]
        )

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.tf(self.raw[i % len(self.raw)]), int(self.y[i])


def accuracy(net, loader, device):
    net.eval()
    top1 = top5 = n = 0
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            top = net(x).topk(5, dim=1).indices
            hit = top == y[:, None]
            top1 += hit[:, 0].sum().item()
            top5 += hit.any(1).sum().item()
            n += len(y)
    return top1 / n, top5 / n


def main(cfg=Config()):
    torch.manual_seed(5)
    device = torch.device("cuda")
    train = DataLoader(
        Flowers(cfg.train_n, cfg.image, cfg.classes, True),
        cfg.batch,
        shuffle=True,
        num_workers=cfg.workers,
        pin_memory=True,
        drop_last=False,
    )
    val = DataLoader(
        Flowers(cfg.val_n, cfg.eval_image, cfg.classes, False),
        cfg.eval_batch,
        num_workers=cfg.workers,
    )

    net = efficientnet_v2_s(weights=None, num_classes=cfg.classes, dropout=0.3).to(device)
    ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(cfg.ema), use_buffers=True)
    opt = torch.optim.RMSprop(
        net.parameters(), lr=cfg.lr, alpha=0.9, eps=1e-3, momentum=0.9, weight_decay=1e-5
    )
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.97)
    ce = nn.CrossEntropyLoss(label_smoothing=0.1)
    print(f"{sum(p.numel() for p in net.parameters()) / 1e6:.1f}M parameters")

    best, best_state = 0.0, None
    for epoch in range(cfg.epochs):
        net.train()
        t0 = time.time()
        opt.zero_grad()
        for i, (x, y) in enumerate(train):
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = ce(net(x), y) / cfg.accumulate
            loss.backward()
            if (i + 1) % cfg.accumulate == 0 or i + 1 == len(train):
                nn.utils.clip_grad_norm_(net.parameters(), 5.0)
                opt.step()
                opt.zero_grad()
                ema.update_parameters(net)
            if i % 4 == 0:
                print(
                    f"epoch {epoch} batch {i}/{len(train)} loss {loss.item() * cfg.accumulate:.3f}"
                )
        sched.step()
        raw, avg = accuracy(net, val, device), accuracy(ema, val, device)
        print(f"epoch {epoch} {time.time() - t0:.1f}s raw top1/top5 {raw} ema {avg}")
        if best_state is None or avg[0] > best:
            best = avg[0]
            best_state = copy.deepcopy(ema.module.state_dict())
    torch.save(best_state, "efficientnetv2_ema.pt")
    print("best", best)


if __name__ == "__main__":
    main()
