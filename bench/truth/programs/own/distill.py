"""Teacher and student with an averaged copy, mixed precision, and an evaluation with larger batches."""

import argparse
import copy

import torch
import torch.nn.functional as F
import torchvision
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()

teacher = torchvision.models.resnet50(num_classes=100).cuda().eval().requires_grad_(False)
student = torchvision.models.resnet18(num_classes=100).cuda()
average = copy.deepcopy(student).eval()
optimizer = torch.optim.SGD(
    student.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=1e-4
)
scaler = torch.amp.GradScaler("cuda")
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
images = torchvision.datasets.FakeData(1000, (3, 128, 128), 100, torchvision.transforms.ToTensor())
train = DataLoader(images, args.batch, shuffle=True, num_workers=4, drop_last=True)
valid = DataLoader(images, args.batch * 4, num_workers=4)
best = 0.0
for epoch in range(args.epochs):
    student.train()
    for x, y in train:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        with torch.autocast("cuda", torch.float16):
            with torch.no_grad():
                wanted = teacher(x)
            logits = student(x)
            loss = F.cross_entropy(logits, y, label_smoothing=0.1)
            loss = loss + F.kl_div(
                F.log_softmax(logits / 4, 1), F.softmax(wanted / 4, 1), reduction="batchmean"
            )
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(student.parameters(), 5.0)
        if not torch.isfinite(norm):
            print("skipped")
        scaler.step(optimizer)
        scaler.update()
        with torch.no_grad():
            for kept, new in zip(average.state_dict().values(), student.state_dict().values()):
                kept.copy_(kept * 0.999 + new * 0.001 if kept.dtype.is_floating_point else new)
    schedule.step()
    right = 0
    with torch.inference_mode():
        for x, y in valid:
            right += (average(x.cuda()).argmax(1) == y.cuda()).sum().item()
    accuracy = right / len(images)
    if accuracy >= best:
        best = accuracy
        torch.save(average.state_dict(), "best.pt")
    print(f"epoch {epoch}: loss {loss.item():.4f}, accuracy {accuracy:.3f}")
student.load_state_dict(torch.load("best.pt", map_location="cuda"))
