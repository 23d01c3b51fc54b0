"""Galaxy Zoo style vote-fraction regression with MaxViT-T."""

import argparse
import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import maxvit_t


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--bs", type=int, default=28)
    p.add_argument("--eval_bs", type=int, default=50)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--answers", type=int, default=37)
    return p.parse_args()


def galaxies(n, answers):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, 224), torch.linspace(-1, 1, 224), indexing="ij")
    axis = torch.rand(n, 1, 1) * 0.8 + 0.2
    light = torch.exp(-(xx**2 / axis + yy**2) * 8)
    img = light[:, None] * torch.rand(n, 3, 1, 1) + 0.05 * torch.randn(n, 3, 224, 224)
    votes = torch.rand(n, answers).softmax(1)
    return TensorDataset(img, votes)


def main():
    args = parse()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    n = args.bs * args.steps
    train = DataLoader(galaxies(n, args.answers), args.bs, shuffle=True, drop_last=True)
    test = DataLoader(galaxies(args.eval_bs * 3 // 2, args.answers), args.eval_bs)
    model = maxvit_t(weights=None, num_classes=args.answers).to(device)
    print(sum(p.numel() for p in model.parameters()) / 1e6, "M parameters")
    opt = torch.optim.NAdam(
        model.parameters(), lr=5e-4, weight_decay=1e-4, decoupled_weight_decay=True
    )
    sched = torch.optim.lr_scheduler.PolynomialLR(opt, total_iters=len(train), power=0.9)
    loss_fn = nn.MSELoss()
    history = []
    model.train()
    for step, (x, y) in enumerate(train):
        x, y = x.to(device), y.to(device)
        with torch.autocast(device_type=device, dtype=torch.bfloat16):
            pred = model(x).softmax(1)
            loss = loss_fn(pred, y)
        opt.zero_grad()
        loss.backward()
        gn = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        history.append({"step": step, "loss": loss.item(), "grad": gn.item()})
        if step % 4 == 0:
            print(history[-1])
    model.eval()
    se = cnt = 0
    with torch.no_grad():
        for x, y in test:
            with torch.autocast(device_type=device, dtype=torch.bfloat16):
                pred = model(x.to(device)).softmax(1)
            se += ((pred.float() - y.to(device)) ** 2).sum().item()
            cnt += y.numel()
    print("rmse", (se / cnt) ** 0.5)
    with open("galaxies.json", "w") as f:
        json.dump(history, f)
    torch.save(model.state_dict(), "galaxies.pt")


if __name__ == "__main__":
    main()
