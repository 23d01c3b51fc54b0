"""Anchor-free one-stage detector (YOLOX manner: CSP backbone, PAN neck, decoupled heads, dynamic-k assignment) for bees on a comb.

fp16 with GradScaler, EMA, cosine with warm-up, multi-scale pictures between 448 and 640.
"""

import argparse
import copy
import math
import random

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.ops import batched_nms, box_iou, generalized_box_iou_loss

CLASSES = 3


def cbs(cin, cout, k=3, s=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, k, s, k // 2, bias=False),
        nn.BatchNorm2d(cout, eps=1e-3, momentum=0.03),
        nn.SiLU(True),
    )


class CSP(nn.Module):
    def __init__(self, cin, cout, n, shortcut=True):
        super().__init__()
        h = cout // 2
        self.a, self.b, self.out = cbs(cin, h, 1), cbs(cin, h, 1), cbs(2 * h, cout, 1)
        self.blocks = nn.ModuleList(nn.Sequential(cbs(h, h, 1), cbs(h, h)) for _ in range(n))
        self.shortcut = shortcut

    def forward(self, x):
        y = self.a(x)
        for block in self.blocks:
            y = y + block(y) if self.shortcut else block(y)
        return self.out(torch.cat([y, self.b(x)], 1))


class Detector(nn.Module):
    strides = (8, 16, 32)

    def __init__(self, w=48):
        super().__init__()
        self.stem = cbs(12, w)
        self.d2 = nn.Sequential(cbs(w, 2 * w, 3, 2), CSP(2 * w, 2 * w, 2))
        self.d3 = nn.Sequential(cbs(2 * w, 4 * w, 3, 2), CSP(4 * w, 4 * w, 6))
        self.d4 = nn.Sequential(cbs(4 * w, 8 * w, 3, 2), CSP(8 * w, 8 * w, 6))
        self.d5 = nn.Sequential(cbs(8 * w, 16 * w, 3, 2), CSP(16 * w, 16 * w, 2, False))
        self.l5, self.l4 = cbs(16 * w, 8 * w, 1), cbs(8 * w, 4 * w, 1)
        self.u4, self.u3 = CSP(16 * w, 8 * w, 2, False), CSP(8 * w, 4 * w, 2, False)
        self.c3, self.c4 = cbs(4 * w, 4 * w, 3, 2), cbs(8 * w, 8 * w, 3, 2)
        self.n4, self.n5 = CSP(8 * w, 8 * w, 2, False), CSP(16 * w, 16 * w, 2, False)
        self.pre = nn.ModuleList(cbs(c * w, 4 * w, 1) for c in (4, 8, 16))
        self.cls = nn.ModuleList(
            nn.Sequential(cbs(4 * w, 4 * w), cbs(4 * w, 4 * w), nn.Conv2d(4 * w, CLASSES, 1))
            for _ in range(3)
        )
        self.reg = nn.ModuleList(
            nn.Sequential(cbs(4 * w, 4 * w), cbs(4 * w, 4 * w), nn.Conv2d(4 * w, 5, 1))
            for _ in range(3)
        )
        for head in self.cls:
            nn.init.constant_(head[-1].bias, -math.log(99))

    def forward(self, x):
        x = self.stem(F.pixel_unshuffle(x, 2))
        p3 = self.d3(self.d2(x))
        p4 = self.d4(p3)
        p5 = self.l5(self.d5(p4))
        t4 = self.l4(self.u4(torch.cat([F.interpolate(p5, scale_factor=2.0), p4], 1)))
        o3 = self.u3(torch.cat([F.interpolate(t4, scale_factor=2.0), p3], 1))
        o4 = self.n4(torch.cat([self.c3(o3), t4], 1))
        o5 = self.n5(torch.cat([self.c4(o4), p5], 1))
        outs, centers, strides = [], [], []
        for f, stride, pre, cls, reg in zip(
            (o3, o4, o5), self.strides, self.pre, self.cls, self.reg
        ):
            f = pre(f)
            both = torch.cat([reg(f), cls(f)], 1)
            h, w = both.shape[-2:]
            ys, xs = torch.meshgrid(
                torch.arange(h, device=f.device), torch.arange(w, device=f.device), indexing="ij"
            )
            centers.append((torch.stack([xs, ys], -1).view(-1, 2) + 0.5) * stride)
            strides.append(torch.full((h * w,), float(stride), device=f.device))
            outs.append(both.flatten(2).transpose(1, 2))
        out, centers, strides = torch.cat(outs, 1).float(), torch.cat(centers), torch.cat(strides)
        xy = centers + out[..., :2] * strides[:, None]
        wh = out[..., 2:4].clamp(max=6).exp() * strides[:, None]
        return (
            torch.cat([xy - wh / 2, xy + wh / 2], -1),
            out[..., 4],
            out[..., 5:],
            centers,
            strides,
        )


