"""Progressive resizing: a RegNet sees 96, 144 and 208 pixels, in channels_last and bf16, with smaller batches."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import regnet_y_1_6gf


def make_data(count, size, classes, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (count,), generator=g)
    x = torch.randint(0, 256, (count, 3, size, size), generator=g, dtype=torch.uint8)
    x[:, 0] = (x[:, 0] // 2 + y[:, None, None]).to(torch.uint8)
    return TensorDataset(x, y)


def prepare(x, size, device, train):
    x = x.to(device, non_blocking=True).float().div_(127.5).sub_(1)
    x = F.interpolate(x, size=(size, size), mode="bilinear", antialias=True, align_corners=False)
    if train and torch.rand(()) < 0.5:
        x = x.flip(-1)
    return x.contiguous(memory_format=torch.channels_last)


def evaluate(model, loader, size, device):
    model.eval()
    right = seen = 0
    with torch.inference_mode(), torch.autocast(device.type, dtype=torch.bfloat16):
        for x, y in loader:
            logits = model(prepare(x, size, device, False))
            right += (logits.argmax(1).cpu() == y).sum().item()
            seen += len(y)
    return right / seen


def main():
    p = argparse.ArgumentParser()
    p.add_argument(
        "--stages",
        nargs="+",
        default=["96:256:1", "144:160:1", "208:96:2"],
        help="size:batch:epochs",
    )
    p.add_argument("--count", type=int, default=1300)
    p.add_argument("--stored", type=int, default=224)
    p.add_argument("--classes", type=int, default=100)
    a = p.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = True
    train = make_data(a.count, a.stored, a.classes, 0)
    test = make_data(a.count // 4, a.stored, a.classes, 1)
    model = regnet_y_1_6gf(weights=None, num_classes=a.classes)
    model = model.to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-5)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    for stage in a.stages:
        size, batch, epochs = map(int, stage.split(":"))
        loader = DataLoader(train, batch, shuffle=True, pin_memory=device.type == "cuda")
        check = DataLoader(test, batch * 2)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))
        for epoch in range(epochs):
            model.train()
            total = torch.zeros((), device=device)
            for x, y in loader:
                x, y = prepare(x, size, device, True), y.to(device)
                optimizer.zero_grad(set_to_none=True)
                with torch.autocast(device.type, dtype=torch.bfloat16):
                    loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                schedule.step()
                total += loss.detach()
            accuracy = evaluate(model, check, size, device)
            print(
                f"{size} px, epoch {epoch}: loss {total.item() / len(loader):.3f}, right {accuracy:.3f}"
            )
        torch.save(model.state_dict(), f"regnet-{size}.pt")
        for group in optimizer.param_groups:
            group["lr"] = 0.05


if __name__ == "__main__":
    main()
