"""DiffWave-style vocoder: dilated convolutions predict the noise, conditioned on a mel spectrogram (fp16)."""

from dataclasses import dataclass
from math import log, sqrt

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class HP:
    channels: int = 64
    layers: int = 24
    cycle: int = 8
    mels: int = 80
    hop: int = 256
    frames: int = 62
    batch: int = 16
    steps: int = 36
    noise_steps: int = 50
    lr: float = 2e-4


class Embed(nn.Module):
    def __init__(self, n):
        super().__init__()
        steps = torch.arange(n)[:, None]
        freq = 10.0 ** (torch.arange(64)[None] * 4.0 / 63.0)
        self.register_buffer(
            "table", torch.cat([torch.sin(steps * freq), torch.cos(steps * freq)], 1)
        )
        self.net = nn.Sequential(nn.Linear(128, 512), nn.SiLU(), nn.Linear(512, 512), nn.SiLU())

    def forward(self, t):
        return self.net(self.table[t])


class Upsample(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.ConvTranspose2d(1, 1, (3, 32), stride=(1, 16), padding=(1, 8))
        self.b = nn.ConvTranspose2d(1, 1, (3, 32), stride=(1, 16), padding=(1, 8))

    def forward(self, mel):
        x = F.leaky_relu(self.a(mel[:, None]), 0.4)
        return F.leaky_relu(self.b(x), 0.4).squeeze(1)


class Block(nn.Module):
    def __init__(self, hp, dilation):
        super().__init__()
        c = hp.channels
        self.dilated = nn.Conv1d(c, 2 * c, 3, padding=dilation, dilation=dilation)
        self.step, self.mel = nn.Linear(512, c), nn.Conv1d(hp.mels, 2 * c, 1)
        self.out = nn.Conv1d(c, 2 * c, 1)

    def forward(self, x, mel, e):
        y = self.dilated(x + self.step(e)[..., None]) + self.mel(mel)
        gate, filt = y.chunk(2, 1)
        y = self.out(torch.sigmoid(gate) * torch.tanh(filt))
        res, skip = y.chunk(2, 1)
        return (x + res) / sqrt(2.0), skip


class DiffWave(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.inp = nn.Conv1d(1, hp.channels, 1)
        self.embed, self.upsample = Embed(hp.noise_steps), Upsample()
        self.blocks = nn.ModuleList(Block(hp, 2 ** (i % hp.cycle)) for i in range(hp.layers))
        self.skip, self.out = nn.Conv1d(hp.channels, hp.channels, 1), nn.Conv1d(hp.channels, 1, 1)
        nn.init.zeros_(self.out.weight)

    def forward(self, audio, t, mel):
        x = F.relu(self.inp(audio[:, None]))
        e, mel = self.embed(t), self.upsample(mel)
        skip = None
        for block in self.blocks:
            x, s = block(x, mel, e)
            skip = s if skip is None else skip + s
        return self.out(F.relu(self.skip(skip / sqrt(len(self.blocks))))).squeeze(1)


def utterances(hp, n, frames):
    """Tones in place of speech, with a mel-like picture of them."""
    f = torch.rand(n, 1) * 400 + 80
    audio = torch.sin(2 * torch.pi * f * torch.arange(frames * hp.hop) / 22050) * 0.5
    mel = torch.rand(n, hp.mels, frames) + (f / 480)[:, :, None]
    return audio, mel


def main():
    hp = HP()
    device = torch.device("cuda")
    beta = torch.linspace(1e-4, 0.05, hp.noise_steps)
    level = torch.cumprod(1 - beta, 0).to(device)
    net = DiffWave(hp).to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=hp.lr, betas=(0.9, 0.98))
    scaler = torch.amp.GradScaler("cuda")
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.999)
    running = None
    for step in range(hp.steps):
        audio, mel = (t.to(device) for t in utterances(hp, hp.batch, hp.frames))
        t = torch.randint(0, hp.noise_steps, (hp.batch,), device=device)
        noise = torch.randn_like(audio)
        a = level[t, None]
        noisy = a.sqrt() * audio + (1 - a).sqrt() * noise
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.l1_loss(net(noisy, t, mel), noise)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 1e9)
        scaler.step(opt)
        scaler.update()
        sched.step()
        running = loss.item() if running is None else 0.9 * running + 0.1 * loss.item()
        if step % 6 == 0:
            print(f"step {step} loss {running:.4f} bits {loss.item() / log(2):.3f}")

    net.eval()
    with torch.no_grad():
        _, mel = utterances(hp, 4, hp.frames * 2)
        mel = mel.to(device)
        x = torch.randn(4, hp.frames * 2 * hp.hop, device=device)
        for n in reversed(range(hp.noise_steps)):
            eps = net(x, torch.full((4,), n, device=device), mel)
            b, a = beta[n].item(), level[n]
            x = (x - b / (1 - a).sqrt() * eps) / sqrt(1 - b)
            if n:
                x = x + sqrt(b) * torch.randn_like(x)
    torch.save({"net": net.state_dict(), "audio": x.clamp(-1, 1).cpu()}, "diffwave.pt")


if __name__ == "__main__":
    main()
