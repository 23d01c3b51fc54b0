import argparse
from pathlib import Path

import torch
import yaml
from torch.utils.data import DataLoader

from roadseg.data import Crops, make_tile
from roadseg.network import DiceBCE, ResUNet


def read_config():
    parser = argparse.ArgumentParser(prog="roadseg")
    parser.add_argument("--config", default=Path(__file__).with_name("default.yaml"))
    parser.add_argument("--set", nargs="*", default=[], help="section.key=value")
    given = parser.parse_args()
    config = yaml.safe_load(Path(given.config).read_text())
    for word in given.set:
        path, value = word.split("=")
        section, key = path.split(".")
        config[section][key] = yaml.safe_load(value)
    return config


def train_epoch(model, loader, criterion, optimizer, schedule, device):
    model.train()
    total = 0.0
    for image, mask in loader:
        image = image.to(device, memory_format=torch.channels_last, non_blocking=True)
        mask = mask.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = model(image)
        loss = criterion(logits, mask)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        total += loss.item()
    return total / len(loader)


@torch.inference_mode()
def predict_tile(model, image, flips, device):
    """The whole tile at once, and its three mirror images when asked."""
    model.eval()
    x = image[None].to(device).float() / 127.5 - 1
    dims = [[], [2], [3], [2, 3]] if flips else [[]]
    batch = torch.cat([x.flip(d) for d in dims]).contiguous(memory_format=torch.channels_last)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        p = model(batch).float().sigmoid()
    return torch.stack([p[i].flip([j - 1 for j in d]) for i, d in enumerate(dims)]).mean(0)


def main():
    config = read_config()
    data, hyper, test = config["data"], config["train"], config["test"]
    torch.manual_seed(config["seed"])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tiles = [make_tile(data["tile"], i) for i in range(data["tiles"])]
    loader = DataLoader(
        Crops(tiles[:-2], data["crop"], data["crops_per_epoch"]),
        hyper["batch"],
        shuffle=True,
        num_workers=data["workers"],
        pin_memory=device.type == "cuda",
        persistent_workers=data["workers"] > 0,
        drop_last=True,
    )
    model = ResUNet().to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=hyper["lr"], weight_decay=hyper["weight_decay"]
    )
    schedule = torch.optim.lr_scheduler.PolynomialLR(
        optimizer, hyper["epochs"] * len(loader), power=0.9
    )
    criterion = DiceBCE()
    for epoch in range(hyper["epochs"]):
        loss = train_epoch(model, loader, criterion, optimizer, schedule, device)
        print(f"epoch {epoch}: loss {loss:.4f}")
    torch.save({"config": config, "model": model.state_dict()}, config["output"])
    for image, mask in tiles[-2:]:
        road = predict_tile(model, image, test["flips"], device).cpu() > test["threshold"]
        both, either = (road & (mask > 0)).sum(), (road | (mask > 0)).sum()
        print(f"IoU {both.item() / max(either.item(), 1):.3f}")


if __name__ == "__main__":
    main()
