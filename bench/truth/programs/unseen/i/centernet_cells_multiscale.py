"""Cell detection as points (CenterNet-style) on a ResNet-34 backbone; image side changes every few steps."""

import random

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models import resnet34
from torchvision.ops import box_iou, nms

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SIDES = [384, 448, 512, 576]
EVAL_SIDE = 640
BATCH, STEPS = 16, 16
CLASSES = 3


class CenterNet(nn.Module):
    def __init__(self):
        super().__init__()
        r = resnet34(weights=None)
        self.stem = nn.Sequential(r.conv1, r.bn1, r.relu, r.maxpool)
        self.stages = nn.ModuleList([r.layer1, r.layer2, r.layer3, r.layer4])
        self.lateral = nn.ModuleList(nn.Conv2d(c, 128, 1) for c in (64, 128, 256, 512))
        self.smooth = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(128, 128, 3, padding=1), nn.GroupNorm(16, 128), nn.ReLU(inplace=True)
            )
            for _ in range(3)
        )
        self.heat = self.make_head(CLASSES)
        self.size = self.make_head(2)
        self.offset = self.make_head(2)
        nn.init.constant_(self.heat[-1].bias, -2.19)

    @staticmethod
    def make_head(out):
        return nn.Sequential(
            nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(128, out, 1)
        )

    def forward(self, x):
        x = self.stem(x)
        feats = []
        for s in self.stages:
            x = s(x)
            feats.append(x)
        h = self.lateral[3](feats[3])
        for i in (2, 1, 0):
            h = F.interpolate(
                h, scale_factor=2, mode="bilinear", align_corners=False
            ) + self.lateral[i](feats[i])
            h = self.smooth[i](h)
        return self.heat(h), self.size(h), self.offset(h)


def make_batch(n, side):
    img = torch.rand(n, 3, side, side)
    m = side // 4
    heat = torch.zeros(n, CLASSES, m, m)
    size, off, mask = torch.zeros(n, 2, m, m), torch.zeros(n, 2, m, m), torch.zeros(n, 1, m, m)
    yy, xx = torch.meshgrid(torch.arange(m), torch.arange(m), indexing="ij")
    boxes = []
    for b in range(n):
        k = random.randint(4, 12)
        c = torch.rand(k, 2) * (m - 8) + 4
        wh = torch.rand(k, 2) * 10 + 4
        for (cx, cy), s in zip(c.tolist(), wh):
            ix, iy, cl = int(cx), int(cy), random.randrange(CLASSES)
            g = torch.exp(-((xx - ix) ** 2 + (yy - iy) ** 2) / (2 * 2.0**2))
            heat[b, cl] = torch.maximum(heat[b, cl], g)
            size[b, :, iy, ix] = s
            off[b, :, iy, ix] = torch.tensor([cx - ix, cy - iy])
            mask[b, 0, iy, ix] = 1
        boxes.append(torch.cat([c - wh / 2, c + wh / 2], 1) * 4)
    return img, heat, size, off, mask, boxes


def focal(pred, gt):
    p = pred.sigmoid().clamp(1e-4, 1 - 1e-4)
    pos = gt.eq(1).float()
    loss = pos * p.log() * (1 - p) ** 2 + (1 - pos) * (1 - p).log() * p**2 * (1 - gt) ** 4
    return -loss.sum() / pos.sum().clamp(min=1)


@torch.no_grad()
def detect(model, img, k=100):
    heat, size, off = model(img)
    heat = heat.sigmoid()
    heat = heat * (F.max_pool2d(heat, 3, 1, 1) == heat)
    n, _, h, w = heat.shape
    score, idx = heat.flatten(1).topk(k)
    pos = idx % (h * w)
    gather = lambda t: t.flatten(2).gather(2, pos[:, None].expand(-1, 2, -1)).transpose(1, 2)
    centre = torch.stack([pos % w, pos // w], -1).float() + gather(off)
    wh = gather(size)
    box = torch.cat([centre - wh / 2, centre + wh / 2], -1) * 4
    return [(b[keep], s[keep]) for b, s in zip(box, score) for keep in [nms(b, s, 0.5)]]


model = CenterNet().to(DEVICE)
opt = torch.optim.Adam(model.parameters(), lr=2.5e-4)
sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.1, total_iters=STEPS)
side = SIDES[1]
model.train()
for step in range(STEPS):
    if step % 3 == 0:
        side = random.choice(SIDES)
    *tensors, _ = make_batch(BATCH, side)
    img, heat, size, off, mask = [t.to(DEVICE) for t in tensors]
    ph, ps, po = model(img)
    n = mask.sum().clamp(min=1)
    loss = (
        focal(ph, heat)
        + 0.1 * (mask * (ps - size).abs()).sum() / n
        + (mask * (po - off).abs()).sum() / n
    )
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 10.0)
    opt.step()
    sched.step()
    if step % 4 == 0:
        print(f"step {step} side {side} loss {loss.item():.3f}")

model.eval()
img, *_, boxes = make_batch(6, EVAL_SIDE)
recall = []
for (b, s), gt in zip(detect(model, img.to(DEVICE)), boxes):
    recall.append((box_iou(gt, b.cpu()).max(1).values > 0.5).float().mean())
print("recall@100", torch.stack(recall).mean().item())
torch.save(model.state_dict(), "cells.pt")
