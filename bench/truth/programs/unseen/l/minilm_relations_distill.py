"""MiniLM-v2: a small BERT learns the query, key and value relations of a large Megatron-BERT.

The teacher is frozen in bf16; relations are captured by forward hooks; the student trains in autocast with AdamW and a polynomial schedule.
"""

import argparse
import os
import tempfile

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from transformers import (
    MegatronBertConfig,
    MegatronBertModel,
    get_polynomial_decay_schedule_with_warmup,
)


class Sentences(Dataset):
    def __init__(self, n, length, vocab, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(5, vocab, (n, length), generator=g)
        self.lengths = torch.randint(length // 2, length + 1, (n,), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        mask = (torch.arange(self.ids.shape[1]) < self.lengths[i]).long()
        return self.ids[i] * mask, mask


class Capture:
    """Keeps the outputs of the projections of one attention layer."""

    def __init__(self, attention):
        self.kept = {}
        for name in ("query", "key", "value"):
            getattr(attention, name).register_forward_hook(self.hook(name))

    def hook(self, name):
        def keep(module, inputs, output):
            self.kept[name] = output

        return keep


def relation(x, heads, mask):
    b, n, d = x.shape
    x = x.view(b, n, heads, d // heads).transpose(1, 2).float()
    scores = x @ x.transpose(-1, -2) / (d // heads) ** 0.5
    return scores.masked_fill(mask[:, None, None] == 0, -1e4)


def relation_loss(student, teacher, heads, mask):
    total = 0.0
    for name in ("query", "key", "value"):
        with torch.no_grad():
            target = relation(teacher.kept[name], heads, mask).softmax(-1)
        logp = relation(student.kept[name], heads, mask).log_softmax(-1)
        kl = F.kl_div(logp, target, reduction="none").sum(-1).mean(1)
        total = total + (kl * mask).sum() / mask.sum()
    return total


def bert(hidden, layers, heads, vocab, length):
    return MegatronBertModel(
        MegatronBertConfig(
            vocab_size=vocab,
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * hidden,
            max_position_embeddings=length,
        ),
        add_pooling_layer=False,
    )


def main():
    p = argparse.ArgumentParser()
    p.add_argument(
        "--teacher", type=int, nargs=3, default=[1024, 20, 16], help="hidden, layers, heads"
    )
    p.add_argument("--student", type=int, nargs=3, default=[384, 6, 12])
    p.add_argument("--relations", type=int, default=32)
    p.add_argument("--layer", type=int, default=-2, help="layer of the teacher")
    p.add_argument("--vocab", type=int, default=29_056)
    p.add_argument("--length", type=int, default=256)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--steps", type=int, default=45)
    a = p.parse_args()
    torch.manual_seed(73)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    teacher = (
        bert(*a.teacher, a.vocab, a.length).to(device, torch.bfloat16).eval().requires_grad_(False)
    )
    student = bert(*a.student, a.vocab, a.length).to(device)
    from_teacher = Capture(teacher.encoder.layer[a.layer].attention.self)
    from_student = Capture(student.encoder.layer[-1].attention.self)
    opt = torch.optim.AdamW(
        student.parameters(), lr=6e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01
    )
    sched = get_polynomial_decay_schedule_with_warmup(opt, 5, a.steps)
    train = DataLoader(
        Sentences(a.batch * a.steps, a.length, a.vocab, 1),
        a.batch,
        shuffle=True,
        pin_memory=device.type == "cuda",
    )
    held = DataLoader(Sentences(a.batch * 4, a.length, a.vocab, 2), a.batch)

    def both(ids, mask):
        ids, mask = ids.to(device, non_blocking=True), mask.to(device, non_blocking=True)
        with torch.no_grad():
            teacher(input_ids=ids, attention_mask=mask)
        with torch.autocast(device.type, torch.bfloat16):
            student(input_ids=ids, attention_mask=mask)
        return relation_loss(from_student, from_teacher, a.relations, mask)

    for step, (ids, mask) in enumerate(train, 1):
        loss = both(ids, mask)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 15 == 0:
            student.eval()
            with torch.no_grad():
                score = sum(both(i, m).item() for i, m in held) / len(held)
            student.train()
            print(
                f"step {step} loss {loss.item():.4f} held out {score:.4f} lr {sched.get_last_lr()[0]:.2e}"
            )
    with tempfile.TemporaryDirectory() as folder:
        student.save_pretrained(os.path.join(folder, "student"))


if __name__ == "__main__":
    main()
