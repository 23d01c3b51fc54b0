"""ConvMixer with torch.compile, bf16 autocast, channels_last and a short last batch in the evaluation."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Residual(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x):
        return self.fn(x) + x


def ConvMixer(dim, depth, kernel_size=9, patch_size=7, n_classes=1000):
    return nn.Sequential(
        nn.Conv2d(3, dim, kernel_size=patch_size, stride=patch_size),
        nn.GELU(),
        nn.BatchNorm2d(dim),
        *[
            nn.Sequential(
                Residual(
                    nn.Sequential(
                        nn.Conv2d(dim, dim, kernel_size, groups=dim, padding="same"),
                        nn.GELU(),
                        nn.BatchNorm2d(dim),
                    )
                ),
                nn.Conv2d(dim, dim, kernel_size=1),
                nn.GELU(),
                nn.BatchNorm2d(dim),
            )
            for _ in range(depth)
        ],
        nn.AdaptiveAvgPool2d((1, 1)),
        nn.Flatten(),
        nn.Linear(dim, n_classes),
    )


parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", default=96, type=int)
parser.add_argument("--images", default=1000, type=int)
parser.add_argument("--test-images", default=300, type=int)
parser.add_argument("--size", default=224, type=int)
parser.add_argument("--hdim", default=512, type=int)
parser.add_argument("--depth", default=8, type=int)
parser.add_argument("--psize", default=8, type=int)
parser.add_argument("--conv-ks", default=7, type=int)
parser.add_argument("--wd", default=0.01, type=float)
parser.add_argument("--clip-norm", action="store_true", default=True)
parser.add_argument("--epochs", default=3, type=int)
parser.add_argument("--lr-max", default=0.01, type=float)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
images = torch.randint(
    0, 256, (args.images + args.test_images, 3, args.size, args.size), dtype=torch.uint8
)
labels = torch.randint(0, 10, (len(images),))
images[torch.arange(len(images)), labels % 3] //= 2
trainloader = DataLoader(
    TensorDataset(images[: args.images], labels[: args.images]),
    batch_size=args.batch_size,
    shuffle=True,
    drop_last=True,
)
testloader = DataLoader(
    TensorDataset(images[args.images :], labels[args.images :]), batch_size=args.batch_size
)

model = ConvMixer(
    args.hdim, args.depth, patch_size=args.psize, kernel_size=args.conv_ks, n_classes=10
)
model = model.to("cuda", memory_format=torch.channels_last)
compiled = torch.compile(model)
opt = torch.optim.AdamW(model.parameters(), lr=args.lr_max, weight_decay=args.wd, fused=True)
criterion = nn.CrossEntropyLoss()
steps = args.epochs * len(trainloader)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=args.lr_max, total_steps=steps)


def prepare(x):
    x = x.to("cuda", non_blocking=True).float().div_(127.5).sub_(1)
    return x.contiguous(memory_format=torch.channels_last)


for epoch in range(args.epochs):
    start = time.time()
    train_loss, train_acc, n = 0, 0, 0
    model.train()
    for i, (X, y) in enumerate(trainloader):
        X, y = prepare(X), y.to("cuda")
        opt.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            output = compiled(X)
            loss = criterion(output, y)
        loss.backward()
        if args.clip_norm:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        train_loss += loss.item() * y.size(0)
        train_acc += (output.max(1)[1] == y).sum().item()
        n += y.size(0)

    model.eval()
    test_acc, m = 0, 0
    with torch.no_grad():
        for X, y in testloader:
            X, y = prepare(X), y.to("cuda")
            with torch.autocast("cuda", dtype=torch.bfloat16):
                output = compiled(X)
            test_acc += (output.max(1)[1] == y).sum().item()
            m += y.size(0)
    print(
        f"[ConvMixer] Epoch: {epoch} | Train Acc: {train_acc / n:.4f}, Test Acc: {test_acc / m:.4f}, "
        f"Time: {time.time() - start:.1f}, lr: {sched.get_last_lr()[0]:.6f}"
    )
