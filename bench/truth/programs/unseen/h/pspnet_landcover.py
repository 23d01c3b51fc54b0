"""Land-cover segmentation: a pyramid pooling head on a dilated ResNet-50, fp16."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models import resnet50
from torchvision.models.feature_extraction import create_feature_extractor


class LandCover(Dataset):
    def __init__(self, n, size, classes):
        self.n, self.size, self.classes = n, size, classes

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        coarse = torch.randint(0, self.classes, (1, 1, 10, 10), generator=g).float()
        mask = F.interpolate(coarse, size=(self.size, self.size), mode="nearest")[0, 0].long()
        image = mask.float().div(self.classes).expand(3, -1, -1) + 0.1 * torch.randn(
            3, self.size, 1, generator=g
        )
        mask[:4] = 255  # unlabelled strip at the top
        return image.contiguous(), mask


class PyramidPool(nn.Module):
    def __init__(self, cin, bins=(1, 2, 3, 6)):
        super().__init__()
        self.stages = nn.ModuleList(
            nn.Sequential(
                nn.AdaptiveAvgPool2d(b),
                nn.Conv2d(cin, cin // 4, 1, bias=False),
                nn.BatchNorm2d(cin // 4),
                nn.ReLU(inplace=True),
            )
            for b in bins
        )

    def forward(self, x):
        out = [x]
        for s in self.stages:
            out.append(F.interpolate(s(x), size=x.shape[-2:], mode="bilinear", align_corners=False))
        return torch.cat(out, 1)


class PSPNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        trunk = resnet50(weights=None, replace_stride_with_dilation=[False, True, True])
        self.trunk = create_feature_extractor(trunk, {"layer3": "aux", "layer4": "out"})
        self.head = nn.Sequential(
            PyramidPool(2048),
            nn.Conv2d(4096, 512, 3, padding=1, bias=False),
            nn.BatchNorm2d(512),
            nn.ReLU(inplace=True),
            nn.Dropout2d(0.1),
            nn.Conv2d(512, classes, 1),
        )
        self.aux = nn.Sequential(
            nn.Conv2d(1024, 256, 3, padding=1, bias=False),
            nn.BatchNorm2d(256),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, classes, 1),
        )

    def forward(self, x):
        f = self.trunk(x)
        main = F.interpolate(
            self.head(f["out"]), size=x.shape[-2:], mode="bilinear", align_corners=False
        )
        if not self.training:
            return main
        return main, F.interpolate(
            self.aux(f["aux"]), size=x.shape[-2:], mode="bilinear", align_corners=False
        )


@torch.no_grad()
def mean_iou(model, loader, classes, device):
    model.eval()
    hist = torch.zeros(classes, classes, device=device)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        with torch.autocast("cuda", dtype=torch.float16):
            pred = model(x).argmax(1)
        ok = y != 255
        hist += (
            torch.bincount(y[ok] * classes + pred[ok], minlength=classes**2)
            .view(classes, classes)
            .float()
        )
    inter = hist.diag()
    return (inter / (hist.sum(0) + hist.sum(1) - inter).clamp(min=1)).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", type=int, default=320)
    ap.add_argument("--eval-size", type=int, default=480)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--tiles", type=int, default=200)
    ap.add_argument("--eval-tiles", type=int, default=30)
    ap.add_argument("--classes", type=int, default=16)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--workers", type=int, default=2)
    args = ap.parse_args()
    torch.manual_seed(8)
    device = torch.device("cuda")

    train = DataLoader(
        LandCover(args.tiles, args.size, args.classes),
        args.batch,
        shuffle=True,
        num_workers=args.workers,
        drop_last=True,
        pin_memory=True,
    )
    val = DataLoader(
        LandCover(args.eval_tiles, args.eval_size, args.classes), 4, num_workers=args.workers
    )
    model = PSPNet(args.classes).to(device)
    heads = list(model.head.parameters()) + list(model.aux.parameters())
    opt = torch.optim.SGD(
        [{"params": model.trunk.parameters(), "lr": 0.01}, {"params": heads, "lr": 0.1}],
        momentum=0.9,
        weight_decay=1e-4,
    )
    sched = torch.optim.lr_scheduler.PolynomialLR(opt, args.epochs * len(train), power=0.9)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**12)
    ce = nn.CrossEntropyLoss(ignore_index=255)

    for epoch in range(args.epochs):
        model.train()
        for i, (x, y) in enumerate(train):
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.float16):
                main_out, aux_out = model(x)
                loss = ce(main_out, y) + 0.4 * ce(aux_out, y)
            opt.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            sched.step()
            if i % 4 == 0:
                print(f"epoch {epoch} it {i}/{len(train)} loss {loss.item():.3f}")
        print(f"epoch {epoch} mIoU {mean_iou(model, val, args.classes, device):.3f}")
    torch.save(model.state_dict(), "pspnet.pth")


if __name__ == "__main__":
    main()
