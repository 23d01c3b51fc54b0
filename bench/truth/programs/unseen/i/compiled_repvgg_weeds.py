"""torch.compile of a small RepVGG on weed photographs; re-parameterized copy for evaluation."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(9)
torch.set_float32_matmul_precision("high")
device = "cuda" if torch.cuda.is_available() else "cpu"
BATCH, EVAL_BATCH, SIZE, CLASSES, N = 256, 100, 224, 15, 1024
WIDTHS, DEPTHS = (64, 96, 192, 384), (1, 2, 2, 1)


def fuse(conv, bn):
    std = (bn.running_var + bn.eps).sqrt()
    k = conv.weight * (bn.weight / std)[:, None, None, None]
    return F.pad(k, [1, 1, 1, 1]) if k.shape[
        -1
    ] == 1 else k, bn.bias - bn.running_mean * bn.weight / std


class RepBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.c3, self.b3 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout)
        self.c1, self.b1 = nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout)
        self.bi = nn.BatchNorm2d(cin) if cin == cout and stride == 1 else None
        self.stride = stride

    def forward(self, x):
        h = self.b3(self.c3(x)) + self.b1(self.c1(x))
        if self.bi is not None:
            h = h + self.bi(x)
        return F.relu(h)

    @torch.no_grad()
    def merged(self):
        k, b = fuse(self.c3, self.b3)
        k1, b1 = fuse(self.c1, self.b1)
        k, b = k + k1, b + b1
        if self.bi is not None:
            eye = nn.Conv2d(k.shape[1], k.shape[0], 1, bias=False).to(k.device)
            eye.weight.copy_(torch.eye(k.shape[0], device=k.device)[:, :, None, None])
            ki, bi = fuse(eye, self.bi)
            k, b = k + ki, b + bi
        conv = nn.Conv2d(k.shape[1], k.shape[0], 3, self.stride, 1).to(k.device)
        conv.weight.copy_(k)
        conv.bias.copy_(b)
        return nn.Sequential(conv, nn.ReLU())


class RepVGG(nn.Module):
    def __init__(self):
        super().__init__()
        blocks, c = [RepBlock(3, 48, 2)], 48
        for w, d in zip(WIDTHS, DEPTHS):
            for i in range(d):
                blocks.append(RepBlock(c, w, 2 if i == 0 else 1))
                c = w
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(c, CLASSES)

    def forward(self, x):
        return self.fc(self.blocks(x).mean((2, 3)))

    def deploy(self):
        out = RepVGG()
        out.blocks = nn.Sequential(*[b.merged() for b in self.blocks])
        out.fc = self.fc
        return out.eval()


images = torch.rand(N, 3, SIZE, SIZE)
labels = torch.randint(0, CLASSES, (N,))
train = DataLoader(TensorDataset(images, labels), BATCH, shuffle=True, drop_last=True)
test = DataLoader(TensorDataset(images[:300], labels[:300]), EVAL_BATCH)
net = RepVGG().to(device)
compiled = torch.compile(net)
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 2 * len(train))

for epoch in range(2):
    net.train()
    for x, y in train:
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(compiled(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
    deployed = net.deploy().to(device)
    hits = 0
    with torch.no_grad():
        for x, y in test:
            hits += (deployed(x.to(device)).argmax(1).cpu() == y).sum().item()
    print(f"epoch {epoch} loss {loss.item():.3f} deployed acc {hits / 300:.3f}")
torch.save(net.state_dict(), "repvgg.pt")
