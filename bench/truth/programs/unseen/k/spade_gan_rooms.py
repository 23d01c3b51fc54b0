"""SPADE generator (layout to room picture) against two patch discriminators at different scales; hinge and feature-matching losses."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

LABELS = 24
SIZE = 256
BATCH = 16
STEPS = 30
Z = 256


class Spade(nn.Module):
    def __init__(self, channels, hidden=96):
        super().__init__()
        self.norm = nn.InstanceNorm2d(channels, affine=False)
        self.shared = nn.Sequential(nn.Conv2d(LABELS, hidden, 3, padding=1), nn.ReLU())
        self.gamma = nn.Conv2d(hidden, channels, 3, padding=1)
        self.beta = nn.Conv2d(hidden, channels, 3, padding=1)

    def forward(self, x, layout):
        h = self.shared(F.interpolate(layout, size=x.shape[2:], mode="nearest"))
        return self.norm(x) * (1 + self.gamma(h)) + self.beta(h)


class SpadeBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        mid = min(cin, cout)
        self.n0, self.n1 = Spade(cin), Spade(mid)
        self.c0 = spectral_norm(nn.Conv2d(cin, mid, 3, padding=1))
        self.c1 = spectral_norm(nn.Conv2d(mid, cout, 3, padding=1))
        self.learned = cin != cout
        if self.learned:
            self.ns = Spade(cin)
            self.cs = spectral_norm(nn.Conv2d(cin, cout, 1, bias=False))

    def forward(self, x, layout):
        skip = self.cs(self.ns(x, layout)) if self.learned else x
        y = self.c0(F.leaky_relu(self.n0(x, layout), 0.2))
        y = self.c1(F.leaky_relu(self.n1(y, layout), 0.2))
        return skip + y


class Generator(nn.Module):
    def __init__(self, base=48):
        super().__init__()
        widths = [16 * base, 16 * base, 8 * base, 4 * base, 2 * base, base]
        self.first = widths[0]
        self.fc = nn.Linear(Z, widths[0] * 8 * 8)
        self.blocks = nn.ModuleList(SpadeBlock(a, b) for a, b in zip(widths[:-1], widths[1:]))
        self.out = nn.Conv2d(widths[-1], 3, 3, padding=1)

    def forward(self, z, layout):
        x = self.fc(z).view(-1, self.first, 8, 8)
        for block in self.blocks:
            x = F.interpolate(block(x, layout), scale_factor=2)
        return torch.tanh(self.out(F.leaky_relu(x, 0.2)))


class Patch(nn.Module):
    def __init__(self, base=64):
        super().__init__()
        chans = [3 + LABELS, base, 2 * base, 4 * base, 8 * base]
        self.layers = nn.ModuleList()
        for i, (a, b) in enumerate(zip(chans[:-1], chans[1:])):
            stride = 1 if i == 3 else 2
            self.layers.append(
                nn.Sequential(
                    spectral_norm(nn.Conv2d(a, b, 4, stride, 2)),
                    nn.InstanceNorm2d(b) if i else nn.Identity(),
                    nn.LeakyReLU(0.2),
                )
            )
        self.final = nn.Conv2d(chans[-1], 1, 4, 1, 2)

    def forward(self, x):
        features = []
        for layer in self.layers:
            x = layer(x)
            features.append(x)
        return self.final(x), features


class TwoScales(nn.Module):
    def __init__(self):
        super().__init__()
        self.nets = nn.ModuleList([Patch(), Patch()])

    def forward(self, image, layout):
        x = torch.cat([image, layout], 1)
        outs = []
        for net in self.nets:
            outs.append(net(x))
            x = F.avg_pool2d(x, 3, 2, 1)
        return outs


def rooms(device):
    ids = torch.randint(0, LABELS, (BATCH, 1, 16, 16), device=device)
    ids = F.interpolate(ids.float(), size=(SIZE, SIZE)).long().squeeze(1)
    layout = F.one_hot(ids, LABELS).permute(0, 3, 1, 2).float()
    picture = (ids[:, None].float() / LABELS * 2 - 1).expand(-1, 3, -1, -1)
    return layout, picture + 0.1 * torch.randn(BATCH, 3, SIZE, SIZE, device=device)


torch.manual_seed(2024)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
G, D = Generator().to(device), TwoScales().to(device)
opt_g = torch.optim.Adam(G.parameters(), lr=1e-4, betas=(0.0, 0.9))
opt_d = torch.optim.Adam(D.parameters(), lr=4e-4, betas=(0.0, 0.9))

for step in range(STEPS):
    layout, real = rooms(device)
    z = torch.randn(BATCH, Z, device=device)
    # generator
    fake = G(z, layout)
    D.requires_grad_(False)
    seen_fake = D(fake, layout)
    with torch.no_grad():
        seen_real = D(real, layout)
    adversarial = sum(-score.mean() for score, _ in seen_fake)
    matching = sum(
        F.l1_loss(a, b) for (_, fa), (_, fb) in zip(seen_fake, seen_real) for a, b in zip(fa, fb)
    )
    loss_g = adversarial + 10.0 * matching
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
    # discriminators
    D.requires_grad_(True)
    fake = fake.detach()
    loss_d = 0.0
    for (f, _), (r, _) in zip(D(fake, layout), D(real, layout)):
        loss_d = loss_d + F.relu(1 + f).mean() + F.relu(1 - r).mean()
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
    if step % 10 == 0:
        print(f"step {step}: G {loss_g.item():.3f} D {loss_d.item():.3f}")
