"""BiSeNet (detail path and context path) that segments rails: bf16, OHEM cross entropy, poly schedule, full-size test at the end."""

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

CLASSES = 9
CROP = 512
FULL = (1024, 1280)
BATCH = 12
STEPS = 30


def cbr(cin, cout, k=3, s=1, p=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, k, s, p, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


class Refine(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = cbr(cin, cout)
        self.gate = nn.Sequential(nn.Conv2d(cout, cout, 1, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        x = self.conv(x)
        return x * torch.sigmoid(self.gate(x.mean((2, 3), keepdim=True)))


class Fuse(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = cbr(cin, cout, 1, 1, 0)
        self.a, self.b = nn.Conv2d(cout, cout // 4, 1), nn.Conv2d(cout // 4, cout, 1)

    def forward(self, x, y):
        z = self.conv(torch.cat([x, y], 1))
        w = torch.sigmoid(self.b(torch.relu(self.a(z.mean((2, 3), keepdim=True)))))
        return z + z * w


class BiSeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.detail = nn.Sequential(cbr(3, 64, 7, 2, 3), cbr(64, 64, 3, 2), cbr(64, 128, 3, 2))
        r = torchvision.models.resnet34(weights=None)
        self.stem = nn.Sequential(r.conv1, r.bn1, r.relu, r.maxpool, r.layer1, r.layer2)
        self.deep16, self.deep32 = r.layer3, r.layer4
        self.refine16, self.refine32 = Refine(256, 128), Refine(512, 128)
        self.tail = cbr(512, 128, 1, 1, 0)
        self.smooth16, self.smooth32 = cbr(128, 128), cbr(128, 128)
        self.fuse = Fuse(256, 256)
        self.out = nn.Sequential(cbr(256, 256), nn.Conv2d(256, CLASSES, 1))
        self.aux = nn.ModuleList(
            nn.Sequential(cbr(128, 64), nn.Conv2d(64, CLASSES, 1)) for _ in range(2)
        )

    def forward(self, x):
        size = x.shape[-2:]
        detail = self.detail(x)
        f16 = self.deep16(self.stem(x))
        f32 = self.deep32(f16)
        top = self.refine32(f32) + self.tail(f32.mean((2, 3), keepdim=True))
        top = self.smooth32(F.interpolate(top, size=f16.shape[-2:]))
        mid = self.refine16(f16) + top
        mid = self.smooth16(F.interpolate(mid, size=detail.shape[-2:]))
        outs = [self.out(self.fuse(detail, mid))]
        if self.training:
            outs += [self.aux[0](mid), self.aux[1](top)]
        outs = [F.interpolate(o, size=size, mode="bilinear") for o in outs]
        return outs if self.training else outs[0]


def ohem(logits, target, keep=0.25):
    each = F.cross_entropy(logits, target, reduction="none", ignore_index=255).flatten()
    hard = each.topk(int(keep * each.numel())).values
    return hard.mean()


def scenes(n, h, w, device):
    image = torch.rand(n, 3, h, w, device=device)
    coarse = torch.randint(0, CLASSES, (n, 1, h // 32, w // 32), device=device).float()
    mask = F.interpolate(coarse, size=(h, w)).squeeze(1).long()
    mask[:, :8] = 255
    return image, mask


def main():
    torch.manual_seed(10)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = BiSeNet().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=2.5e-2, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=STEPS, power=0.9)
    net.train()
    for step in range(STEPS):
        image, mask = scenes(BATCH, CROP, CROP, device)
        with torch.autocast(device.type, torch.bfloat16):
            outs = net(image)
            loss = sum(ohem(o.float(), mask) for o in outs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 10 == 0:
            print(f"{step} loss {loss.item():.3f} lr {schedule.get_last_lr()[0]:.5f}")

    net.eval()
    inter, union = torch.zeros(CLASSES), torch.zeros(CLASSES)
    with torch.no_grad():
        for _ in range(4):
            image, mask = scenes(2, *FULL, device)
            guess = net(image).argmax(1)
            for c in range(CLASSES):
                inter[c] += ((guess == c) & (mask == c)).sum().cpu()
                union[c] += (((guess == c) | (mask == c)) & (mask != 255)).sum().cpu()
    print("mIoU", (inter / union.clamp(min=1)).mean().item())


main()
