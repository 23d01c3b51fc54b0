"""TinyBERT style distillation: hidden states, attention maps and soft labels of a 12-layer teacher."""

import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification

VOCAB = 30522
MAX_LEN = 160
BATCH = 48
N_TRAIN = 960
N_LABELS = 7
TEMPERATURE = 2.0
TEACHER_LAYERS, TEACHER_DIM = 12, 768
STUDENT_LAYERS, STUDENT_DIM = 4, 312


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def build(layers, dim, heads, ffn):
    config = BertConfig(
        vocab_size=VOCAB,
        hidden_size=dim,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=ffn,
        num_labels=N_LABELS,
        attn_implementation="eager",
    )
    return BertForSequenceClassification(config)


class Distiller(nn.Module):
    def __init__(self, teacher, student):
        super().__init__()
        self.teacher = teacher.eval()
        for p in self.teacher.parameters():
            p.requires_grad = False
        self.student = student
        self.fit_dense = nn.Linear(STUDENT_DIM, TEACHER_DIM)
        self.ratio = TEACHER_LAYERS // STUDENT_LAYERS

    def forward(self, input_ids, attention_mask, labels):
        inputs = dict(
            input_ids=input_ids,
            attention_mask=attention_mask,
            output_hidden_states=True,
            output_attentions=True,
        )
        with torch.no_grad():
            t = self.teacher(**inputs)
        s = self.student(**inputs)

        rep_loss = 0.0
        for i, hidden in enumerate(s.hidden_states):
            rep_loss = rep_loss + F.mse_loss(
                self.fit_dense(hidden), t.hidden_states[i * self.ratio]
            )
        att_loss = 0.0
        for i, att in enumerate(s.attentions):
            target = t.attentions[(i + 1) * self.ratio - 1]
            att_loss = att_loss + F.mse_loss(att, target)
        soft = (
            F.kl_div(
                F.log_softmax(s.logits / TEMPERATURE, -1),
                F.softmax(t.logits / TEMPERATURE, -1),
                reduction="batchmean",
            )
            * TEMPERATURE**2
        )
        hard = F.cross_entropy(s.logits, labels)
        return rep_loss + att_loss + soft + hard, (rep_loss.item(), att_loss.item(), soft.item())


def main():
    set_seed(2020)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

    ids = torch.randint(1000, VOCAB, (N_TRAIN, MAX_LEN))
    lengths = torch.randint(20, MAX_LEN + 1, (N_TRAIN,))
    mask = (torch.arange(MAX_LEN)[None] < lengths[:, None]).long()
    ids = ids * mask
    labels = torch.randint(0, N_LABELS, (N_TRAIN,))
    loader = DataLoader(TensorDataset(ids, mask, labels), batch_size=BATCH, shuffle=True)

    model = Distiller(
        build(TEACHER_LAYERS, TEACHER_DIM, 12, 3072), build(STUDENT_LAYERS, STUDENT_DIM, 12, 1200)
    ).to(device)
    trainable = [p for p in model.parameters() if p.requires_grad]
    print(
        "trainable",
        sum(p.numel() for p in trainable),
        "of",
        sum(p.numel() for p in model.parameters()),
    )
    optimizer = torch.optim.AdamW(trainable, lr=1e-4)

    model.train()
    model.teacher.eval()
    for step, batch in enumerate(loader):
        batch = [t.to(device) for t in batch]
        loss, parts = model(*batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(trainable, 5.0)
        optimizer.step()
        if step % 5 == 0:
            print(
                f"step {step:3d} loss {loss.item():.4f} rep {parts[0]:.4f} att {parts[1]:.6f} soft {parts[2]:.4f}"
            )


if __name__ == "__main__":
    main()
