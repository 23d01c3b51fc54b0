"""A vision transformer of torchvision with the usual parts of a recipe, channels last where they help."""

import argparse
import time

import torch
import torchvision
from torch.utils.data import DataLoader
from torchvision.transforms import v2

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="vit_b_16")
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--accumulate", type=int, default=2)
args = parser.parse_args()
device = torch.device("cuda", 0)
torch.backends.cuda.matmul.allow_tf32 = True
model = torchvision.models.get_model(args.model, num_classes=200).to(
    device, memory_format=torch.channels_last
)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.05)
average = torch.optim.swa_utils.AveragedModel(
    model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.999)
)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=100)
mix = v2.MixUp(num_classes=200)
images = torchvision.datasets.FakeData(1000, (3, 224, 224), 200, torchvision.transforms.ToTensor())
loader = DataLoader(
    images, args.batch, shuffle=True, num_workers=4, pin_memory=True, persistent_workers=True
)
for epoch in range(1):
    model.train()
    began = time.time()
    for number, (x, y) in enumerate(loader):
        x, y = mix(
            x.to(device, non_blocking=True).to(memory_format=torch.channels_last), y.to(device)
        )
        with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y) / args.accumulate
        loss.backward()
        if (number + 1) % args.accumulate == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            average.update_parameters(model)
    torch.cuda.synchronize()
    print(
        f"{len(images) / (time.time() - began):.0f} images a second, {torch.cuda.max_memory_allocated() >> 20} MiB"
    )
    average.eval()
    with torch.inference_mode():
        for x, y in loader:
            out = average(x.to(device))
    torch.save(
        {"model": average.module.state_dict(), "optimizer": optimizer.state_dict()}, "vit.pt"
    )
