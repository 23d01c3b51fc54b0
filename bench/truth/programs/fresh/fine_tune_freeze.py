"""Fine-tuning in two stages: first the head of a frozen network, then all of it, with larger images."""

import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader


def loader(size, batch):
    data = torchvision.datasets.FakeData(
        600, (3, size, size), 37, torchvision.transforms.ToTensor()
    )
    return DataLoader(data, batch, shuffle=True, num_workers=4, pin_memory=True)


device = torch.device("cuda")
model = torchvision.models.efficientnet_v2_s(weights=None)
model.classifier[1] = nn.Linear(model.classifier[1].in_features, 37)
model.to(device)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
scaler = torch.amp.GradScaler("cuda")


def run(loader, optimizer=None):
    model.train(optimizer is not None)
    total = 0.0
    with torch.set_grad_enabled(optimizer is not None):
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            with torch.autocast("cuda", torch.float16):
                loss = criterion(model(x), y)
            if optimizer is not None:
                optimizer.zero_grad(set_to_none=True)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            total += loss.item() * len(x)
    return total / len(loader.dataset)


for p in model.features.parameters():
    p.requires_grad = False
head = torch.optim.Adam(model.classifier.parameters(), 1e-3)
for epoch in range(2):
    print("head", run(loader(160, 64), head), run(loader(160, 128)))
for p in model.features.parameters():
    p.requires_grad = True
whole = torch.optim.SGD(model.parameters(), 1e-2, momentum=0.9, weight_decay=1e-4, nesterov=True)
plan = torch.optim.lr_scheduler.CosineAnnealingLR(whole, 3)
best = float("inf")
for epoch in range(3):
    print("whole", run(loader(224, 48), whole), loss := run(loader(224, 128)))
    plan.step()
    if loss < best:
        best = loss
        torch.save(model.state_dict(), "best.pth")
