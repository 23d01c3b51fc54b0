"""Crops from satellite tiles: another program writes the tiles first, then a ConvNeXt is trained on them."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset
from torchvision.models import convnext_tiny

TOOL = pathlib.Path(__file__).resolve().parent / "tools" / "make_tiles.py"


class Tiles(Dataset):
    def __init__(self, folder):
        self.pixels = np.load(folder / "tiles.npy", mmap_mode="r")
        self.crops = np.load(folder / "crops.npy")

    def __len__(self):
        return len(self.crops)

    def __getitem__(self, i):
        return torch.from_numpy(self.pixels[i].astype(np.float32) / 1e4), torch.from_numpy(
            self.crops[i]
        ).float()


def f1(logits, truth):
    guess = logits.sigmoid() > 0.5
    hits = (guess & truth.bool()).sum().item()
    return 2 * hits / max(guess.sum().item() + truth.sum().item(), 1)


def train(args, folder):
    if not (folder / "meta.json").exists():
        command = [
            sys.executable,
            str(TOOL),
            str(folder),
            "--tiles",
            str(args.tiles),
            "--size",
            str(args.size),
        ]
        subprocess.run(command, check=True)
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = Tiles(folder)
    cut = int(len(data) * 0.8)
    train_loader = DataLoader(Subset(data, range(cut)), args.batch, shuffle=True, num_workers=2)
    val = DataLoader(Subset(data, range(cut, len(data))), args.batch * 2)
    model = convnext_tiny(weights=None, num_classes=meta["crops"])
    first = model.features[0][0]
    model.features[0][0] = nn.Conv2d(meta["bands"], first.out_channels, 4, stride=4)
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.05)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.3, patience=1)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.full((meta["crops"],), 3.0, device=device))
    best, waited = float("inf"), 0
    for epoch in range(args.epochs):
        model.train()
        for x, y in train_loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        model.eval()
        losses, outputs, truths = [], [], []
        with torch.no_grad():
            for x, y in val:
                out = model(x.to(device))
                losses.append(criterion(out, y.to(device)).item())
                outputs.append(out.cpu())
                truths.append(y)
        mean = sum(losses) / len(losses)
        scheduler.step(mean)
        print(
            f"epoch {epoch}: train {loss.item():.4f} val {mean:.4f} F1 {f1(torch.cat(outputs), torch.cat(truths)):.3f}"
        )
        if mean < best:
            best, waited = mean, 0
            torch.save(model.state_dict(), folder / "best.pt")
        else:
            waited += 1
            if waited >= args.patience:
                break
    model.load_state_dict(torch.load(folder / "best.pt", map_location=device))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--folder", help="where the tiles lie, or are written (default: a temporary folder)"
    )
    parser.add_argument("--tiles", type=int, default=400)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--batch", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--patience", type=int, default=2)
    args = parser.parse_args()
    if args.folder:
        train(args, pathlib.Path(args.folder))
    else:
        with tempfile.TemporaryDirectory() as folder:
            train(args, pathlib.Path(folder))


if __name__ == "__main__":
    main()
