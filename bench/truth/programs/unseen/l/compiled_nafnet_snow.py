"""Remove snow from photographs with a NAFNet. Compiled network, bf16, EMA of weights, PSNR on larger pictures."""

import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    width: int = 32
    enc: tuple = (1, 1, 2, 6)
    middle: int = 4
    dec: tuple = (1, 1, 1, 1)
    batch: int = 12
    crop: int = 256
    iters: int = 40
    lr: float = 1e-3
    ema: float = 0.99
    val_size: int = 512
    val_images: int = 8
    seed: int = 77


class LayerNorm2d(nn.Module):
    def __init__(self, c, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, c, 1, 1))
        self.bias = nn.Parameter(torch.zeros(1, c, 1, 1))
        self.eps = eps

    def forward(self, x):
        mu = x.mean(1, keepdim=True)
        var = (x - mu).pow(2).mean(1, keepdim=True)
        return (x - mu) * torch.rsqrt(var + self.eps) * self.weight + self.bias


def simple_gate(x):
    a, b = x.chunk(2, dim=1)
    return a * b


class NAFBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm1, self.norm2 = LayerNorm2d(c), LayerNorm2d(c)
        self.expand = nn.Conv2d(c, 2 * c, 1)
        self.depthwise = nn.Conv2d(2 * c, 2 * c, 3, padding=1, groups=2 * c)
        self.attend = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c, 1))
        self.project = nn.Conv2d(c, c, 1)
        self.ffn_in, self.ffn_out = nn.Conv2d(c, 2 * c, 1), nn.Conv2d(c, c, 1)
        self.beta = nn.Parameter(torch.zeros(1, c, 1, 1))
        self.gamma = nn.Parameter(torch.zeros(1, c, 1, 1))

    def forward(self, inp):
        x = simple_gate(self.depthwise(self.expand(self.norm1(inp))))
        x = self.project(x * self.attend(x))
        y = inp + x * self.beta
        x = self.ffn_out(simple_gate(self.ffn_in(self.norm2(y))))
        return y + x * self.gamma


class NAFNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg.width
        self.intro, self.ending = nn.Conv2d(3, w, 3, padding=1), nn.Conv2d(w, 3, 3, padding=1)
        self.encoders, self.downs = nn.ModuleList(), nn.ModuleList()
        self.decoders, self.ups = nn.ModuleList(), nn.ModuleList()
        for n in cfg.enc:
            self.encoders.append(nn.Sequential(*[NAFBlock(w) for _ in range(n)]))
            self.downs.append(nn.Conv2d(w, 2 * w, 2, 2))
            w *= 2
        self.middle = nn.Sequential(*[NAFBlock(w) for _ in range(cfg.middle)])
        for n in cfg.dec:
            self.ups.append(nn.Sequential(nn.Conv2d(w, 2 * w, 1, bias=False), nn.PixelShuffle(2)))
            w //= 2
            self.decoders.append(nn.Sequential(*[NAFBlock(w) for _ in range(n)]))

    def forward(self, inp):
        x = self.intro(inp)
        skips = []
        for enc, down in zip(self.encoders, self.downs):
            x = enc(x)
            skips.append(x)
            x = down(x)
        x = self.middle(x)
        for dec, up, skip in zip(self.decoders, self.ups, reversed(skips)):
            x = dec(up(x) + skip)
        return self.ending(x) + inp


def snowfall(n, size, device, gen):
    clean = F.interpolate(
        torch.rand(n, 3, size // 16, size // 16, generator=gen, device=device),
        size=(size, size),
        mode="bicubic",
        align_corners=False,
    ).clamp(0, 1)
    flakes = (torch.rand(n, 1, size, size, generator=gen, device=device) > 0.985).float()
    flakes = F.max_pool2d(flakes, 5, stride=1, padding=2) * 0.8
    return torch.maximum(clean, flakes.expand_as(clean)), clean


def psnr_loss(pred, target):
    mse = (pred - target).pow(2).mean((1, 2, 3))
    return 10 / torch.log(torch.tensor(10.0)).item() * torch.log(mse + 1e-8).mean()


@torch.no_grad()
def update_ema(ema, net, decay):
    for e, p in zip(ema.parameters(), net.parameters()):
        e.lerp_(p, 1 - decay)


@torch.no_grad()
def validate(net, cfg, device):
    gen = torch.Generator(device=device).manual_seed(5)
    scores = []
    for _ in range(cfg.val_images // 4):
        snowy, clean = snowfall(4, cfg.val_size, device, gen)
        out = net(snowy).clamp(0, 1)
        scores.append(-10 * torch.log10((out - clean).pow(2).mean((1, 2, 3))))
    return torch.cat(scores).mean().item()


def main(cfg=Config()):
    torch.manual_seed(cfg.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = NAFNet(cfg).to(device)
    ema = copy.deepcopy(net).eval().requires_grad_(False)
    fast = torch.compile(net)
    opt = torch.optim.AdamW(net.parameters(), lr=cfg.lr, betas=(0.9, 0.9), weight_decay=0.0)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg.iters, eta_min=1e-7)
    gen = torch.Generator(device=device).manual_seed(cfg.seed)
    best = 0.0
    for it in range(cfg.iters):
        snowy, clean = snowfall(cfg.batch, cfg.crop, device, gen)
        with torch.autocast(device, dtype=torch.bfloat16):
            out = fast(snowy)
        loss = psnr_loss(out.float(), clean)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.01)
        opt.step()
        sched.step()
        update_ema(ema, net, cfg.ema)
        if (it + 1) % 20 == 0:
            score = validate(ema, cfg, device)
            best = max(best, score)
            print(f"iter {it + 1:3d} loss {loss.item():7.3f} psnr(ema) {score:.2f} best {best:.2f}")


if __name__ == "__main__":
    main()
