"""Discrete VAE with a Gumbel-softmax codebook (8192 entries), temperature annealing, fp16 GradScaler, EMA copy used for reconstructions."""

import copy
import math
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F

hp = SimpleNamespace(
    size=128,
    tokens=8192,
    code_dim=256,
    width=128,
    blocks=2,
    batch=24,
    steps=40,
    temp_start=1.0,
    temp_end=0.0625,
    kl=6e-4,
    lr=4e-4,
    ema=0.99,
    seed=17,
)


class Bottleneck(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.body = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(c, c // 4, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(c // 4, c // 4, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(c // 4, c, 1),
        )

    def forward(self, x):
        return x + self.body(x)


class DVAE(nn.Module):
    def __init__(self):
        super().__init__()
        w, layers = hp.width, [nn.Conv2d(3, hp.width, 7, padding=3)]
        for i in range(2):
            layers += [Bottleneck(w * 2**i) for _ in range(hp.blocks)]
            layers += [nn.Conv2d(w * 2**i, w * 2 ** (i + 1), 1), nn.MaxPool2d(2)]
        layers += [Bottleneck(4 * w), nn.ReLU(), nn.Conv2d(4 * w, hp.tokens, 1)]
        self.encoder = nn.Sequential(*layers)
        self.codebook = nn.Embedding(hp.tokens, hp.code_dim)
        layers = [nn.Conv2d(hp.code_dim, 4 * w, 1), Bottleneck(4 * w)]
        for i in reversed(range(2)):
            layers += [
                nn.Upsample(scale_factor=2),
                nn.Conv2d(w * 2 ** (i + 1), w * 2**i, 1),
            ]
            layers += [Bottleneck(w * 2**i) for _ in range(hp.blocks)]
        layers += [nn.ReLU(), nn.Conv2d(w, 6, 1)]
        self.decoder = nn.Sequential(*layers)

    def forward(self, x, temperature):
        logits = self.encoder(x)
        soft = F.gumbel_softmax(logits.float(), tau=temperature, dim=1)
        codes = torch.einsum("bnhw,nd->bdhw", soft, self.codebook.weight)
        return self.decoder(codes), logits

    @torch.no_grad()
    def reconstruct(self, x):
        ids = self.encoder(x).argmax(1)
        mean, _ = self.decoder(self.codebook(ids).permute(0, 3, 1, 2)).chunk(2, 1)
        return torch.sigmoid(mean), ids


def logit_laplace(out, x, eps=0.1):
    mu, logb = out.float().chunk(2, 1)
    y = torch.logit((1 - 2 * eps) * x + eps)
    return ((y - mu).abs() / logb.exp() + logb).mean()


def uniform_kl(logits):
    logq = F.log_softmax(logits.float().flatten(2), dim=1)
    return (logq.exp() * (logq + math.log(hp.tokens))).sum(1).mean()


def mosaics(n, device):
    stones = torch.rand(n, 3, 16, 16, device=device)
    return F.interpolate(stones, size=(hp.size, hp.size))


def main():
    torch.manual_seed(hp.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = DVAE().to(device)
    average = copy.deepcopy(model).eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=hp.lr, betas=(0.9, 0.999), weight_decay=1e-4
    )
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    for step in range(hp.steps):
        progress = step / hp.steps
        temperature = hp.temp_end + 0.5 * (hp.temp_start - hp.temp_end) * (
            1 + math.cos(math.pi * progress)
        )
        x = mosaics(hp.batch, device)
        with torch.autocast(device.type, dtype=torch.float16):
            out, logits = model(x, temperature)
        loss = logit_laplace(out, x) + hp.kl * progress * uniform_kl(logits)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        with torch.no_grad():
            for a, p in zip(average.parameters(), model.parameters()):
                a.lerp_(p, 1 - hp.ema)
        if step % 10 == 0:
            print(f"{step}: loss {loss.item():.4f} temperature {temperature:.3f}")
    pictures = mosaics(2 * hp.batch, device)
    again, ids = average.reconstruct(pictures)
    print("mse", F.mse_loss(again, pictures).item(), "codes in use", ids.unique().numel())


if __name__ == "__main__":
    main()
