"""GhostNet-style convnet for machine parts, torch.compile(mode="default"), bf16 autocast, channels_last, SGD with Nesterov."""

import torch
from torch import nn

torch.manual_seed(77)
torch.backends.cudnn.benchmark = False
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

BATCH, SIZE, CLASSES, STEPS = 160, 224, 64, 24


class Ghost(nn.Module):
    """Half of the maps come from a 1x1 convolution, the others from a cheap depthwise one."""

    def __init__(self, cin, cout, act=True):
        super().__init__()
        half = cout // 2
        self.primary = nn.Sequential(
            nn.Conv2d(cin, half, 1, bias=False),
            nn.BatchNorm2d(half),
            nn.ReLU() if act else nn.Identity(),
        )
        self.cheap = nn.Sequential(
            nn.Conv2d(half, half, 3, padding=1, groups=half, bias=False),
            nn.BatchNorm2d(half),
            nn.ReLU() if act else nn.Identity(),
        )

    def forward(self, x):
        a = self.primary(x)
        return torch.cat([a, self.cheap(a)], dim=1)


class Squeeze(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.down, self.up = nn.Conv2d(c, c // 4, 1), nn.Conv2d(c // 4, c, 1)

    def forward(self, x):
        s = x.mean((2, 3), keepdim=True)
        return x * nn.functional.hardsigmoid(self.up(torch.relu(self.down(s))))


class Bottleneck(nn.Module):
    def __init__(self, cin, mid, cout, stride, se):
        super().__init__()
        layers = [Ghost(cin, mid)]
        if stride > 1:
            layers += [
                nn.Conv2d(mid, mid, 3, stride, 1, groups=mid, bias=False),
                nn.BatchNorm2d(mid),
            ]
        if se:
            layers.append(Squeeze(mid))
        layers.append(Ghost(mid, cout, act=False))
        self.body = nn.Sequential(*layers)
        if stride == 1 and cin == cout:
            self.skip = nn.Identity()
        else:
            self.skip = nn.Sequential(
                nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout)
            )
            if stride > 1:
                self.skip.insert(0, nn.AvgPool2d(3, 1, 1))

    def forward(self, x):
        return self.body(x) + self.skip(x)


def ghostnet():
    plan = [  # mid, out, stride, squeeze
        (32, 32, 1, False),
        (96, 48, 2, False),
        (144, 48, 1, False),
        (144, 80, 2, True),
        (480, 160, 2, False),
        (960, 160, 2, True),
    ]
    layers = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
    c = 32
    for mid, out, stride, se in plan:
        layers.append(Bottleneck(c, mid, out, stride, se))
        c = out
    layers += [
        nn.Conv2d(c, 960, 1, bias=False),
        nn.BatchNorm2d(960),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(960, CLASSES),
    ]
    return nn.Sequential(*layers)


net = ghostnet().to(device, memory_format=torch.channels_last)
fast = torch.compile(net, mode="default")
optimizer = torch.optim.SGD(
    net.parameters(), lr=0.2, momentum=0.9, nesterov=True, weight_decay=4e-5
)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.4, total_steps=STEPS)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

net.train()
for step in range(STEPS):
    images = torch.rand(BATCH, 3, SIZE, SIZE, device=device).to(memory_format=torch.channels_last)
    labels = torch.randint(0, CLASSES, (BATCH,), device=device)
    with torch.autocast(device.type, torch.bfloat16):
        loss = criterion(fast(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 8 == 7:
        print(
            "step",
            step,
            "loss",
            round(loss.item(), 4),
            "lr",
            round(schedule.get_last_lr()[0], 4),
        )
