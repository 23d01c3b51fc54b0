"""The U-Net of a latent diffusion model: residual blocks with time, attention to the words of a text."""

import math

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inputs, outputs, time):
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(16, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1)
        )
        self.time = nn.Linear(time, outputs)
        self.second = nn.Sequential(
            nn.GroupNorm(16, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1)
        )
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, time):
        h = self.first(x) + self.time(time)[:, :, None, None]
        return self.second(h) + self.skip(x)


class Attention(nn.Module):
    def __init__(self, width, context, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.pair = nn.Linear(context, 2 * width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x, context):
        q, k, v = self.query(x), *self.pair(context).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Reader(nn.Module):
    def __init__(self, width, context):
        super().__init__()
        self.enter = nn.GroupNorm(16, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.itself = Attention(width, width, width // 40)
        self.words = Attention(width, context, width // 40)
        self.gate = nn.Linear(width, 8 * width)
        self.back = nn.Linear(4 * width, width)

    def forward(self, x, context):
        h = self.enter(x).flatten(2).transpose(1, 2)
        one = self.norms[0](h)
        h = h + self.itself(one, one)
        h = h + self.words(self.norms[1](h), context)
        value, gate = self.gate(self.norms[2](h)).chunk(2, dim=-1)
        h = h + self.back(value * nn.functional.gelu(gate))
        return x + h.transpose(1, 2).reshape(x.shape)


class UNet(nn.Module):
    def __init__(self, width, context):
        super().__init__()
        time = 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(4, width, 3, padding=1)
        widths = [width, 2 * width, 4 * width]
        self.down = nn.ModuleList(Block(i, o, time) for i, o in zip([width, *widths], widths))
        self.read = nn.ModuleList(Reader(o, context) for o in widths)
        self.less = nn.ModuleList(nn.Conv2d(o, o, 3, stride=2, padding=1) for o in widths[:-1])
        self.middle = Block(4 * width, 4 * width, time)
        ups = list(zip([4 * width, 4 * width, 2 * width], widths[::-1]))
        self.up = nn.ModuleList(Block(i + o, o, time) for i, o in ups)
        self.reread = nn.ModuleList(Reader(o, context) for _, o in ups)
        self.leave = nn.Sequential(
            nn.GroupNorm(16, width), nn.SiLU(), nn.Conv2d(width, 4, 3, padding=1)
        )

    def forward(self, x, step, context):
        half = self.width // 2
        rates = torch.exp(torch.arange(half, device=x.device) * (-math.log(10000) / half))
        angles = step[:, None] * rates
        time = self.time(torch.cat([angles.sin(), angles.cos()], dim=-1).to(x.dtype))
        x, seen = self.enter(x), []
        for index, (block, read) in enumerate(zip(self.down, self.read)):
            x = read(block(x, time), context)
            seen.append(x)
            x = self.less[index](x) if index < len(self.less) else x
        x = self.middle(x, time)
        for index, (block, read) in enumerate(zip(self.up, self.reread)):
            x = nn.functional.interpolate(x, scale_factor=2.0) if index else x
            x = read(block(torch.cat([x, seen.pop()], dim=1), time), context)
        return self.leave(x)


def workload(batch=10, latent=32, width=160, words=77, context=768):
    latents = torch.randn(batch, 4, latent, latent)
    steps = torch.randint(0, 1000, (batch,))
    texts = torch.randn(batch, words, context)

    def loss(model, given):
        clean, step, text = given
        noise = torch.randn_like(clean)
        kept = torch.cos(step / 1000 * math.pi / 2).to(clean.dtype)[:, None, None, None]
        noisy = kept * clean + (1 - kept**2).sqrt() * noise
        return nn.functional.mse_loss(model(noisy, step, text), noise)

    return {"model": UNet(width, context), "batch": (latents, steps, texts), "loss": loss}
