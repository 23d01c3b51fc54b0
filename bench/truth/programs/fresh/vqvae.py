"""A vector-quantized autoencoder with a codebook kept by averages, and its loss in the space of a fixed network."""

import torch
import torch.nn.functional as F
import torchvision
from torch import nn


class Codes(nn.Module):
    def __init__(self, count=1024, width=128):
        super().__init__()
        self.register_buffer("codes", torch.randn(count, width))
        self.register_buffer("size", torch.zeros(count))
        self.register_buffer("mean", self.codes.clone())

    def forward(self, x):
        flat = x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])
        apart = (
            flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.codes.t() + self.codes.pow(2).sum(1)
        )
        which = apart.argmin(1)
        if self.training:
            with torch.no_grad():
                one = F.one_hot(which, len(self.codes)).type_as(flat)
                self.size.mul_(0.99).add_(one.sum(0), alpha=0.01)
                self.mean.mul_(0.99).add_(one.t() @ flat, alpha=0.01)
                self.codes.copy_(self.mean / self.size.clamp(min=1e-5)[:, None])
        q = self.codes[which].view(x.shape[0], x.shape[2], x.shape[3], -1).permute(0, 3, 1, 2)
        return x + (q - x).detach(), F.mse_loss(x, q.detach())


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.f = nn.Sequential(
            nn.ReLU(), nn.Conv2d(c, c // 2, 3, padding=1), nn.ReLU(), nn.Conv2d(c // 2, c, 1)
        )

    def forward(self, x):
        return x + self.f(x)


down = nn.Sequential(
    nn.Conv2d(3, 128, 4, 2, 1),
    nn.ReLU(),
    nn.Conv2d(128, 256, 4, 2, 1),
    Res(256),
    Res(256),
    nn.Conv2d(256, 128, 1),
).cuda()
up = nn.Sequential(
    nn.Conv2d(128, 256, 3, padding=1),
    Res(256),
    Res(256),
    nn.ConvTranspose2d(256, 128, 4, 2, 1),
    nn.ReLU(),
    nn.ConvTranspose2d(128, 3, 4, 2, 1),
).cuda()
codes = Codes().cuda()
seen = torchvision.models.vgg16(weights=None).features[:16].cuda().eval().requires_grad_(False)
optimizer = torch.optim.Adam([*down.parameters(), *up.parameters()], 4e-4, betas=(0.9, 0.95))
for step in range(60):
    x = torch.rand(24, 3, 128, 128).cuda()
    q, commitment = codes(down(x))
    y = up(q)
    loss = F.l1_loss(y, x) + 0.25 * commitment + 0.1 * F.mse_loss(seen(y), seen(x))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        codes.eval()
        with torch.no_grad():
            shown = up(codes(down(torch.rand(64, 3, 128, 128).cuda()))[0])
            grid = torchvision.utils.make_grid(shown.cpu())
        codes.train()
        print(step, loss.item(), grid.shape)
