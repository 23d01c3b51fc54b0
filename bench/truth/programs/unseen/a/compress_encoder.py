"""Knowledge distillation of a text encoder: hidden states and soft labels, early stopping on validation loss."""

import argparse
import copy
import random

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, random_split
from transformers import RobertaConfig, RobertaForSequenceClassification


def make_texts(count, max_len, vocab, seed=0):
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        length = rng.randint(max_len // 2, max_len)
        rows.append(([rng.randrange(5, vocab) for _ in range(length)], rng.randrange(4)))
    return rows


def make_collate(max_len):
    """Everything is padded to the same length, so that shapes stay the same."""

    def collate(rows):
        ids = torch.ones(len(rows), max_len, dtype=torch.long)
        mask = torch.zeros(len(rows), max_len, dtype=torch.long)
        for i, (tokens, _) in enumerate(rows):
            ids[i, : len(tokens)] = torch.tensor(tokens)
            mask[i, : len(tokens)] = 1
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "labels": torch.tensor([y for _, y in rows]),
        }

    return collate


class EarlyStopping:
    def __init__(self, patience=3, min_delta=0.0):
        self.patience, self.min_delta = patience, min_delta
        self.best, self.bad, self.state = float("inf"), 0, None

    def step(self, value, model):
        if value < self.best - self.min_delta:
            self.best, self.bad = value, 0
            self.state = copy.deepcopy(model.state_dict())
        else:
            self.bad += 1
        return self.bad >= self.patience


def distill_loss(student_out, teacher_out, labels, temperature, alpha):
    hard = F.cross_entropy(student_out.logits, labels)
    soft = F.kl_div(
        F.log_softmax(student_out.logits / temperature, dim=-1),
        F.softmax(teacher_out.logits / temperature, dim=-1),
        reduction="batchmean",
    )
    # every second layer of the teacher is matched with one of the student
    pairs = zip(student_out.hidden_states[1:], teacher_out.hidden_states[2::2], strict=True)
    hidden = sum(F.mse_loss(s, t) for s, t in pairs) / (len(student_out.hidden_states) - 1)
    return alpha * hard + (1 - alpha) * soft * temperature**2 + hidden


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--vocab", type=int, default=30000)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--max-len", type=int, default=160)
    parser.add_argument("--texts", type=int, default=960)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--temperature", type=float, default=3.0)
    parser.add_argument("--alpha", type=float, default=0.4)
    args = parser.parse_args()
    torch.manual_seed(7)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    base = {
        "vocab_size": args.vocab,
        "hidden_size": args.hidden,
        "intermediate_size": args.hidden * 4,
        "num_attention_heads": args.hidden // 64,
        "max_position_embeddings": args.max_len + 2,
        "num_labels": 4,
    }
    teacher = RobertaForSequenceClassification(RobertaConfig(num_hidden_layers=args.layers, **base))
    student = RobertaForSequenceClassification(
        RobertaConfig(num_hidden_layers=args.layers // 2, **base)
    )
    # the student starts from every second layer of its teacher
    student.roberta.embeddings.load_state_dict(teacher.roberta.embeddings.state_dict())
    for i, layer in enumerate(student.roberta.encoder.layer):
        layer.load_state_dict(teacher.roberta.encoder.layer[2 * i].state_dict())
    teacher.to(device).eval().requires_grad_(False)
    student.to(device)

    data = make_texts(args.texts, args.max_len, args.vocab)
    train, val = random_split(data, [0.8, 0.2], generator=torch.Generator().manual_seed(3))
    collate = make_collate(args.max_len)
    train_loader = DataLoader(train, args.batch, shuffle=True, collate_fn=collate, num_workers=2)
    val_loader = DataLoader(val, args.batch, collate_fn=collate)
    optimizer = torch.optim.AdamW(student.parameters(), lr=5e-5)
    stopper = EarlyStopping(patience=2)

    for epoch in range(args.epochs):
        student.train()
        for step, batch in enumerate(train_loader):
            batch = {k: v.to(device) for k, v in batch.items()}
            labels = batch.pop("labels")
            with torch.autocast(device.type, dtype=torch.bfloat16):
                with torch.no_grad():
                    teacher_out = teacher(**batch, output_hidden_states=True)
                student_out = student(**batch, output_hidden_states=True)
                loss = distill_loss(student_out, teacher_out, labels, args.temperature, args.alpha)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}")
        student.eval()
        total = 0.0
        with torch.no_grad():
            for batch in val_loader:
                out = student(**{k: v.to(device) for k, v in batch.items()})
                total += out.loss.item()
        val_loss = total / len(val_loader)
        print(f"epoch {epoch} validation {val_loss:.4f}")
        if stopper.step(val_loss, student):
            print("no progress, stopping")
            break
    student.load_state_dict(stopper.state)
    student.save_pretrained("student")


if __name__ == "__main__":
    main()
