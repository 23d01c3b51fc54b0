import random
import time

import numpy as np
import torch
from torch import nn
from torchvision.models import resnet101

# ---- settings
BATCH = 144
SIZE = 256
CLASSES = 120
STEPS = 20
LR = 0.1
# ----

random.seed(123)
np.random.seed(123)
torch.manual_seed(123)
torch.backends.cudnn.benchmark = False
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

model = resnet101(weights=None, num_classes=CLASSES, zero_init_residual=True)
model = model.to(device, memory_format=torch.channels_last)

# no weight decay for norms and biases
decay, no_decay = [], []
for name, p in model.named_parameters():
    (no_decay if p.ndim == 1 else decay).append(p)
optimizer = torch.optim.SGD(
    [{"params": decay, "weight_decay": 5e-5}, {"params": no_decay, "weight_decay": 0.0}],
    lr=LR,
    momentum=0.9,
)
criterion = nn.CrossEntropyLoss(label_smoothing=0.05)


def next_batch():
    x = torch.from_numpy(np.random.randint(0, 256, (BATCH, 3, SIZE, SIZE), dtype=np.uint8))
    y = torch.from_numpy(np.random.randint(0, CLASSES, BATCH))
    x = x.to(device).to(memory_format=torch.channels_last)
    x = (x.float() - 127.5) / 64.0
    return x, y.to(device)


meter = []
tick = time.perf_counter()
for step in range(STEPS):
    x, y = next_batch()
    with torch.autocast(device.type, dtype=torch.bfloat16):
        out = model(x)
        loss = criterion(out, y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    meter.append(loss.detach())
    if (step + 1) % 5 == 0:
        value = torch.stack(meter).mean().item()
        meter.clear()
        now = time.perf_counter()
        print(f"step {step + 1}: loss {value:.4f}, {5 * BATCH / (now - tick):.0f} images/s")
        tick = now

model.eval()
with torch.inference_mode(), torch.autocast(device.type, dtype=torch.bfloat16):
    x, y = next_batch()
    top5 = model(x).topk(5, dim=1).indices
    print("top-5", (top5 == y[:, None]).any(1).float().mean().item())
