"""Rock thin sections, 18 classes: PVTv2-B3 with accelerate in fp16; accuracy gathered over the validation set."""

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset
from transformers import PvtV2Config, PvtV2ForImageClassification

IMAGE = 288
ROCKS = 18
BATCH = 48
EVAL_BATCH = 96
EPOCHS = 2
N_TRAIN, N_TEST = 480, 200

set_seed(3)
accelerator = Accelerator(mixed_precision="fp16")


def thin_sections(n):
    pictures = torch.randint(0, 256, (n, 3, IMAGE, IMAGE), dtype=torch.uint8)
    return TensorDataset(pictures, torch.randint(0, ROCKS, (n,)))


def to_float(pictures):
    return pictures.float().div_(255).sub_(0.45).div_(0.22)


config = PvtV2Config(
    image_size=IMAGE,
    depths=[3, 4, 18, 3],
    hidden_sizes=[64, 128, 320, 512],
    drop_path_rate=0.1,
    num_labels=ROCKS,
)
model = PvtV2ForImageClassification(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.05)
train = DataLoader(thin_sections(N_TRAIN), batch_size=BATCH, shuffle=True, drop_last=True)
test = DataLoader(thin_sections(N_TEST), batch_size=EVAL_BATCH)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * len(train))
model, optimizer, train, test, schedule = accelerator.prepare(
    model, optimizer, train, test, schedule
)

for epoch in range(EPOCHS):
    model.train()
    running = 0.0
    for pictures, rocks in train:
        logits = model(pixel_values=to_float(pictures)).logits
        loss = F.cross_entropy(logits.float(), rocks, label_smoothing=0.1)
        optimizer.zero_grad()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        running += loss.detach()

    model.eval()
    right = seen = 0
    for pictures, rocks in test:
        with torch.inference_mode():
            logits = model(pixel_values=to_float(pictures)).logits
        guesses, truth = accelerator.gather_for_metrics((logits.argmax(-1), rocks))
        right += (guesses == truth).sum().item()
        seen += truth.numel()
    accelerator.print(
        f"epoch {epoch}: loss {running.item() / len(train):.3f}, accuracy {right / seen:.3f} of {seen}"
    )

if torch.cuda.is_available():
    accelerator.print("peak", torch.cuda.max_memory_allocated() >> 20, "MiB")
