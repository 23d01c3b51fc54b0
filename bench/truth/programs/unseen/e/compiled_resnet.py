"""ResNet-18 with torch.compile, channels last and bf16; SGD with Nesterov; validated with the network as it was."""

import os
import time

import torch
import torch.nn.functional as F
from torchvision.models import resnet18

BATCH = int(os.environ.get("BATCH", "256"))
SIZE = int(os.environ.get("SIZE", "192"))
STEPS = int(os.environ.get("STEPS", "24"))
VAL_STEPS = int(os.environ.get("VAL_STEPS", "3"))
BACKEND = os.environ.get("BACKEND", "inductor")
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def batches(count, batch, seed):
    g = torch.Generator().manual_seed(seed)
    pool = torch.randint(0, 256, (batch, 3, SIZE, SIZE), generator=g, dtype=torch.uint8)
    for _ in range(count):
        labels = torch.randint(0, 1000, (batch,), generator=g)
        yield pool.to(device, non_blocking=True), labels.to(device, non_blocking=True)


def prepare(images):
    images = images.to(memory_format=torch.channels_last).float().div_(255)
    return images.sub_(0.45).div_(0.225)


def train_step(model, optimizer, images, labels):
    with torch.autocast(device.type, dtype=torch.bfloat16):
        loss = F.cross_entropy(model(prepare(images)), labels, label_smoothing=0.1)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()


def main():
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    network = resnet18(weights=None).to(device, memory_format=torch.channels_last)
    model = torch.compile(network, backend=BACKEND)
    optimizer = torch.optim.SGD(
        network.parameters(), lr=0.5, momentum=0.9, weight_decay=5e-5, nesterov=True
    )
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, total_iters=5)
    start = time.time()
    for step, (images, labels) in enumerate(batches(STEPS, BATCH, 0)):
        loss = train_step(model, optimizer, images, labels)
        schedule.step()
        if step == 0:
            print(f"first step after {time.time() - start:.1f} s")
            start = time.time()
        elif step % 8 == 0:
            speed = step * BATCH / (time.time() - start)
            print(f"step {step}: loss {loss.item():.3f}, {speed:.0f} images/s")
    network.eval()
    right = total = 0
    with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16):
        for images, labels in batches(VAL_STEPS, BATCH, 1):
            guess = network(prepare(images))
            guess = guess + network(prepare(images.flip(3)))
            right += (guess.argmax(1) == labels).sum().item()
            total += len(labels)
    print(f"validated: {right / total:.4f}")
    torch.save(network.state_dict(), "resnet18.pt")


if __name__ == "__main__":
    main()
