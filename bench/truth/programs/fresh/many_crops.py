"""Self-distillation over crops of two sizes: a student, an averaged teacher, a center."""

import copy

import torch
import torch.nn.functional as F
import torchvision
from torch import nn


class Head(nn.Module):
    def __init__(self, width, out=16384):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(width, 1024),
            nn.GELU(),
            nn.Linear(1024, 1024),
            nn.GELU(),
            nn.Linear(1024, 256),
        )
        self.last = nn.utils.parametrizations.weight_norm(nn.Linear(256, out, bias=False))

    def forward(self, x):
        return self.last(F.normalize(self.mlp(x), dim=-1))


class Crops(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torchvision.models.resnet50()
        self.body.fc = nn.Identity()
        self.head = Head(2048)

    def forward(self, crops):
        sizes = torch.cumsum(
            torch.unique_consecutive(
                torch.tensor([c.shape[-1] for c in crops]), return_counts=True
            )[1],
            0,
        )
        begin, out = 0, []
        for end in sizes:
            out.append(self.body(torch.cat(crops[begin:end])))
            begin = end
        return self.head(torch.cat(out))


batch, small = 24, 6
student = Crops().cuda()
teacher = copy.deepcopy(student)
for p in teacher.parameters():
    p.requires_grad = False
center = torch.zeros(1, 16384).cuda()
optimizer = torch.optim.AdamW(student.parameters(), lr=5e-4)
scaler = torch.amp.GradScaler("cuda")
for step in range(6):
    crops = [torch.randn(batch, 3, 224, 224) for _ in range(2)] + [
        torch.randn(batch, 3, 96, 96) for _ in range(small)
    ]
    crops = [c.cuda(non_blocking=True) for c in crops]
    with torch.autocast("cuda", torch.float16):
        with torch.no_grad():
            seen = teacher(crops[:2])
        made = student(crops)
        goal = F.softmax((seen - center) / 0.04, -1).detach().chunk(2)
        total, terms = 0, 0
        for i, q in enumerate(goal):
            for j, v in enumerate((made / 0.1).chunk(2 + small)):
                if i != j:
                    total, terms = (
                        total + torch.sum(-q * F.log_softmax(v, -1), -1).mean(),
                        terms + 1,
                    )
        loss = total / terms
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    with torch.no_grad():
        center = center * 0.9 + seen.float().mean(0, keepdim=True) * 0.1
        for a, b in zip(student.parameters(), teacher.parameters()):
            b.data.mul_(0.996).add_(a.detach().data, alpha=0.004)
    print(step, loss.item())
