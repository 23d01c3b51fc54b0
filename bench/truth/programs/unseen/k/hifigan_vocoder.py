"""HiFi-GAN vocoder: mel spectrogram to waveform, multi-period and multi-scale discriminators, mel loss, two AdamW with exponential decay."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

RATE, N_FFT, HOP, MELS = 22050, 1024, 256, 80


def mel_bank():
    """Triangular filters on the mel scale."""
    top = 2595 * torch.log10(torch.tensor(1 + RATE / 2 / 700))
    edges = 700 * (10 ** (torch.linspace(0, 1, MELS + 2) * top / 2595) - 1)
    bins = torch.linspace(0, RATE / 2, N_FFT // 2 + 1)
    up = (bins[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - bins[None]) / (edges[2:] - edges[1:-1])[:, None]
    return torch.minimum(up, down).clamp(min=0)


class Mel(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("bank", mel_bank())
        self.register_buffer("window", torch.hann_window(N_FFT))

    def forward(self, wave):
        wave = F.pad(wave, ((N_FFT - HOP) // 2,) * 2, mode="reflect")
        spec = torch.stft(wave, N_FFT, HOP, window=self.window, center=False, return_complex=True)
        return torch.log((self.bank @ spec.abs()).clamp(min=1e-5))


class ResStack(nn.Module):
    def __init__(self, ch, kernel, dilations=(1, 3, 5)):
        super().__init__()
        make = lambda d: weight_norm(
            nn.Conv1d(ch, ch, kernel, dilation=d, padding=(kernel - 1) * d // 2)
        )
        self.a = nn.ModuleList(make(d) for d in dilations)
        self.b = nn.ModuleList(make(1) for _ in dilations)

    def forward(self, x):
        for a, b in zip(self.a, self.b):
            x = x + b(F.leaky_relu(a(F.leaky_relu(x, 0.1)), 0.1))
        return x


class Generator(nn.Module):
    def __init__(self, width=256, rates=(8, 8, 2, 2), kernels=(3, 7, 11)):
        super().__init__()
        self.pre = weight_norm(nn.Conv1d(MELS, width, 7, padding=3))
        self.ups, self.stacks = nn.ModuleList(), nn.ModuleList()
        for r in rates:
            up = nn.ConvTranspose1d(width, width // 2, 2 * r, r, padding=r // 2)
            self.ups.append(weight_norm(up))
            width //= 2
            self.stacks.append(nn.ModuleList(ResStack(width, k) for k in kernels))
        self.post = weight_norm(nn.Conv1d(width, 1, 7, padding=3))

    def forward(self, mel):
        x = self.pre(mel)
        for up, stacks in zip(self.ups, self.stacks):
            x = up(F.leaky_relu(x, 0.1))
            x = sum(s(x) for s in stacks) / len(stacks)
        return torch.tanh(self.post(F.leaky_relu(x))).squeeze(1)


class Period(nn.Module):
    def __init__(self, period):
        super().__init__()
        self.period = period
        ch = [1, 32, 128, 512, 1024]
        self.convs = nn.ModuleList(
            weight_norm(nn.Conv2d(a, b, (5, 1), (3, 1), padding=(2, 0)))
            for a, b in zip(ch[:-1], ch[1:])
        )
        self.out = weight_norm(nn.Conv2d(ch[-1], 1, (3, 1), padding=(1, 0)))

    def forward(self, wave):
        x = F.pad(wave[:, None], (0, -wave.size(-1) % self.period), mode="reflect")
        x = x.unflatten(-1, (-1, self.period))
        maps = []
        for conv in self.convs:
            x = F.leaky_relu(conv(x), 0.1)
            maps.append(x)
        return self.out(x), maps


class Scale(nn.Module):
    def __init__(self, pool):
        super().__init__()
        self.pool = pool
        self.convs = nn.ModuleList(
            [
                weight_norm(nn.Conv1d(1, 128, 15, 1, padding=7)),
                weight_norm(nn.Conv1d(128, 128, 41, 2, groups=4, padding=20)),
                weight_norm(nn.Conv1d(128, 256, 41, 2, groups=16, padding=20)),
                weight_norm(nn.Conv1d(256, 512, 41, 4, groups=16, padding=20)),
                weight_norm(nn.Conv1d(512, 1024, 41, 4, groups=16, padding=20)),
            ]
        )
        self.out = weight_norm(nn.Conv1d(1024, 1, 3, padding=1))

    def forward(self, wave):
        x = wave[:, None]
        for _ in range(self.pool):
            x = F.avg_pool1d(x, 4, 2, 2)
        maps = []
        for conv in self.convs:
            x = F.leaky_relu(conv(x), 0.1)
            maps.append(x)
        return self.out(x), maps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--segment", type=int, default=16384)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--lr", type=float, default=2e-4)
    args = parser.parse_args()

    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    mel, gen = Mel().to(device), Generator().to(device)
    critics = nn.ModuleList([Period(p) for p in (2, 3, 5, 7, 11)] + [Scale(k) for k in (0, 1, 2)])
    critics.to(device)
    opt_g = torch.optim.AdamW(gen.parameters(), lr=args.lr, betas=(0.8, 0.99))
    opt_d = torch.optim.AdamW(critics.parameters(), lr=args.lr, betas=(0.8, 0.99))
    decays = [torch.optim.lr_scheduler.ExponentialLR(o, 0.999) for o in (opt_g, opt_d)]
    time = torch.arange(args.segment, device=device) / RATE

    for step in range(args.steps):
        pitch = 80 + 300 * torch.rand(args.batch, 1, device=device)
        voice = sum(torch.sin(2 * torch.pi * pitch * k * time) / k for k in range(1, 8)) * 0.3
        voice = voice + 0.01 * torch.randn_like(voice)
        target = mel(voice)
        fake = gen(target)

        loss_d = 0.0
        for critic in critics:
            r, f = critic(voice)[0], critic(fake.detach())[0]
            loss_d = loss_d + ((1 - r) ** 2).mean() + (f**2).mean()
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()

        loss_g = 45 * F.l1_loss(mel(fake), target)
        for critic in critics:
            _, real_maps = critic(voice)
            score, fake_maps = critic(fake)
            loss_g = loss_g + ((1 - score) ** 2).mean()
            loss_g = loss_g + 2 * sum(
                F.l1_loss(a, b.detach()) for a, b in zip(fake_maps, real_maps)
            )
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        for d in decays:
            d.step()
        if step % 5 == 0:
            print(f"step {step}: generator {loss_g.item():.2f}, critics {loss_d.item():.2f}")


if __name__ == "__main__":
    main()
