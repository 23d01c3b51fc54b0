"""nnU-Net flavoured 3-D U-Net for cardiac MRI: instance norm, deep supervision, SGD with poly decay."""

import torch
import torch.nn.functional as F
from torch import nn

PATCH = (64, 128, 128)
BATCH = 2
CHANNELS = [32, 64, 128, 256, 320]
LABELS = 4
EPOCHS, ITERS = 2, 5
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def block(cin, cout, stride=1):
    return nn.Sequential(
        nn.Conv3d(cin, cout, 3, stride, 1),
        nn.InstanceNorm3d(cout, affine=True),
        nn.LeakyReLU(0.01, inplace=True),
        nn.Conv3d(cout, cout, 3, 1, 1),
        nn.InstanceNorm3d(cout, affine=True),
        nn.LeakyReLU(0.01, inplace=True),
    )


class UNet3D(nn.Module):
    def __init__(self):
        super().__init__()
        c = CHANNELS
        self.enc = nn.ModuleList(
            [block(1, c[0])] + [block(c[i], c[i + 1], 2) for i in range(len(c) - 1)]
        )
        self.up = nn.ModuleList(
            [
                nn.ConvTranspose3d(c[i + 1], c[i], 2, 2, bias=False)
                for i in reversed(range(len(c) - 1))
            ]
        )
        self.dec = nn.ModuleList([block(2 * c[i], c[i]) for i in reversed(range(len(c) - 1))])
        self.heads = nn.ModuleList(
            [nn.Conv3d(c[i], LABELS, 1) for i in reversed(range(len(c) - 1))]
        )

    def forward(self, x):
        skips = []
        for e in self.enc:
            x = e(x)
            skips.append(x)
        skips.pop()
        outs = []
        for up, dec, head in zip(self.up, self.dec, self.heads):
            x = dec(torch.cat([up(x), skips.pop()], 1))
            outs.append(head(x))
        return outs[::-1] if self.training else outs[-1]


def dice_ce(logits, target):
    ce = F.cross_entropy(logits, target)
    p = logits.softmax(1)
    t = F.one_hot(target, LABELS).movedim(-1, 1).to(p.dtype)
    dims = (0, 2, 3, 4)
    dice = (2 * (p * t).sum(dims) + 1e-5) / (p.sum(dims) + t.sum(dims) + 1e-5)
    return ce + 1 - dice[1:].mean()


def deep_loss(outs, target):
    weights = [0.5**i for i in range(len(outs))]
    weights[-1] = 0.0
    total = 0.0
    for w, o in zip(weights, outs):
        if w == 0:
            continue
        t = F.interpolate(target[:, None].float(), size=o.shape[2:], mode="nearest")[:, 0].long()
        total = total + w * dice_ce(o, t)
    return total / sum(weights)


def sample_patch(vol, seg):
    starts = [int(torch.randint(0, s - p + 1, ())) for s, p in zip(vol.shape[1:], PATCH)]
    sl = tuple(slice(a, a + p) for a, p in zip(starts, PATCH))
    v, s = vol[(slice(None), *sl)], seg[sl]
    for ax in (1, 2):
        if torch.rand(()) < 0.5:
            v, s = v.flip(ax + 1), s.flip(ax)
    return v, s


volumes = [
    (torch.randn(1, 80, 160, 160), torch.randint(0, LABELS, (80, 160, 160))) for _ in range(4)
]
net = UNet3D().to(DEVICE)
print(f"{sum(p.numel() for p in net.parameters()) / 1e6:.1f}M weights")
opt = torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.99, nesterov=True, weight_decay=3e-5)
sched = torch.optim.lr_scheduler.PolynomialLR(opt, total_iters=EPOCHS, power=0.9)

for epoch in range(EPOCHS):
    net.train()
    mean = 0.0
    for it in range(ITERS):
        pairs = [sample_patch(*volumes[int(torch.randint(0, 4, ()))]) for _ in range(BATCH)]
        x = torch.stack([p[0] for p in pairs]).to(DEVICE)
        y = torch.stack([p[1] for p in pairs]).to(DEVICE)
        loss = deep_loss(net(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 12)
        opt.step()
        mean += loss.item() / ITERS
    sched.step()
    net.eval()
    with torch.no_grad():
        vol, seg = volumes[epoch % 4]
        pred = net(vol[None].to(DEVICE)).argmax(1)[0].cpu()
        d = [
            (
                2 * ((pred == k) & (seg == k)).sum() / ((pred == k).sum() + (seg == k).sum() + 1)
            ).item()
            for k in range(1, LABELS)
        ]
    print(f"epoch {epoch} loss {mean:.3f} whole-volume dice {['%.2f' % v for v in d]}")
    torch.save(
        {"epoch": epoch, "net": net.state_dict(), "opt": opt.state_dict()}, "cardiac_latest.pt"
    )
