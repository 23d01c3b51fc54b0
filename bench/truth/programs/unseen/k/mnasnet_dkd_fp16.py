"""Decoupled knowledge distillation: a frozen half-precision ResNet-50 teaches an MNASNet student, fp16 autocast and GradScaler."""

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision.models import mnasnet1_3, resnet50
from torchvision.transforms import v2


class Tiles(Dataset):
    classes = 100

    def __init__(self, n, side=224):
        self.n = n
        self.augment = v2.Compose(
            [
                v2.RandomResizedCrop(side, scale=(0.4, 1.0), antialias=True),
                v2.RandomHorizontalFlip(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize([0.5] * 3, [0.25] * 3),
            ]
        )

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        image = torch.randint(0, 256, (3, 128, 128), dtype=torch.uint8, generator=g)
        return self.augment(image), i % self.classes


def dkd_loss(student, teacher, target, alpha=1.0, beta=4.0, T=4.0):
    mask = F.one_hot(target, student.size(1)).bool()
    ps, pt = F.softmax(student / T, 1), F.softmax(teacher / T, 1)
    two_s = torch.stack([(ps * mask).sum(1), (ps * ~mask).sum(1)], 1).clamp(min=1e-8)
    two_t = torch.stack([(pt * mask).sum(1), (pt * ~mask).sum(1)], 1)
    tckd = F.kl_div(two_s.log(), two_t, reduction="batchmean") * T * T
    rest_s = F.log_softmax(student / T - 1000.0 * mask, 1)
    rest_t = F.softmax(teacher / T - 1000.0 * mask, 1)
    nckd = F.kl_div(rest_s, rest_t, reduction="batchmean") * T * T
    return alpha * tckd + beta * nckd


class Distiller:
    def __init__(self, device, lr=0.05, warm=6):
        self.device = device
        self.teacher = resnet50(weights=None, num_classes=Tiles.classes).to(device).half().eval()
        self.teacher.requires_grad_(False)
        self.student = mnasnet1_3(weights=None, num_classes=Tiles.classes).to(device)
        self.optimizer = torch.optim.SGD(
            self.student.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4
        )
        self.scaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda")
        self.warm = warm
        self.step_count = 0

    def step(self, images, labels):
        with torch.no_grad():
            wisdom = self.teacher(images.half()).float()
        with torch.autocast(self.device.type, dtype=torch.float16):
            logits = self.student(images)
        logits = logits.float()
        self.step_count += 1
        ramp = min(1.0, self.step_count / self.warm)
        loss = F.cross_entropy(logits, labels) + ramp * dkd_loss(logits, wisdom, labels)
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.student.parameters(), 5.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()


def main():
    torch.manual_seed(21)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(
        Tiles(2304),
        batch_size=128,
        shuffle=True,
        num_workers=4,
        pin_memory=True,
        drop_last=True,
    )
    distiller = Distiller(device)
    distiller.student.train()
    for i, (images, labels) in enumerate(loader):
        loss = distiller.step(
            images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        )
        if i % 6 == 0:
            print(f"step {i} loss {loss.item():.3f} scale {distiller.scaler.get_scale():.0f}")


if __name__ == "__main__":
    main()
