"""Gesture recognition from clips of 8 frames: TimeSformer, Accelerate fp16, accumulation, top-1/top-5."""

import argparse
import logging

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset
from transformers import (
    TimesformerConfig,
    TimesformerForVideoClassification,
    get_cosine_schedule_with_warmup,
)

logging.basicConfig(level=logging.INFO)
log = logging.getLogger("gestures")


def clips(n, frames, size, classes):
    video = torch.randint(0, 256, (n, frames, 3, size, size), dtype=torch.uint8)
    return TensorDataset(video, torch.randint(0, classes, (n,)))


def normalise(video):
    return video.float().div_(255).sub_(0.45).div_(0.225)


@torch.no_grad()
def evaluate(model, loader, accelerator):
    model.eval()
    top1 = top5 = seen = 0
    for video, label in loader:
        logits = model(pixel_values=normalise(video)).logits
        logits, label = accelerator.gather_for_metrics((logits, label))
        best = logits.topk(5, dim=-1).indices
        top1 += (best[:, 0] == label).sum().item()
        top5 += (best == label[:, None]).any(-1).sum().item()
        seen += len(label)
    model.train()
    return top1 / seen, top5 / seen, seen


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--frames", type=int, default=8)
    p.add_argument("--size", type=int, default=224)
    p.add_argument("--classes", type=int, default=27)
    p.add_argument("--batch", type=int, default=6)
    p.add_argument("--eval-batch", type=int, default=10)
    p.add_argument("--train", type=int, default=90)
    p.add_argument("--test", type=int, default=34)
    p.add_argument("--width", type=int, default=768)
    p.add_argument("--depth", type=int, default=12)
    p.add_argument("--accumulate", type=int, default=3)
    a = p.parse_args()

    set_seed(17)
    accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=a.accumulate)
    config = TimesformerConfig(
        image_size=a.size,
        num_frames=a.frames,
        hidden_size=a.width,
        num_hidden_layers=a.depth,
        num_attention_heads=12,
        intermediate_size=4 * a.width,
        attention_type="divided_space_time",
        num_labels=a.classes,
        attention_probs_dropout_prob=0.0,
    )
    model = TimesformerForVideoClassification(config)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=5e-3, momentum=0.9, weight_decay=1e-4, nesterov=True
    )
    train = DataLoader(
        clips(a.train, a.frames, a.size, a.classes),
        batch_size=a.batch,
        shuffle=True,
        drop_last=True,
    )
    test = DataLoader(clips(a.test, a.frames, a.size, a.classes), batch_size=a.eval_batch)
    schedule = get_cosine_schedule_with_warmup(optimizer, 2, len(train) // a.accumulate)
    model, optimizer, train, test, schedule = accelerator.prepare(
        model, optimizer, train, test, schedule
    )

    for step, (video, label) in enumerate(train):
        with accelerator.accumulate(model):
            out = model(pixel_values=normalise(video), labels=label)
            accelerator.backward(out.loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        if step % 5 == 0:
            log.info("step %d loss %.4f lr %.2e", step, out.loss.item(), schedule.get_last_lr()[0])

    log.info("top1 %.3f top5 %.3f on %d clips", *evaluate(model, test, accelerator))
    accelerator.wait_for_everyone()
    accelerator.save(accelerator.unwrap_model(model).state_dict(), "timesformer.pt")


if __name__ == "__main__":
    main()
