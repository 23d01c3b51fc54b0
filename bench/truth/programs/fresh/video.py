"""Videos: a 3D ResNet in bf16 with the batch on the GPU once."""

import torch
import torchvision
from torch.utils.data import DataLoader, TensorDataset

clips = TensorDataset(torch.rand(48, 3, 16, 112, 112), torch.randint(0, 400, (48,)))
loader = DataLoader(clips, 12, shuffle=True, pin_memory=True)
model = torchvision.models.video.r3d_18(weights=None).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.01, 0.9, nesterov=True)
plan = torch.optim.lr_scheduler.StepLR(optimizer, 1)
for epoch in range(3):
    model.train()
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    plan.step()
    model.eval()
    right = 0
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        for x, y in loader:
            right += (model(x.cuda()).argmax(-1).cpu() == y).sum().item()
    print(epoch, loss.item(), right / len(clips))
