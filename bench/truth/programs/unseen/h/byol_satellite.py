"""BYOL on satellite tiles: an online network, a slow target, then a linear probe."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models import resnet50

TILES, SIZE, CROP = 900, 192, 160
BATCH, EPOCHS = 96, 2
BASE_TAU, LR = 0.99, 0.3
PROBE_CLASSES, PROBE_STEPS = 10, 100

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(42)


def mlp(inp, hidden, out):
    return nn.Sequential(
        nn.Linear(inp, hidden),
        nn.BatchNorm1d(hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, out),
    )


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = resnet50(weights=None)
        self.trunk.fc = nn.Identity()
        self.project = mlp(2048, 4096, 256)

    def forward(self, x):
        return self.project(self.trunk(x))


def augment(x):
    """Crop, flip, channel jitter and grey, on the device, one draw for the whole batch crop."""
    i, j = torch.randint(0, SIZE - CROP + 1, (2,)).tolist()
    x = x[:, :, i : i + CROP, j : j + CROP]
    flip = torch.rand(x.shape[0], device=x.device) < 0.5
    x = torch.where(flip[:, None, None, None], x.flip(-1), x)
    gain = 1 + 0.4 * (torch.rand(x.shape[0], 3, 1, 1, device=x.device) - 0.5)
    x = x * gain + 0.2 * (torch.rand(x.shape[0], 3, 1, 1, device=x.device) - 0.5)
    grey = torch.rand(x.shape[0], 1, 1, 1, device=x.device) < 0.2
    return torch.where(grey, x.mean(1, keepdim=True).expand_as(x), x)


def distance(p, z):
    return 2 - 2 * F.cosine_similarity(p.float(), z.float(), dim=-1)


@torch.no_grad()
def move_target(online, target, tau):
    for a, b in zip(online.parameters(), target.parameters()):
        b.mul_(tau).add_(a, alpha=1 - tau)
    for a, b in zip(online.buffers(), target.buffers()):
        b.copy_(a)


@torch.no_grad()
def features(encoder, tiles, batch=256):
    encoder.eval()
    out = []
    for chunk in tiles.split(batch):
        x = chunk.to(device).float().div_(255)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            out.append(encoder.trunk(x).float())
    encoder.train()
    return torch.cat(out)


def linear_probe(encoder, tiles, labels):
    feats = features(encoder, tiles)
    feats = (feats - feats.mean(0)) / (feats.std(0) + 1e-6)
    probe = nn.Linear(feats.shape[1], PROBE_CLASSES).to(device)
    opt = torch.optim.Adam(probe.parameters(), lr=1e-2, weight_decay=1e-4)
    for _ in range(PROBE_STEPS):
        loss = F.cross_entropy(probe(feats), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return (probe(feats).argmax(1) == labels).float().mean().item()


def main():
    tiles = torch.randint(0, 256, (TILES, 3, SIZE, SIZE), dtype=torch.uint8)
    labels = torch.randint(0, PROBE_CLASSES, (TILES,)).to(device)
    online = Encoder().to(device)
    predictor = mlp(256, 4096, 256).to(device)
    target = copy.deepcopy(online)
    for p in target.parameters():
        p.requires_grad_(False)
    params = list(online.parameters()) + list(predictor.parameters())
    opt = torch.optim.SGD(params, lr=LR * BATCH / 256, momentum=0.9, weight_decay=1e-5)
    steps = EPOCHS * (TILES // BATCH)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)

    step = 0
    for epoch in range(EPOCHS):
        order = torch.randperm(TILES)
        for k in range(TILES // BATCH):
            x = tiles[order[k * BATCH : (k + 1) * BATCH]].to(device).float().div_(255)
            a, b = augment(x), augment(x)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                pa, pb = predictor(online(a)), predictor(online(b))
                with torch.no_grad():
                    za, zb = target(a), target(b)
            loss = (distance(pa, zb) + distance(pb, za)).mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(params, 1.0)
            opt.step()
            sched.step()
            tau = 1 - (1 - BASE_TAU) * (math.cos(math.pi * step / steps) + 1) / 2
            move_target(online, target, tau)
            step += 1
            if step % 3 == 0:
                print(f"step {step}/{steps} loss {loss.item():.4f} tau {tau:.4f}")
        print(f"epoch {epoch}: probe accuracy {linear_probe(online, tiles, labels):.3f}")
    torch.save({"online": online.state_dict(), "target": target.state_dict()}, "byol.pt")


if __name__ == "__main__":
    main()