@torch.no_grad()
def assign(boxes, obj, cls, centers, strides, gt, labels):
    """Dynamic-k matching of one picture."""
    inside = (
        (centers[:, None] - (gt[:, :2] + gt[:, 2:]) / 2).abs() < 2.5 * strides[:, None, None]
    ).all(-1)
    iou = box_iou(boxes, gt)
    prob = (cls.sigmoid() * obj.sigmoid()[:, None]).sqrt()[:, labels]
    cost = -prob.clamp(min=1e-6).log() - 3 * iou.clamp(min=1e-6).log() + 1e5 * (~inside)
    match = torch.zeros_like(cost, dtype=torch.bool)
    ks = iou.topk(min(10, len(iou)), 0).values.sum(0).int().clamp(min=1)
    for j, k in enumerate(ks.tolist()):
        match[cost[:, j].topk(k, largest=False).indices, j] = True
    many = match.sum(1) > 1
    if many.any():
        best = cost[many].argmin(1)
        match[many] = F.one_hot(best, cost.shape[1]).bool()
    anchors, which = match.nonzero(as_tuple=True)
    return anchors, which, iou[anchors, which]


def criterion(out, targets):
    boxes, obj, cls, centers, strides = out
    n = 0
    box_loss = cls_loss = boxes.sum() * 0
    obj_target = torch.zeros_like(obj)
    for i, (gt, labels) in enumerate(targets):
        anchors, which, iou = assign(boxes[i], obj[i], cls[i], centers, strides, gt, labels)
        obj_target[i, anchors] = 1
        box_loss = box_loss + generalized_box_iou_loss(
            boxes[i, anchors], gt[which], reduction="sum"
        )
        target = F.one_hot(labels[which], CLASSES).float() * iou[:, None]
        cls_loss = cls_loss + F.binary_cross_entropy_with_logits(
            cls[i, anchors], target, reduction="sum"
        )
        n += len(anchors)
    obj_loss = F.binary_cross_entropy_with_logits(obj, obj_target, reduction="sum")
    return (5 * box_loss + obj_loss + cls_loss) / max(n, 1)


def comb(batch, side, device, gen):
    images = torch.rand(batch, 3, side, side, generator=gen)
    targets = []
    for i in range(batch):
        n = int(torch.randint(4, 16, (1,), generator=gen))
        c = torch.rand(n, 2, generator=gen) * (side * 0.8) + side * 0.1
        wh = torch.rand(n, 2, generator=gen) * side * 0.12 + 12
        box = torch.cat([c - wh / 2, c + wh / 2], 1).clamp(0, side)
        targets.append((box.to(device), torch.randint(0, CLASSES, (n,), generator=gen).to(device)))
    return images.to(device), targets


@torch.no_grad()
def detect(net, images, threshold=0.01, keep=100):
    boxes, obj, cls, *_ = net(images)
    score, label = (cls.sigmoid() * obj.sigmoid()[..., None]).max(-1)
    results = []
    for b, s, l in zip(boxes, score, label):
        top = s.topk(min(1000, len(s))).indices
        top = top[s[top] > threshold]
        chosen = batched_nms(b[top], s[top], l[top], 0.6)[:keep]
        results.append((b[top][chosen], s[top][chosen], l[top][chosen]))
    return results


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--width", type=int, default=48)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--steps", type=int, default=40)
    ap.add_argument("--sides", type=int, nargs="+", default=[448, 512, 576, 640])
    a = ap.parse_args()
    torch.manual_seed(15)
    random.seed(15)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = Detector(a.width).to(device)
    ema = copy.deepcopy(net).eval()
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, nesterov=True)
    warm = 5
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt,
        lambda s: (s + 1) / warm
        if s < warm
        else 0.05 + 0.475 * (1 + math.cos(math.pi * (s - warm) / (a.steps - warm))),
    )
    scaler = torch.amp.GradScaler(device, enabled=device == "cuda")
    gen = torch.Generator().manual_seed(1)
    side = a.sides[-1]
    for step in range(a.steps):
        if step % 5 == 0:
            side = random.choice(a.sides)
        images, targets = comb(a.batch, side, device, gen)
        with torch.autocast(device, torch.float16 if device == "cuda" else torch.bfloat16):
            out = net(images)
        loss = criterion(out, targets)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        scaler.step(opt)
        scaler.update()
        sched.step()
        with torch.no_grad():
            for e, p in zip(ema.state_dict().values(), net.state_dict().values()):
                if e.dtype.is_floating_point:
                    e.lerp_(p, 0.02)
        if step % 10 == 0:
            print(f"step {step} side {side} loss {loss.item():.3f}")
    found = hit = 0
    for _ in range(3):
        images, targets = comb(a.batch, a.sides[-1], device, gen)
        for (b, s, l), (gt, y) in zip(detect(ema, images), targets):
            found += len(b)
            hit += int((box_iou(b, gt).amax(0) > 0.5).sum()) if len(b) else 0
    print("boxes", found, "recalled", hit)


if __name__ == "__main__":
    main()
