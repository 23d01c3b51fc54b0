# Multi-label findings on chest radiographs, DenseNet-121, bf16 autocast.
import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import densenet121

FINDINGS = [
    "atelectasis",
    "cardiomegaly",
    "effusion",
    "infiltration",
    "mass",
    "nodule",
    "pneumonia",
    "pneumothorax",
    "consolidation",
    "edema",
    "emphysema",
    "fibrosis",
    "thickening",
    "hernia",
]


def make_split(n, size):
    images = torch.randint(0, 256, (n, 1, size, size), dtype=torch.uint8)
    labels = (torch.rand(n, len(FINDINGS)) < 0.12).float()
    return TensorDataset(images, labels)


def build():
    net = densenet121(weights=None)
    net.features.conv0 = nn.Conv2d(1, 64, kernel_size=7, stride=2, padding=3, bias=False)
    net.classifier = nn.Linear(net.classifier.in_features, len(FINDINGS))
    return net


def auroc(score, label):
    """Area under the curve by rank statistics, one value for each column."""
    ranks = score.argsort(0).argsort(0).float() + 1
    pos = label.sum(0)
    neg = label.shape[0] - pos
    return ((ranks * label).sum(0) - pos * (pos + 1) / 2) / (pos * neg).clamp(min=1)


def prepare(x, device, augment):
    x = x.to(device, non_blocking=True).float().div(255).sub(0.5).div(0.25)
    if augment:
        x = x + 0.05 * torch.randn_like(x)
        if torch.rand(()) < 0.5:
            x = torch.flip(x, dims=[3])
    return x


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", type=int, default=256)
    ap.add_argument("--train", type=int, default=700)
    ap.add_argument("--val", type=int, default=220)
    ap.add_argument("--batch", type=int, default=48)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--lr", type=float, default=1e-4)
    args = ap.parse_args()

    torch.manual_seed(2024)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train = DataLoader(make_split(args.train, args.size), args.batch, shuffle=True, pin_memory=True)
    val = DataLoader(make_split(args.val, args.size), args.batch * 2)

    model = build().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, amsgrad=True)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.3, patience=0)
    freq = train.dataset.tensors[1].mean(0).clamp(min=0.01)
    criterion = nn.BCEWithLogitsLoss(pos_weight=((1 - freq) / freq).to(device))

    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for i, (x, y) in enumerate(train):
            x, y = prepare(x, device, True), y.to(device)
            opt.zero_grad()
            with torch.autocast(device_type=device, dtype=torch.bfloat16):
                logits = model(x)
                loss = criterion(logits, y)
            loss.backward()
            torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
            opt.step()
            total += loss.item()
            if i % 5 == 0:
                print(f"[{epoch}] {i}/{len(train)} loss {loss.item():.4f}")

        model.eval()
        scores, labels, vloss = [], [], 0.0
        with torch.inference_mode():
            for x, y in val:
                x, y = prepare(x, device, False), y.to(device)
                with torch.autocast(device_type=device, dtype=torch.bfloat16):
                    a = model(x)
                    b = model(torch.flip(x, dims=[3]))
                out = (a.float() + b.float()) / 2
                vloss += F.binary_cross_entropy_with_logits(out, y).item()
                scores.append(out.sigmoid())
                labels.append(y)
        auc = auroc(torch.cat(scores), torch.cat(labels))
        plateau.step(vloss / len(val))
        print(
            f"epoch {epoch} train {total / len(train):.4f} val {vloss / len(val):.4f} mean AUC {auc.mean():.3f} "
            f"lr {opt.param_groups[0]['lr']:.1e}"
        )
        for name, value in zip(FINDINGS, auc.tolist()):
            print(f"   {name:14s} {value:.3f}")
    torch.save(model.state_dict(), "densenet_xrays.pth")


if __name__ == "__main__":
    main()
