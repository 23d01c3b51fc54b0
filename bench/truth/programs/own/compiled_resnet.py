"""ResNet-18 compiled, in channels-last and mixed precision."""

import argparse

import torch
import torchvision

parser = argparse.ArgumentParser()
parser.add_argument("--eager", action="store_true")
parser.add_argument("--benchmark", action="store_true")
args = parser.parse_args()
torch.backends.cudnn.benchmark = args.benchmark
model = torchvision.models.resnet18().cuda().to(memory_format=torch.channels_last)
if not args.eager:
    model.compile()
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
criterion = torch.nn.CrossEntropyLoss()
for step in range(6):
    x = torch.randn(64, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (64,), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
