"""Supervised ViT-B/16 fine-tuning recipe: layer-wise lr decay, mixup, warmup, bf16."""

import argparse
import math

import torch
import torch.nn.functional as F
from torchvision.models import vit_b_16


def param_groups(model, base_lr, decay):
    layers = len(model.encoder.layers)
    groups = {}
    for name, p in model.named_parameters():
        if name.startswith(("conv_proj", "class_token")) or "pos_embedding" in name:
            depth = 0
        elif "encoder_layer_" in name:
            depth = int(name.split("encoder_layer_")[1].split(".")[0]) + 1
        else:
            depth = layers + 1
        wd = 0.0 if p.ndim == 1 or "pos_embedding" in name or "class_token" in name else 0.05
        g = groups.setdefault(
            (depth, wd),
            {"params": [], "weight_decay": wd, "lr": base_lr * decay ** (layers + 1 - depth)},
        )
        g["params"].append(p)
    return list(groups.values())


def mixup(x, y, classes, alpha):
    lam = torch.distributions.Beta(alpha, alpha).sample().item()
    perm = torch.randperm(len(x), device=x.device)
    t = F.one_hot(y, classes).float()
    return lam * x + (1 - lam) * x[perm], lam * t + (1 - lam) * t[perm]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=72)
    p.add_argument("--eval-batch", type=int, default=144)
    p.add_argument("--image-size", type=int, default=224)
    p.add_argument("--classes", type=int, default=102)
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--lr", type=float, default=1e-3)
    a = p.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    model = vit_b_16(weights=None, image_size=a.image_size, num_classes=a.classes, dropout=0.1).to(
        device
    )
    opt = torch.optim.AdamW(
        param_groups(model, a.lr, 0.75), betas=(0.9, 0.999), fused=device.type == "cuda"
    )
    warm = 3
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt,
        lambda s: (s + 1) / warm
        if s < warm
        else 0.5 + 0.5 * math.cos(math.pi * (s - warm) / (a.steps - warm)),
    )
    pool = torch.randint(0, 256, (a.batch * 2, 3, a.image_size, a.image_size), dtype=torch.uint8)
    labels = torch.randint(0, a.classes, (a.batch * 2,))

    for step in range(a.steps):
        model.train()
        idx = torch.randint(0, len(pool), (a.batch,))
        x = pool[idx].to(device).float().div(127.5).sub(1)
        x, target = mixup(x, labels[idx].to(device), a.classes, 0.8)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = torch.sum(-target * F.log_softmax(model(x), dim=-1), dim=-1).mean()
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 3.0)
        opt.step()
        sched.step()
        if step % 6 == 5:
            model.eval()
            with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16):
                xe = pool[: a.eval_batch].to(device).float().div(127.5).sub(1)
                acc = (model(xe).argmax(1).cpu() == labels[: a.eval_batch]).float().mean()
            print(f"step {step} loss {loss.item():.3f} train-subset acc {acc:.3f}")
            torch.save(
                {"step": step, "model": model.state_dict(), "opt": opt.state_dict()},
                "vit_insects.pt",
            )


if __name__ == "__main__":
    main()
