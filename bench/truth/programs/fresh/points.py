"""Clouds of points: neighbours by distance, edge convolutions, the most of each group."""

import torch
from torch import nn


def graph(x, k):
    x = x.transpose(1, 2)
    near = torch.cdist(x, x).topk(k, largest=False).indices
    b, n, c = x.shape
    picked = x[torch.arange(b, device=x.device)[:, None, None], near]
    middle = x[:, :, None].expand(b, n, k, c)
    return torch.cat([picked - middle, middle], -1).permute(0, 3, 1, 2).contiguous()


class EdgeNet(nn.Module):
    def __init__(self, k=20, classes=40):
        super().__init__()
        self.k = k
        pairs = [(6, 64), (128, 64), (128, 128), (256, 256)]
        self.convs = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2))
            for a, b in pairs
        )
        self.mix = nn.Sequential(
            nn.Conv1d(512, 1024, 1, bias=False), nn.BatchNorm1d(1024), nn.LeakyReLU(0.2)
        )
        self.head = nn.Sequential(
            nn.Linear(2048, 512),
            nn.BatchNorm1d(512),
            nn.LeakyReLU(0.2),
            nn.Dropout(0.5),
            nn.Linear(512, classes),
        )

    def forward(self, x):
        out = []
        for conv in self.convs:
            x = conv(graph(x, self.k)).max(-1).values
            out.append(x)
        x = self.mix(torch.cat(out, 1))
        return self.head(torch.cat([x.amax(-1), x.mean(-1)], 1))


net = EdgeNet().cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1, 0.9, weight_decay=1e-4)
for epoch in range(2):
    net.train()
    for _ in range(4):
        cloud, label = torch.randn(16, 3, 1024).cuda(), torch.randint(0, 40, (16,)).cuda()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(cloud), label, label_smoothing=0.2)
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        right = [
            (net(torch.randn(32, 3, 1024).cuda()).argmax(1) == 0).sum().item() for _ in range(3)
        ]
    print(epoch, loss.item(), sum(right))
