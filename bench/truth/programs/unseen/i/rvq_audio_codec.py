"""SoundStream-like neural audio codec: 1-D conv encoder/decoder, residual VQ with EMA codebooks, STFT losses."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class ResUnit(nn.Module):
    def __init__(self, c, dilation):
        super().__init__()
        self.net = nn.Sequential(
            nn.ELU(),
            nn.Conv1d(c, c, 7, padding=3 * dilation, dilation=dilation),
            nn.ELU(),
            nn.Conv1d(c, c, 1),
        )

    def forward(self, x):
        return x + self.net(x)


def encoder(c, strides, dim):
    layers = [nn.Conv1d(1, c, 7, padding=3)]
    for s in strides:
        layers += [ResUnit(c, d) for d in (1, 3, 9)] + [
            nn.ELU(),
            nn.Conv1d(c, 2 * c, 2 * s, s, (s + 1) // 2),
        ]
        c *= 2
    return nn.Sequential(*layers, nn.ELU(), nn.Conv1d(c, dim, 3, padding=1))


def decoder(c, strides, dim):
    c = c * 2 ** len(strides)
    layers = [nn.Conv1d(dim, c, 7, padding=3)]
    for s in reversed(strides):
        layers += [
            nn.ELU(),
            nn.ConvTranspose1d(c, c // 2, 2 * s, s, (s + 1) // 2, output_padding=s % 2),
        ]
        c //= 2
        layers += [ResUnit(c, d) for d in (1, 3, 9)]
    return nn.Sequential(*layers, nn.ELU(), nn.Conv1d(c, 1, 7, padding=3), nn.Tanh())


class EmaCodebook(nn.Module):
    def __init__(self, size, dim, decay=0.99):
        super().__init__()
        self.decay = decay
        self.register_buffer("codes", torch.randn(size, dim))
        self.register_buffer("count", torch.ones(size))
        self.register_buffer("total", self.codes.clone())

    def forward(self, x):
        idx = torch.cdist(x, self.codes).argmin(1)
        q = F.embedding(idx, self.codes)
        if self.training:
            with torch.no_grad():
                onehot = F.one_hot(idx, len(self.codes)).to(x.dtype)
                self.count.lerp_(onehot.sum(0), 1 - self.decay)
                self.total.lerp_(onehot.t() @ x, 1 - self.decay)
                self.codes.copy_(self.total / self.count.clamp(min=1e-3)[:, None])
        return q, idx


class Codec(nn.Module):
    def __init__(self, c=32, strides=(2, 4, 5, 8), dim=128, books=8, size=1024):
        super().__init__()
        self.enc, self.dec = encoder(c, strides, dim), decoder(c, strides, dim)
        self.books = nn.ModuleList(EmaCodebook(size, dim) for _ in range(books))

    def forward(self, wav):
        z = self.enc(wav)
        flat = z.transpose(1, 2).reshape(-1, z.size(1))
        residual, quant, commit, codes = flat, torch.zeros_like(flat), 0.0, []
        for book in self.books:
            q, idx = book(residual.detach())
            commit = commit + F.mse_loss(residual, q)
            quant = quant + q
            residual = residual - q
            codes.append(idx)
        st = flat + (quant - flat).detach()
        st = st.view(z.size(0), -1, z.size(1)).transpose(1, 2)
        return self.dec(st), commit / len(self.books), torch.stack(codes)


def spectral_loss(a, b):
    loss = 0.0
    for n in (256, 512, 1024, 2048):
        w = torch.hann_window(n, device=a.device)
        sa = torch.stft(a.squeeze(1), n, n // 4, window=w, return_complex=True).abs()
        sb = torch.stft(b.squeeze(1), n, n // 4, window=w, return_complex=True).abs()
        loss = (
            loss
            + (sa - sb).abs().mean()
            + (torch.log(sa + 1e-5) - torch.log(sb + 1e-5)).pow(2).mean().sqrt()
        )
    return loss / 4


def chirps(n, length):
    t = torch.arange(length) / 24000
    f0, f1 = torch.rand(n, 1) * 400 + 100, torch.rand(n, 1) * 2000
    return (
        0.5 * torch.sin(2 * torch.pi * (f0 * t + f1 * t * t)) + 0.01 * torch.randn(n, length)
    ).unsqueeze(1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--length", type=int, default=24000)
    p.add_argument("--steps", type=int, default=14)
    args = p.parse_args()
    torch.manual_seed(8)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    codec = Codec().to(device)
    opt = torch.optim.AdamW(codec.parameters(), lr=3e-4, betas=(0.8, 0.99))
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.999)
    for step in range(args.steps):
        codec.train()
        wav = chirps(args.batch, args.length).to(device)
        out, commit, codes = codec(wav)
        loss = (out - wav).abs().mean() * 10 + spectral_loss(out, wav) + commit
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(codec.parameters(), 10.0)
        opt.step()
        sched.step()
        if step % 5 == 0:
            used = codes[0].unique().numel()
            print(
                f"step {step} loss {loss.item():.3f} commit {commit.item():.4f} grad {norm.item():.2f} codes used {used}"
            )
    codec.eval()
    with torch.no_grad():
        wav = chirps(4, args.length * 3).to(device)
        out, _, codes = codec(wav)
        snr = 10 * torch.log10(wav.pow(2).mean() / (out - wav).pow(2).mean())
    print("held-out snr", snr.item(), "codes", tuple(codes.shape))
    torch.save({"codec": codec.state_dict(), "opt": opt.state_dict()}, "codec.pt")
    torch.save(codes.cpu(), "codes.pt")


if __name__ == "__main__":
    main()
