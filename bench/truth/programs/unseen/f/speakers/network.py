import torch
import torch.nn.functional as F
from torch import nn


class SqueezeExcite(nn.Module):
    def __init__(self, channels, bottleneck=128):
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool1d(1),
            nn.Conv1d(channels, bottleneck, 1),
            nn.ReLU(),
            nn.Conv1d(bottleneck, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return x * self.gate(x)


class Res2Block(nn.Module):
    def __init__(self, channels, dilation, scale=8):
        super().__init__()
        self.width, self.scale = channels // scale, scale
        self.enter = nn.Sequential(
            nn.Conv1d(channels, channels, 1), nn.ReLU(), nn.BatchNorm1d(channels)
        )
        self.convs = nn.ModuleList(
            [
                nn.Conv1d(self.width, self.width, 3, padding=dilation, dilation=dilation)
                for _ in range(scale - 1)
            ]
        )
        self.norms = nn.ModuleList([nn.BatchNorm1d(self.width) for _ in range(scale - 1)])
        self.leave = nn.Sequential(
            nn.Conv1d(channels, channels, 1), nn.ReLU(), nn.BatchNorm1d(channels)
        )
        self.excite = SqueezeExcite(channels)

    def forward(self, x):
        parts = self.enter(x).split(self.width, 1)
        out, last = [parts[-1]], 0
        for part, conv, norm in zip(parts, self.convs, self.norms):
            last = norm(F.relu(conv(part + last)))
            out.append(last)
        return x + self.excite(self.leave(torch.cat(out, 1)))


class Ecapa(nn.Module):
    def __init__(self, s):
        super().__init__()
        c = s.channels
        self.stem = nn.Sequential(nn.Conv1d(s.mels, c, 5, padding=2), nn.ReLU(), nn.BatchNorm1d(c))
        self.blocks = nn.ModuleList([Res2Block(c, d) for d in (2, 3, 4)])
        self.join = nn.Conv1d(3 * c, 1536, 1)
        self.attention = nn.Sequential(
            nn.Conv1d(3 * 1536, 256, 1), nn.Tanh(), nn.Conv1d(256, 1536, 1)
        )
        self.norm = nn.BatchNorm1d(2 * 1536)
        self.out = nn.Linear(2 * 1536, s.embedding)

    def forward(self, x):
        x = self.stem(x)
        kept = []
        for block in self.blocks:
            x = block(x)
            kept.append(x)
        x = F.relu(self.join(torch.cat(kept, 1)))
        mean, std = x.mean(-1, keepdim=True), x.float().var(-1, keepdim=True).clamp(min=1e-4).sqrt()
        context = torch.cat([x, mean.expand_as(x), std.to(x.dtype).expand_as(x)], 1)
        w = self.attention(context).softmax(-1)
        mu = (w * x).sum(-1)
        sigma = ((w * x**2).sum(-1) - mu**2).float().clamp(min=1e-4).sqrt()
        return self.out(self.norm(torch.cat([mu.float(), sigma], 1)))


class AngularMargin(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(s.speakers, s.embedding) * 0.01)
        self.margin, self.scale = s.margin, s.scale

    def forward(self, x, y):
        with torch.autocast(x.device.type, enabled=False):
            cosine = F.linear(F.normalize(x.float()), F.normalize(self.weight)).clamp(
                -1 + 1e-6, 1 - 1e-6
            )
            angle = torch.acos(cosine.gather(1, y[:, None]))
            logits = cosine.scatter(1, y[:, None], torch.cos(angle + self.margin))
            return F.cross_entropy(self.scale * logits, y)
