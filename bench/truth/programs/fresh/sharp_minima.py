"""Sharpness-aware minimization: two passes a step, half precision off, channels last."""

import torch
import torchvision
from torch.utils.data import DataLoader


class Sharpness(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **words):
        super().__init__(params, {"rho": rho, **words})
        self.base = base(self.param_groups, **words)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def climb(self):
        norm = torch.norm(
            torch.stack(
                [
                    p.grad.norm(p=2)
                    for g in self.param_groups
                    for p in g["params"]
                    if p.grad is not None
                ]
            ),
            p=2,
        )
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.state[p]["old"] = p.data.clone()
                    p.add_(p.grad * (group["rho"] / (norm + 1e-12)))
        self.zero_grad()

    @torch.no_grad()
    def descend(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.data = self.state[p]["old"]
        self.base.step()
        self.zero_grad()

    def step(self, closure=None):
        raise NotImplementedError


model = (
    torchvision.models.wide_resnet50_2(num_classes=100).cuda().to(memory_format=torch.channels_last)
)
data = torchvision.datasets.FakeData(400, (3, 192, 192), 100, torchvision.transforms.ToTensor())
loader = DataLoader(data, batch_size=40, shuffle=True, num_workers=2)
optimizer = Sharpness(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=1e-4)
criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
model.train()
for images, targets in loader:
    images, targets = images.cuda().to(memory_format=torch.channels_last), targets.cuda()
    loss = criterion(model(images), targets)
    loss.backward()
    optimizer.climb()
    criterion(model(images), targets).backward()
    optimizer.descend()
    print(f"{loss.item():.3f}", f"{torch.cuda.memory_reserved() / 2**30:.2f} GiB")
