"""Teacher and student with hints: hooks collect the teacher's feature maps, small convolutions match the student's."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models import resnet18, resnet101


class Pictures(Dataset):
    def __init__(self, count, size, classes):
        self.count, self.size, self.classes = count, size, classes

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        y = i % self.classes
        return torch.randn(3, self.size, self.size, generator=g) + y / self.classes, y


class Taps:
    """What the named layers of a model gave last."""

    def __init__(self, model, names):
        self.maps = {}
        for name in names:
            model.get_submodule(name).register_forward_hook(self.keep(name))

    def keep(self, name):
        def hook(_module, _inputs, output):
            self.maps[name] = output

        return hook


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--size", type=int, default=192)
    p.add_argument("--count", type=int, default=900)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--classes", type=int, default=50)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--temperature", type=float, default=4.0)
    p.add_argument("--workers", type=int, default=4)
    a = p.parse_args()
    torch.manual_seed(30)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(
        Pictures(a.count, a.size, a.classes),
        a.batch,
        shuffle=True,
        num_workers=a.workers,
        pin_memory=device.type == "cuda",
        persistent_workers=a.workers > 0,
    )
    teacher = resnet101(weights=None, num_classes=a.classes).to(device).eval().requires_grad_(False)
    student = resnet18(weights=None, num_classes=a.classes).to(device)
    names = {"layer2": (128, 512), "layer3": (256, 1024), "layer4": (512, 2048)}
    seen, shown = Taps(student, names), Taps(teacher, names)
    match = nn.ModuleDict({n: nn.Conv2d(i, o, 1, bias=False) for n, (i, o) in names.items()}).to(
        device
    )
    parameters = [*student.parameters(), *match.parameters()]
    optimizer = torch.optim.RMSprop(parameters, lr=1e-3, momentum=0.9, weight_decay=1e-5)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    t = a.temperature
    for epoch in range(a.epochs):
        student.train()
        right = 0
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                with torch.no_grad():
                    soft = teacher(x)
                logits = student(x)
                hints = sum(F.mse_loss(match[n](seen.maps[n]), shown.maps[n]) for n in names)
            kd = F.kl_div(
                F.log_softmax(logits.float() / t, 1),
                F.softmax(soft.float() / t, 1),
                reduction="batchmean",
            )
            loss = F.cross_entropy(logits.float(), y) + t * t * kd + 0.1 * hints
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += (logits.argmax(1) == y).sum().item()
        schedule.step()
        print(f"epoch {epoch}: loss {loss.item():.3f} right {right / a.count:.3f}")
        torch.save(student.state_dict(), f"student-{epoch}.pt")


if __name__ == "__main__":
    main()
