"""Mean teacher: a few labels, many pictures without; an averaged teacher judges the student's noisy answers."""

import argparse
import itertools
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def block(cin, cout, kernel=3, padding=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, kernel, padding=padding), nn.BatchNorm2d(cout), nn.LeakyReLU(0.1)
    )


class GaussianNoise(nn.Module):
    def __init__(self, std=0.15):
        super().__init__()
        self.std = std

    def forward(self, x):
        if self.training:
            return x + torch.randn_like(x) * self.std
        return x


class ConvLarge(nn.Module):
    """The 13 layer network of the papers on semi-supervised learning."""

    def __init__(self, classes, width):
        super().__init__()
        w = width
        self.features = nn.Sequential(
            GaussianNoise(),
            block(3, w),
            block(w, w),
            block(w, w),
            nn.MaxPool2d(2),
            nn.Dropout(0.5),
            block(w, 2 * w),
            block(2 * w, 2 * w),
            block(2 * w, 2 * w),
            nn.MaxPool2d(2),
            nn.Dropout(0.5),
            block(2 * w, 4 * w, padding=0),
            block(4 * w, 2 * w, 1, 0),
            block(2 * w, w, 1, 0),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.classify = nn.Linear(w, classes)

    def forward(self, x):
        return self.classify(self.features(x))


def pictures(count, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 10, (count,), generator=g)
    x = torch.randn(count, 3, 32, 32, generator=g) + (y.view(-1, 1, 1, 1) - 4.5) * 0.1
    return x, y


def augment(x):
    shift = torch.randint(-2, 3, (2,)).tolist()
    x = torch.roll(x, shift, dims=(2, 3))
    flip = torch.rand(len(x), device=x.device) < 0.5
    return torch.where(flip[:, None, None, None], x.flip(-1), x)


@torch.no_grad()
def update_teacher(student, teacher, alpha, step):
    alpha = min(1 - 1 / (step + 1), alpha)
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.mul_(alpha).add_(s, alpha=1 - alpha)
    for t, s in zip(teacher.buffers(), student.buffers()):
        t.copy_(s)


def ramp_up(epoch, length):
    part = min(max(epoch / length, 0.0), 1.0)
    return math.exp(-5.0 * (1.0 - part) ** 2)


@torch.no_grad()
def accuracy(model, loader, device):
    model.eval()
    right, count = 0, 0
    for x, y in loader:
        right += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()
        count += len(y)
    model.train()
    return right / count


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--labelled", type=int, default=1000)
    p.add_argument("--unlabelled", type=int, default=6000)
    p.add_argument("--batch", type=int, default=100, help="labelled pictures in a batch")
    p.add_argument("--ratio", type=int, default=3, help="pictures without label for each labelled")
    p.add_argument("--width", type=int, default=128)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--alpha", type=float, default=0.99)
    p.add_argument("--consistency", type=float, default=100.0)
    a = p.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    torch.backends.cudnn.benchmark = False
    labelled = DataLoader(TensorDataset(*pictures(a.labelled, 1)), a.batch, shuffle=True)
    free_x, _ = pictures(a.unlabelled, 2)
    unlabelled = DataLoader(
        TensorDataset(free_x), a.batch * a.ratio, shuffle=True, drop_last=True, num_workers=2
    )
    test = DataLoader(TensorDataset(*pictures(a.labelled * 2, 3)), 1000)

    student, teacher = ConvLarge(10, a.width).to(device), ConvLarge(10, a.width).to(device)
    teacher.load_state_dict(student.state_dict())
    for parameter in teacher.parameters():
        parameter.detach_()
    optimizer = torch.optim.SGD(
        student.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, nesterov=True
    )
    step = 0
    for epoch in range(a.epochs):
        weight = a.consistency * ramp_up(epoch, a.epochs)
        for (x, y), (u,) in zip(itertools.cycle(labelled), unlabelled):
            x, y, u = x.to(device), y.to(device), u.to(device)
            both = torch.cat([x, u])
            out = student(augment(both))
            with torch.no_grad():
                target = teacher(augment(both))
            class_loss = F.cross_entropy(out[: len(x)], y)
            consistency = F.mse_loss(out.softmax(1), target.softmax(1))
            loss = class_loss + weight * consistency
            if torch.isnan(loss):
                raise RuntimeError(f"loss is NaN at step {step}")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            update_teacher(student, teacher, a.alpha, step)
        print(
            f"epoch {epoch}: {class_loss.item():.3f} + {weight:.1f} * {consistency.item():.5f},"
            f" student {accuracy(student, test, device):.3f}, teacher {accuracy(teacher, test, device):.3f}"
        )
    torch.save({"student": student.state_dict(), "teacher": teacher.state_dict()}, "mt.ckpt")


if __name__ == "__main__":
    main()
