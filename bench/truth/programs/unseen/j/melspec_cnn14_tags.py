"""Sound tagging: log-mel spectrograms on the device by torch.stft, a CNN14-like net, mixup, multi-label loss."""

import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

RATE = 32000
SECONDS = 8
N_FFT, HOP, MELS = 1024, 320, 64
BATCH = 32
STEPS = 16
TAGS = 200
WIDTHS = (64, 128, 256, 512, 1024)


def mel_bank(n_mels, n_fft, rate, low=50.0, high=14000.0):
    def mel(f):
        return 2595 * np.log10(1 + f / 700)

    points = 700 * (10 ** (np.linspace(mel(low), mel(high), n_mels + 2) / 2595) - 1)
    freqs = np.linspace(0, rate / 2, n_fft // 2 + 1)
    up = (freqs[None] - points[:-2, None]) / (points[1:-1] - points[:-2])[:, None]
    down = (points[2:, None] - freqs[None]) / (points[2:] - points[1:-1])[:, None]
    return torch.from_numpy(np.maximum(0, np.minimum(up, down)).astype(np.float32))


class LogMel(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(N_FFT))
        self.register_buffer("bank", mel_bank(MELS, N_FFT, RATE))

    @torch.no_grad()
    def forward(self, wave):
        spec = torch.stft(wave, N_FFT, HOP, window=self.window, return_complex=True)
        return torch.log(self.bank @ spec.abs().pow(2) + 1e-6).unsqueeze(1).transpose(2, 3)


class ConvBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(cout), nn.BatchNorm2d(cout)

    def forward(self, x):
        x = F.relu_(self.bn1(self.conv1(x)))
        x = F.relu_(self.bn2(self.conv2(x)))
        return F.dropout(F.avg_pool2d(x, 2), 0.2, self.training)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = LogMel()
        self.bn0 = nn.BatchNorm2d(MELS)
        self.blocks = nn.Sequential(*[ConvBlock(a, b) for a, b in zip((1,) + WIDTHS[:-1], WIDTHS)])
        self.fc = nn.Linear(WIDTHS[-1], WIDTHS[-1])
        self.out = nn.Linear(WIDTHS[-1], TAGS)

    def forward(self, wave):
        x = self.front(wave)  # (B, 1, T, mel)
        x = self.bn0(x.transpose(1, 3)).transpose(1, 3)
        x = self.blocks(x).mean(dim=3)
        x = x.amax(dim=2) + x.mean(dim=2)
        return self.out(F.relu(self.fc(F.dropout(x, 0.5, self.training))))


def clips(n):
    t = torch.arange(RATE * SECONDS) / RATE
    tone = torch.sin(2 * np.pi * torch.empty(n, 1).uniform_(80, 8000) * t)
    return tone + 0.1 * torch.randn(n, RATE * SECONDS), (torch.rand(n, TAGS) < 0.02).float()


def main():
    random.seed(70)
    np.random.seed(70)
    torch.manual_seed(70)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Tagger().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, amsgrad=True)
    for step in range(STEPS):
        wave, tags = (t.to(device) for t in clips(BATCH))
        lam = float(np.random.beta(1.0, 1.0))
        order = torch.randperm(BATCH, device=device)
        wave = lam * wave + (1 - lam) * wave[order]
        tags = lam * tags + (1 - lam) * tags[order]
        loss = F.binary_cross_entropy_with_logits(model(wave), tags)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 0:
            print(f"step {step} bce {loss.item():.4f} lam {lam:.2f}")
    model.eval()
    with torch.no_grad():
        wave, tags = clips(BATCH * 2)
        prob = torch.sigmoid(model(wave.to(device))).cpu()
    print("mean probability", round(prob.mean().item(), 4))


if __name__ == "__main__":
    main()
