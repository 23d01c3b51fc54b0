"""Knowledge distillation with torchvision: a ResNet-101 teaches a MobileNetV3; fp16, workers, an EMA of the student."""

import argparse
import copy

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision.datasets import FakeData
from torchvision.models import mobilenet_v3_large, resnet101
from torchvision.transforms import v2


class ModelEMA:
    def __init__(self, model, decay):
        self.module, self.decay = copy.deepcopy(model).eval(), decay
        for p in self.module.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for ours, theirs in zip(self.module.state_dict().values(), model.state_dict().values()):
            if ours.dtype.is_floating_point:
                ours.mul_(self.decay).add_(theirs, alpha=1 - self.decay)
            else:
                ours.copy_(theirs)


def distillation_loss(student, teacher, labels, temperature, alpha):
    soft = F.kl_div(
        F.log_softmax(student / temperature, 1),
        F.softmax(teacher / temperature, 1),
        reduction="batchmean",
    )
    return alpha * temperature**2 * soft + (1 - alpha) * F.cross_entropy(student, labels)


@torch.no_grad()
def accuracy(model, loader, device):
    model.eval()
    right = total = 0
    for images, labels in loader:
        right += (model(images.to(device)).argmax(1).cpu() == labels).sum().item()
        total += len(labels)
    return right / total


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--images", type=int, default=1100)
    p.add_argument("--size", type=int, default=224)
    p.add_argument("--batch-size", type=int, default=96)
    p.add_argument("--val-batch-size", type=int, default=256)
    p.add_argument("--workers", type=int, default=6)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--temperature", type=float, default=4.0)
    p.add_argument("--alpha", type=float, default=0.7)
    args = p.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    amp = device.type == "cuda"
    transform = v2.Compose(
        [
            v2.ToImage(),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    shape = (3, args.size, args.size)
    train = DataLoader(
        FakeData(args.images, shape, 100, transform),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=amp,
        persistent_workers=args.workers > 0,
    )
    val = DataLoader(
        FakeData(args.images // 3, shape, 100, transform, random_offset=7),
        batch_size=args.val_batch_size,
        num_workers=args.workers,
    )
    teacher = resnet101(weights=None, num_classes=100).to(device).eval()
    student = mobilenet_v3_large(weights=None, num_classes=100).to(device)
    ema = ModelEMA(student, 0.99)
    optimizer = torch.optim.RMSprop(student.parameters(), lr=0.01, momentum=0.9, eps=0.0316)
    scaler = torch.amp.GradScaler(device.type, enabled=amp)
    for epoch in range(args.epochs):
        student.train()
        running = 0.0
        for images, labels in train:
            images = images.to(device, non_blocking=True)
            labels = labels.to(device, non_blocking=True)
            with torch.autocast(device.type, torch.float16, enabled=amp):
                with torch.no_grad():
                    taught = teacher(images)
                logits = student(images)
                loss = distillation_loss(
                    logits.float(), taught.float(), labels, args.temperature, args.alpha
                )
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(student.parameters(), 5.0)
            scaler.step(optimizer)
            scaler.update()
            ema.update(student)
            running += loss.item()
        top = accuracy(ema.module, val, device)
        print(f"epoch {epoch}: loss {running / len(train):.3f}, student's average {top:.3f}")
        torch.save({"student": student.state_dict(), "ema": ema.module.state_dict()}, "kd.pt")


if __name__ == "__main__":
    main()
