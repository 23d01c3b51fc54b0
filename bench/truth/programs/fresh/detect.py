"""Object detection as torchvision's reference does it: images of unlike sizes, boxes of unlike number."""

import random

import torch
import torchvision
from torch.utils.data import DataLoader, Dataset


class Scenes(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        g = random.Random(i)
        height, width = g.choice([(480, 640), (427, 640), (640, 480)])
        boxes = []
        for _ in range(g.randint(1, 9)):
            x, y = g.uniform(0, width * 0.6), g.uniform(0, height * 0.6)
            boxes.append([x, y, x + g.uniform(20, width * 0.35), y + g.uniform(20, height * 0.35)])
        target = {
            "boxes": torch.tensor(boxes),
            "labels": torch.tensor([g.randint(1, 20) for _ in boxes]),
        }
        return torch.rand(3, height, width), target


device = torch.device("cuda")
model = torchvision.models.detection.fasterrcnn_resnet50_fpn(
    weights=None, weights_backbone=None, num_classes=21
)
model.to(device)
loader = DataLoader(Scenes(), batch_size=4, shuffle=True, collate_fn=lambda b: tuple(zip(*b)))
params = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.SGD(params, lr=0.005, momentum=0.9, weight_decay=5e-4)
for epoch in range(2):
    model.train()
    for images, targets in loader:
        images = [x.to(device) for x in images]
        targets = [{k: v.to(device) for k, v in t.items()} for t in targets]
        losses = model(images, targets)
        loss = sum(losses.values())
        if not torch.isfinite(loss):
            raise SystemExit(f"loss is {loss.item()}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, {k: round(v.item(), 3) for k, v in losses.items()})
    model.eval()
    with torch.no_grad():
        for images, _ in loader:
            found = model([x.to(device) for x in images])
            found = [{k: v.cpu() for k, v in one.items()} for one in found]
