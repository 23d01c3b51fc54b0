"""Distil a BERT-large teacher into DistilBERT on masked words: fp16 with GradScaler, KL + MLM + cosine losses."""

import argparse
import logging

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DistilBertConfig,
    DistilBertForMaskedLM,
    get_linear_schedule_with_warmup,
)

logging.basicConfig(level=logging.INFO, format="%(message)s")


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--vocab", type=int, default=30522)
    p.add_argument("--length", type=int, default=192)
    p.add_argument("--rows", type=int, default=400)
    p.add_argument("--batch", type=int, default=20)
    p.add_argument("--accumulate", type=int, default=2)
    p.add_argument("--eval-batch", type=int, default=40)
    p.add_argument("--temperature", type=float, default=2.0)
    p.add_argument("--teacher-layers", type=int, default=24)
    p.add_argument("--teacher-width", type=int, default=1024)
    p.add_argument("--student-layers", type=int, default=6)
    p.add_argument("--device", default="cuda")
    return p.parse_args()


def mask_words(ids, vocab, rate=0.15):
    """80 % [MASK], 10 % another word, 10 % unchanged."""
    chosen = torch.rand(ids.shape, device=ids.device) < rate
    labels = ids.masked_fill(~chosen, -100)
    dice = torch.rand(ids.shape, device=ids.device)
    noisy = ids.masked_fill(chosen & (dice < 0.8), 103)
    other = chosen & (dice > 0.9)
    noisy[other] = torch.randint(0, vocab, (int(other.sum()),), device=ids.device)
    return noisy, labels


@torch.no_grad()
def evaluate(student, loader, a):
    student.eval()
    total = count = 0
    for (ids,) in loader:
        noisy, labels = mask_words(ids.to(a.device), a.vocab)
        with torch.autocast(a.device, dtype=torch.float16):
            loss = student(input_ids=noisy, labels=labels).loss
        total += loss.item() * len(ids)
        count += len(ids)
    student.train()
    return total / count


def main():
    a = get_args()
    torch.manual_seed(1)
    width = a.teacher_width
    teacher = BertForMaskedLM(
        BertConfig(
            vocab_size=a.vocab,
            hidden_size=width,
            num_hidden_layers=a.teacher_layers,
            num_attention_heads=16,
            intermediate_size=4 * width,
        )
    )
    teacher = teacher.half().to(a.device).eval().requires_grad_(False)
    student = DistilBertForMaskedLM(
        DistilBertConfig(
            vocab_size=a.vocab,
            dim=width,
            n_layers=a.student_layers,
            n_heads=16,
            hidden_dim=4 * width,
        )
    ).to(a.device)

    train = DataLoader(
        TensorDataset(torch.randint(1000, a.vocab, (a.rows, a.length))),
        batch_size=a.batch,
        shuffle=True,
    )
    held = DataLoader(
        TensorDataset(torch.randint(1000, a.vocab, (a.rows // 4, a.length))),
        batch_size=a.eval_batch,
    )
    optimizer = torch.optim.AdamW(student.parameters(), lr=5e-4, eps=1e-6, weight_decay=0.01)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, len(train) // a.accumulate)
    scaler = torch.amp.GradScaler(a.device)

    for step, (ids,) in enumerate(train, 1):
        noisy, labels = mask_words(ids.to(a.device), a.vocab)
        with torch.no_grad():
            guide = teacher(input_ids=noisy, output_hidden_states=True)
        with torch.autocast(a.device, dtype=torch.float16):
            out = student(input_ids=noisy, labels=labels, output_hidden_states=True)
            chosen = labels != -100
            soft = (
                F.kl_div(
                    F.log_softmax(out.logits[chosen].float() / a.temperature, -1),
                    F.softmax(guide.logits[chosen].float() / a.temperature, -1),
                    reduction="batchmean",
                )
                * a.temperature**2
            )
            near = (
                1
                - F.cosine_similarity(
                    out.hidden_states[-1].float(), guide.hidden_states[-1].float(), dim=-1
                ).mean()
            )
            loss = (5 * soft + 2 * out.loss + near) / a.accumulate
        scaler.scale(loss).backward()
        if step % a.accumulate == 0:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(student.parameters(), 5.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            schedule.step()
        if step % 5 == 0:
            logging.info(
                "step %d soft %.3f mlm %.3f cos %.3f",
                step,
                soft.item(),
                out.loss.item(),
                near.item(),
            )
    logging.info("held-out mlm %.4f", evaluate(student, held, a))
    student.save_pretrained("distilled")


if __name__ == "__main__":
    main()
