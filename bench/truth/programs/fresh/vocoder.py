"""A vocoder as a GAN: transposed convolutions against discriminators over periods and scales, mel losses."""

import itertools

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


class Residual(nn.Module):
    def __init__(self, width, kernel):
        super().__init__()
        self.convs = nn.ModuleList(
            weight_norm(nn.Conv1d(width, width, kernel, dilation=d, padding=d * (kernel - 1) // 2))
            for d in (1, 3, 5)
        )

    def forward(self, x):
        for conv in self.convs:
            x = x + conv(F.leaky_relu(x, 0.1))
        return x


class Generator(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.first = weight_norm(nn.Conv1d(80, width, 7, padding=3))
        self.ups, self.blocks = nn.ModuleList(), nn.ModuleList()
        for i, (rate, kernel) in enumerate([(8, 16), (8, 16), (2, 4), (2, 4)]):
            self.ups.append(
                weight_norm(
                    nn.ConvTranspose1d(
                        width >> i, width >> (i + 1), kernel, rate, (kernel - rate) // 2
                    )
                )
            )
            self.blocks.append(nn.ModuleList(Residual(width >> (i + 1), k) for k in (3, 7, 11)))
        self.last = weight_norm(nn.Conv1d(width >> 4, 1, 7, padding=3))

    def forward(self, x):
        x = self.first(x)
        for up, blocks in zip(self.ups, self.blocks):
            x = up(F.leaky_relu(x, 0.1))
            x = sum(block(x) for block in blocks) / len(blocks)
        return torch.tanh(self.last(F.leaky_relu(x)))


class Period(nn.Module):
    def __init__(self, period):
        super().__init__()
        self.period = period
        widths = [1, 32, 128, 512, 512]
        self.convs = nn.ModuleList(
            weight_norm(nn.Conv2d(a, b, (5, 1), (3, 1), (2, 0)))
            for a, b in itertools.pairwise(widths)
        )
        self.last = weight_norm(nn.Conv2d(512, 1, (3, 1), 1, (1, 0)))

    def forward(self, x):
        b, c, t = x.shape
        if t % self.period:
            x = F.pad(x, (0, self.period - t % self.period), "reflect")
        x, seen = x.view(b, c, -1, self.period), []
        for conv in self.convs:
            x = F.leaky_relu(conv(x), 0.1)
            seen.append(x)
        return self.last(x).flatten(1), seen


def mel(wave):
    spectrum = torch.stft(
        wave.squeeze(1),
        1024,
        256,
        window=torch.hann_window(1024, device=wave.device),
        return_complex=True,
    ).abs()
    return torch.log(spectrum.clamp(min=1e-5))


device = "cuda"
torch.backends.cudnn.benchmark = False
generator, critics = (
    Generator().to(device),
    nn.ModuleList(Period(p) for p in (2, 3, 5, 7)).to(device),
)
of_g = torch.optim.AdamW(generator.parameters(), 2e-4, betas=(0.8, 0.99))
of_d = torch.optim.AdamW(critics.parameters(), 2e-4, betas=(0.8, 0.99))
for step in range(8):
    real, mels = torch.randn(16, 1, 8192, device=device), torch.randn(16, 80, 32, device=device)
    fake = generator(mels)
    of_d.zero_grad()
    loss_d = sum(
        ((1 - d(real)[0]) ** 2).mean() + (d(fake.detach())[0] ** 2).mean() for d in critics
    )
    loss_d.backward()
    of_d.step()
    of_g.zero_grad()
    loss_g = 45 * F.l1_loss(mel(fake), mel(real))
    for d in critics:
        (_, seen), (score, made) = d(real), d(fake)
        loss_g = (
            loss_g
            + ((1 - score) ** 2).mean()
            + 2 * sum((a - b).abs().mean() for a, b in zip(seen, made))
        )
    loss_g.backward()
    of_g.step()
    print(step, loss_d.item(), loss_g.item())
