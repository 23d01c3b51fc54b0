"""SR3: diffusion that sharpens 32x32 faces to 128x128; trains with small batches and, after the last epoch only, samples a large grid."""

import logging
import math
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO)
log = logging.getLogger("sr3")


class NoiseEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.net = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))

    def forward(self, level):
        k = torch.arange(self.dim // 2, device=level.device) / (self.dim // 2)
        a = level[:, None] * 5000 * torch.exp(-math.log(1e4) * k)[None]
        return self.net(torch.cat([a.sin(), a.cos()], -1))


class Block(nn.Module):
    def __init__(self, cin, cout, emb, attention=False):
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(32, cin), nn.SiLU(), nn.Conv2d(cin, cout, 3, 1, 1))
        self.noise = nn.Linear(emb, cout)
        self.second = nn.Sequential(
            nn.GroupNorm(32, cout),
            nn.SiLU(),
            nn.Dropout(0.1),
            nn.Conv2d(cout, cout, 3, 1, 1),
        )
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()
        self.attention = nn.MultiheadAttention(cout, 4, batch_first=True) if attention else None
        self.norm = nn.GroupNorm(32, cout) if attention else None

    def forward(self, x, e):
        h = self.first(x) + self.noise(e)[:, :, None, None]
        h = self.skip(x) + self.second(h)
        if self.attention is not None:
            flat = self.norm(h).flatten(2).transpose(1, 2)
            out, _ = self.attention(flat, flat, flat, need_weights=False)
            h = h + out.transpose(1, 2).reshape(h.shape)
        return h


class SR3(nn.Module):
    def __init__(self, width=64, mults=(1, 2, 4, 4), emb=128):
        super().__init__()
        self.embed = NoiseEmbedding(emb)
        self.stem = nn.Conv2d(6, width, 3, 1, 1)
        self.downs, self.ups = nn.ModuleList(), nn.ModuleList()
        sizes, c = [width], width
        for i, m in enumerate(mults):
            last = i == len(mults) - 1
            for _ in range(2):
                self.downs.append(Block(c, width * m, emb, attention=last))
                c = width * m
                sizes.append(c)
            if not last:
                self.downs.append(nn.Conv2d(c, c, 3, 2, 1))
                sizes.append(c)
        self.middle = Block(c, c, emb, attention=True)
        for i, m in reversed(list(enumerate(mults))):
            for j in range(3):
                self.ups.append(
                    Block(c + sizes.pop(), width * m, emb, attention=i == len(mults) - 1)
                )
                c = width * m
            if i:
                self.ups.append(
                    nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(c, c, 3, 1, 1))
                )
        self.out = nn.Sequential(nn.GroupNorm(32, c), nn.SiLU(), nn.Conv2d(c, 3, 3, 1, 1))

    def forward(self, low, noisy, level):
        e = self.embed(level)
        h = self.stem(torch.cat([low, noisy], 1))
        kept = [h]
        for layer in self.downs:
            h = layer(h, e) if isinstance(layer, Block) else layer(h)
            kept.append(h)
        h = self.middle(h, e)
        for layer in self.ups:
            h = layer(torch.cat([h, kept.pop()], 1), e) if isinstance(layer, Block) else layer(h)
        return self.out(h)


class Diffusion:
    def __init__(self, steps, device):
        beta = torch.linspace(1e-4, 0.05, steps, device=device)
        self.beta, self.alpha = beta, 1 - beta
        self.bar = torch.cumprod(self.alpha, 0)
        self.steps = steps

    def loss(self, net, low, high):
        t = torch.randint(0, self.steps, (len(high),), device=high.device)
        bar = self.bar[t]
        eps = torch.randn_like(high)
        noisy = bar.sqrt()[:, None, None, None] * high + (1 - bar).sqrt()[:, None, None, None] * eps
        return F.l1_loss(net(low, noisy, bar.sqrt()), eps)

    @torch.no_grad()
    def sharpen(self, net, low):
        x = torch.randn_like(low)
        for t in reversed(range(self.steps)):
            level = self.bar[t].sqrt().expand(len(low))
            eps = net(low, x, level)
            x = (x - self.beta[t] / (1 - self.bar[t]).sqrt() * eps) / self.alpha[t].sqrt()
            if t:
                x = x + self.beta[t].sqrt() * torch.randn_like(x)
        return x


def faces(n, device):
    high = F.interpolate(torch.randn(n, 3, 20, 20, device=device), size=(128, 128), mode="bicubic")
    high = high.tanh()
    low = F.interpolate(F.avg_pool2d(high, 4), size=(128, 128), mode="bicubic")
    return low, high


def main():
    torch.manual_seed(90)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = SR3().to(device)
    diffusion = Diffusion(40, device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    epochs, per_epoch, batch, grid = 3, 12, 8, 192
    for epoch in range(epochs):
        net.train()
        for _ in range(per_epoch):
            loss = diffusion.loss(net, *faces(batch, device))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        log.info("epoch %d loss %.4f", epoch, loss.item())
        if epoch == epochs - 1:
            net.eval()
            low, high = faces(grid, device)
            result = diffusion.sharpen(net, low)
            log.info(
                "psnr %.2f",
                -10 * math.log10(F.mse_loss(result, high).item() / 4 + 1e-9),
            )
            with tempfile.TemporaryDirectory() as folder:
                torch.save(net.state_dict(), Path(folder) / "sr3.pt")


if __name__ == "__main__":
    main()
