import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models import resnet34


class Up(nn.Module):
    def __init__(self, below, beside, out):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(below + beside, out, 3, padding=1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(inplace=True),
            nn.Conv2d(out, out, 3, padding=1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(inplace=True),
        )

    def forward(self, x, skip=None):
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        if skip is not None:
            x = torch.cat([x, skip], dim=1)
        return self.body(x)


class ResUNet(nn.Module):
    def __init__(self, classes=1):
        super().__init__()
        r = resnet34(weights=None)
        self.stem = nn.Sequential(r.conv1, r.bn1, r.relu)
        self.pool = r.maxpool
        self.stages = nn.ModuleList([r.layer1, r.layer2, r.layer3, r.layer4])
        self.ups = nn.ModuleList(
            [Up(512, 256, 256), Up(256, 128, 128), Up(128, 64, 64), Up(64, 64, 32), Up(32, 0, 16)]
        )
        self.head = nn.Conv2d(16, classes, 3, padding=1)

    def forward(self, x):
        skips = [self.stem(x)]
        x = self.pool(skips[0])
        for stage in self.stages:
            x = stage(x)
            skips.append(x)
        skips.pop()
        for up in self.ups:
            x = up(x, skips.pop() if skips else None)
        return self.head(x)


class DiceBCE(nn.Module):
    def __init__(self, smooth=1.0):
        super().__init__()
        self.smooth = smooth

    def forward(self, logits, mask):
        logits = logits.float()
        bce = F.binary_cross_entropy_with_logits(logits, mask)
        p = logits.sigmoid()
        overlap = (p * mask).sum((1, 2, 3))
        total = p.sum((1, 2, 3)) + mask.sum((1, 2, 3))
        return bce + (1 - (2 * overlap + self.smooth) / (total + self.smooth)).mean()
