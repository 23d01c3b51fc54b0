"""A vision transformer trained with Muon for its matrices and AdamW for the rest."""

import torch
import torch.nn.functional as F
import torchvision
from torch.utils.data import DataLoader


def orthogonal(matrix, steps=5):
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrix.bfloat16()
    if matrix.size(0) > matrix.size(1):
        x = x.T
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        s = x @ x.T
        x = a * x + (b * s + c * s @ s) @ x
    return x.T if matrix.size(0) > matrix.size(1) else x


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(p.grad)
                kept = state["momentum"]
                kept.lerp_(p.grad, 1 - group["momentum"])
                update = orthogonal(p.grad.lerp(kept, group["momentum"]))
                p.add_(update.type_as(p), alpha=-group["lr"] * max(1, p.size(0) / p.size(1)) ** 0.5)


device = torch.device("cuda")
model = torchvision.models.vit_b_16(num_classes=100).to(device)
matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "encoder" in n]
others = [p for n, p in model.named_parameters() if not (p.ndim == 2 and "encoder" in n)]
optimizers = [Muon(matrices), torch.optim.AdamW(others, 3e-4, fused=True)]
images = torchvision.datasets.FakeData(200, (3, 224, 224), 100, torchvision.transforms.ToTensor())
loader = DataLoader(
    images, 24, shuffle=True, num_workers=4, pin_memory=True, persistent_workers=True
)
for epoch in range(2):
    right = seen = 0
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
            out = model(x)
            loss = F.cross_entropy(out, y, label_smoothing=0.1)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        for optimizer in optimizers:
            optimizer.zero_grad()
        right += (out.argmax(1) == y).sum().item()
        seen += len(y)
    print(epoch, loss.item(), right / seen)
