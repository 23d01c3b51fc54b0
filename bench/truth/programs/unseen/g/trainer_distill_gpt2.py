"""
Distill a GPT-2 medium teacher into a 6-layer student with a Trainer subclass.

loss = alpha * T^2 * KL(student / T || teacher / T) + (1 - alpha) * CE
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class DistillationTrainingArguments(TrainingArguments):
    def __init__(self, *args, alpha=0.5, temperature=2.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.alpha = alpha
        self.temperature = temperature


class DistillationTrainer(Trainer):
    def __init__(self, *args, teacher_model=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.teacher = teacher_model
        self.teacher.to(self.args.device)
        self.teacher.eval()
        for p in self.teacher.parameters():
            p.requires_grad_(False)
        self.running = {"ce": 0.0, "kd": 0.0, "n": 0}

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs_student = model(**inputs)
        ce = outputs_student.loss
        with torch.no_grad():
            outputs_teacher = self.teacher(
                input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]
            )
        t = self.args.temperature
        s_logits = outputs_student.logits[:, :-1]
        t_logits = outputs_teacher.logits[:, :-1]
        assert s_logits.size() == t_logits.size()
        loss_function = nn.KLDivLoss(reduction="batchmean")
        kd = loss_function(
            F.log_softmax(s_logits.reshape(-1, s_logits.size(-1)) / t, dim=-1),
            F.softmax(t_logits.reshape(-1, t_logits.size(-1)) / t, dim=-1),
        ) * (t**2)
        loss = self.args.alpha * ce + (1.0 - self.args.alpha) * kd
        if model.training:
            self.running["ce"] += ce.item()
            self.running["kd"] += kd.item()
            self.running["n"] += 1
        return (loss, outputs_student) if return_outputs else loss

    def log(self, logs, *args, **kwargs):
        if self.running["n"]:
            logs["ce"] = round(self.running["ce"] / self.running["n"], 4)
            logs["kd"] = round(self.running["kd"] / self.running["n"], 4)
            self.running = {"ce": 0.0, "kd": 0.0, "n": 0}
        super().log(logs, *args, **kwargs)


def get_data(n, seq_len, vocab, seed):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, vocab, (n, seq_len), generator=g)
    ids[:, 1::2] = (ids[:, ::2] * 7 + 3) % vocab  # something to learn
    return [
        {"input_ids": row, "attention_mask": torch.ones_like(row), "labels": row} for row in ids
    ]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--teacher_layers", type=int, default=24)
    p.add_argument("--teacher_embd", type=int, default=1024)
    p.add_argument("--student_layers", type=int, default=6)
    p.add_argument("--student_embd", type=int, default=768)
    p.add_argument("--vocab", type=int, default=50257)
    p.add_argument("--seq_len", type=int, default=512)
    p.add_argument("--examples", type=int, default=320)
    p.add_argument("--batch_size", type=int, default=8)
    a = p.parse_args()

    torch.manual_seed(0)
    common = dict(vocab_size=a.vocab, n_positions=1024)
    teacher = GPT2LMHeadModel(
        GPT2Config(n_layer=a.teacher_layers, n_embd=a.teacher_embd, n_head=16, **common)
    )
    student = GPT2LMHeadModel(
        GPT2Config(n_layer=a.student_layers, n_embd=a.student_embd, n_head=12, **common)
    )
    print(f"teacher {teacher.num_parameters():,}  student {student.num_parameters():,}")

    args = DistillationTrainingArguments(
        output_dir="distilled",
        num_train_epochs=1,
        per_device_train_batch_size=a.batch_size,
        per_device_eval_batch_size=a.batch_size,
        learning_rate=5e-4,
        warmup_steps=5,
        fp16=True,
        logging_steps=10,
        eval_strategy="steps",
        eval_steps=20,
        save_strategy="no",
        prediction_loss_only=True,
        alpha=0.3,
        temperature=2.0,
        report_to="none",
    )
    trainer = DistillationTrainer(
        model=student,
        args=args,
        teacher_model=teacher,
        train_dataset=get_data(a.examples, a.seq_len, a.vocab, 0),
        eval_dataset=get_data(a.batch_size * 4, a.seq_len, a.vocab, 1),
    )
    trainer.train()
    print(trainer.evaluate())
    trainer.save_model("distilled/final")


if __name__ == "__main__":
    main()
