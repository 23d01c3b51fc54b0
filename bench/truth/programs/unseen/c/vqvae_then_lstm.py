"""A VQ-VAE with an averaged codebook, then an LSTM over its codes that draws new pictures."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Quantizer(nn.Module):
    def __init__(self, codes, dim, decay=0.99):
        super().__init__()
        self.decay = decay
        self.register_buffer("book", torch.randn(codes, dim))
        self.register_buffer("count", torch.ones(codes))
        self.register_buffer("total", self.book.clone())

    def forward(self, z):
        flat = z.permute(0, 2, 3, 1).reshape(-1, z.size(1))
        far = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.book.t() + self.book.pow(2).sum(1)
        index = far.argmin(1)
        if self.training:
            with torch.no_grad():
                hot = F.one_hot(index, len(self.book)).to(flat.dtype)
                self.count.mul_(self.decay).add_(hot.sum(0), alpha=1 - self.decay)
                self.total.mul_(self.decay).add_(hot.t() @ flat, alpha=1 - self.decay)
                self.book.copy_(self.total / (self.count + 1e-5)[:, None])
        b, d, h, w = z.shape
        q = F.embedding(index, self.book).view(b, h, w, d).permute(0, 3, 1, 2)
        commit = F.mse_loss(z, q.detach())
        return z + (q - z).detach(), commit, index.view(b, h * w)


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c // 2, 3, padding=1), nn.Conv2d(c // 2, c, 1)

    def forward(self, x):
        return x + self.b(F.relu(self.a(F.relu(x))))


class VQVAE(nn.Module):
    def __init__(self, width, codes, dim):
        super().__init__()
        self.encode = nn.Sequential(
            nn.Conv2d(3, width // 2, 4, 2, 1),
            nn.ReLU(),
            nn.Conv2d(width // 2, width, 4, 2, 1),
            nn.ReLU(),
            nn.Conv2d(width, width, 4, 2, 1),
            Res(width),
            Res(width),
            nn.Conv2d(width, dim, 1),
        )
        self.quantize = Quantizer(codes, dim)
        self.decode = nn.Sequential(
            nn.Conv2d(dim, width, 3, padding=1),
            Res(width),
            Res(width),
            nn.ConvTranspose2d(width, width, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(width, width // 2, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(width // 2, 3, 4, 2, 1),
        )

    def forward(self, x):
        q, commit, index = self.quantize(self.encode(x))
        return self.decode(q), commit, index


class Prior(nn.Module):
    def __init__(self, codes, width):
        super().__init__()
        self.codes = codes
        self.embed = nn.Embedding(codes + 1, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)
        self.out = nn.Linear(width, codes)

    def forward(self, index, state=None):
        y, state = self.lstm(self.embed(index), state)
        return self.out(y), state

    @torch.no_grad()
    def sample(self, count, length, device):
        word = torch.full((count, 1), self.codes, device=device)
        state, words = None, []
        for _ in range(length):
            logits, state = self(word, state)
            word = torch.multinomial(logits[:, -1].softmax(-1), 1)
            words.append(word)
        return torch.cat(words, 1)


def blobs(batch, size, g, device):
    middle = torch.rand(batch, 2, 1, 1, generator=g) * 2 - 1
    color = torch.rand(batch, 3, 1, 1, generator=g)
    line = torch.linspace(-1, 1, size)
    d = (line[None, None, :, None] - middle[:, :1]) ** 2 + (line - middle[:, 1:]) ** 2
    return (torch.exp(-8 * d) * color).to(device)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--size", type=int, default=128)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--codes", type=int, default=1024)
    p.add_argument("--dim", type=int, default=64)
    p.add_argument("--steps", type=int, default=50)
    p.add_argument("--prior-steps", type=int, default=30)
    p.add_argument("--draw", type=int, default=64)
    a = p.parse_args()
    torch.manual_seed(4)
    g = torch.Generator().manual_seed(4)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    vae = VQVAE(a.width, a.codes, a.dim).to(device)
    optimizer = torch.optim.Adam(vae.parameters(), lr=3e-4)
    for step in range(a.steps):
        x = blobs(a.batch, a.size, g, device)
        seen, commit, index = vae(x)
        loss = F.mse_loss(seen, x) + 0.25 * commit
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            used = index.unique().numel()
            print(f"step {step} loss {loss.item():.4f}, {used} codes used")
    del optimizer
    vae.eval().requires_grad_(False)
    prior = Prior(a.codes, 2 * a.width).to(device)
    optimizer = torch.optim.Adam(prior.parameters(), lr=1e-3)
    for step in range(a.prior_steps):
        with torch.no_grad():
            _, _, index = vae(blobs(a.batch, a.size, g, device))
        start = torch.full((len(index), 1), a.codes, device=device)
        logits, _ = prior(torch.cat([start, index[:, :-1]], 1))
        loss = F.cross_entropy(logits.transpose(1, 2), index)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"prior {loss.item():.3f}")
    side = a.size // 8
    words = prior.sample(a.draw, side * side, device)
    codes = F.embedding(words, vae.quantize.book).view(a.draw, side, side, -1).permute(0, 3, 1, 2)
    with torch.no_grad():
        drawn = vae.decode(codes).clamp(0, 1).cpu()
    torch.save(
        {"vae": vae.state_dict(), "prior": prior.state_dict(), "drawn": drawn},
        "vqvae.pt",
    )


if __name__ == "__main__":
    main()
