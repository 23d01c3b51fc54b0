import torch
import torch.nn.functional as F
from torch import nn


class Down(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, (5, 3), stride=(2, 1), padding=(2, 1))
        self.norm = nn.BatchNorm2d(cout)
        self.act = nn.PReLU(cout)

    def forward(self, x):
        return self.act(self.norm(self.conv(x)))


class Up(nn.Module):
    def __init__(self, cin, cout, last=False):
        super().__init__()
        self.conv = nn.ConvTranspose2d(
            cin, cout, (5, 3), stride=(2, 1), padding=(2, 1), output_padding=(1, 0)
        )
        self.tail = nn.Identity() if last else nn.Sequential(nn.BatchNorm2d(cout), nn.PReLU(cout))

    def forward(self, x):
        return self.tail(self.conv(x))


class MaskUNet(nn.Module):
    """Predicts a complex ratio mask. The highest frequency bin is left out and padded back."""

    def __init__(self, cfg):
        super().__init__()
        self.n_fft, self.hop = cfg.n_fft, cfg.hop
        self.register_buffer("window", torch.hann_window(cfg.n_fft), persistent=False)
        ch = [2] + list(cfg.channels)
        self.downs = nn.ModuleList([Down(a, b) for a, b in zip(ch, ch[1:])])
        bins = (cfg.n_fft // 2) // 2 ** len(cfg.channels)
        self.lstm = nn.LSTM(ch[-1] * bins, cfg.lstm, num_layers=2, batch_first=True)
        self.back = nn.Linear(cfg.lstm, ch[-1] * bins)
        self.ups = nn.ModuleList(
            [Up(2 * b, a, last=i == 0) for i, (a, b) in enumerate(zip(ch, ch[1:]))]
        )

    def stft(self, wave):
        return torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)

    def forward(self, wave):
        spec = self.stft(wave)
        x = torch.stack([spec.real, spec.imag], 1)[:, :, :-1]
        skips = []
        for down in self.downs:
            x = down(x)
            skips.append(x)
        b, c, f, t = x.shape
        h, _ = self.lstm(x.permute(0, 3, 1, 2).reshape(b, t, c * f))
        x = self.back(h).reshape(b, t, c, f).permute(0, 2, 3, 1)
        for up in reversed(self.ups):
            x = up(torch.cat([x, skips.pop()], 1))
        mask = torch.tanh(F.pad(x.float(), (0, 0, 0, 1)))
        mask = torch.complex(mask[:, 0], mask[:, 1])
        return torch.istft(
            spec * mask, self.n_fft, self.hop, window=self.window, length=wave.shape[-1]
        )


def si_snr(estimate, target, eps=1e-8):
    target = target - target.mean(-1, keepdim=True)
    estimate = estimate - estimate.mean(-1, keepdim=True)
    proj = (
        (estimate * target).sum(-1, keepdim=True)
        * target
        / (target.pow(2).sum(-1, keepdim=True) + eps)
    )
    noise = estimate - proj
    return 10 * torch.log10(proj.pow(2).sum(-1) / (noise.pow(2).sum(-1) + eps) + eps)


def multi_resolution(estimate, target, sizes=(256, 512, 1024)):
    loss = 0.0
    for n in sizes:
        window = torch.hann_window(n, device=estimate.device)
        a = torch.stft(estimate, n, n // 4, window=window, return_complex=True).abs()
        b = torch.stft(target, n, n // 4, window=window, return_complex=True).abs()
        loss = (
            loss
            + (a - b).norm() / (b.norm() + 1e-6)
            + F.l1_loss(torch.log(a + 1e-5), torch.log(b + 1e-5))
        )
    return loss / len(sizes)
