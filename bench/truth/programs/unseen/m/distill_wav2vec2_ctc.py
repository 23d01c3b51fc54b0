"""Distil a large wav2vec2 CTC recogniser into a small one: frozen teacher in bf16, CTC plus temperature KL per frame, clips of different length padded per batch, last batch kept."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC, get_linear_schedule_with_warmup

LETTERS = 32


class Utterances(Dataset):
    def __init__(self, n, seconds, seed):
        rng = np.random.default_rng(seed)
        self.length = rng.integers(int(seconds * 8000), int(seconds * 16000), n)
        self.letters = [rng.integers(1, LETTERS, max(2, size // 2000)) for size in self.length]
        self.seed = seed

    def __len__(self):
        return len(self.length)

    def __getitem__(self, i):
        rng = np.random.default_rng((self.seed, i))
        wave = rng.standard_normal(self.length[i], dtype=np.float32)
        return torch.from_numpy(wave), torch.from_numpy(self.letters[i])


def collate(batch):
    waves, texts = zip(*batch)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones(len(w)).long() for w in waves], True)
    return {
        "input_values": torch.nn.utils.rnn.pad_sequence(waves, True),
        "attention_mask": mask,
        "labels": torch.nn.utils.rnn.pad_sequence(texts, True, padding_value=-100),
    }


def recogniser(hidden, layers, heads):
    return Wav2Vec2ForCTC(
        Wav2Vec2Config(
            vocab_size=LETTERS,
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * hidden,
            feat_extract_norm="layer",
            conv_bias=True,
            do_stable_layer_norm=True,
            layerdrop=0.0,
            apply_spec_augment=False,
            ctc_loss_reduction="mean",
            ctc_zero_infinity=True,
        )
    )


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--teacher-layers", type=int, default=24)
    p.add_argument("--teacher-hidden", type=int, default=1024)
    p.add_argument("--student-layers", type=int, default=6)
    p.add_argument("--student-hidden", type=int, default=512)
    p.add_argument("--seconds", type=float, default=12.0)
    p.add_argument("--batch", type=int, default=12)
    p.add_argument("--clips", type=int, default=200)
    p.add_argument("--workers", type=int, default=4)
    p.add_argument("--temperature", type=float, default=2.0)
    p.add_argument("--alpha", type=float, default=0.7)
    a = p.parse_args()
    torch.manual_seed(21)

    teacher = recogniser(a.teacher_hidden, a.teacher_layers, a.teacher_hidden // 64)
    teacher.to(a.device, torch.bfloat16).eval().requires_grad_(False)
    student = recogniser(a.student_hidden, a.student_layers, a.student_hidden // 64).to(a.device)
    print(f"teacher {teacher.num_parameters():,} student {student.num_parameters():,}")
    loader = DataLoader(
        Utterances(a.clips, a.seconds, 4),
        a.batch,
        shuffle=True,
        collate_fn=collate,
        num_workers=a.workers,
        pin_memory=a.device == "cuda",
    )
    optimizer = torch.optim.AdamW(student.parameters(), lr=3e-4, weight_decay=0.01)
    schedule = get_linear_schedule_with_warmup(optimizer, 3, len(loader))

    student.train()
    for step, batch in enumerate(loader):
        batch = {k: v.to(a.device, non_blocking=True) for k, v in batch.items()}
        with torch.no_grad():
            wanted = teacher(
                batch["input_values"].to(torch.bfloat16), attention_mask=batch["attention_mask"]
            ).logits
        with torch.autocast(a.device, torch.bfloat16):
            out = student(**batch)
        t = a.temperature
        kl = F.kl_div(
            F.log_softmax(out.logits.float() / t, -1),
            F.softmax(wanted.float() / t, -1),
            reduction="none",
        ).sum(-1)
        frames = student._get_feat_extract_output_lengths(batch["attention_mask"].sum(1))
        inside = torch.arange(kl.size(1), device=kl.device)[None] < frames[:, None]
        kl = (kl * inside).sum() / inside.sum() * t * t
        loss = a.alpha * kl + (1 - a.alpha) * out.loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 4 == 0:
            print(f"{step:3d} kl {kl.item():.4f} ctc {out.loss.item():.3f}")
    student.save_pretrained("student")


if __name__ == "__main__":
    main()
