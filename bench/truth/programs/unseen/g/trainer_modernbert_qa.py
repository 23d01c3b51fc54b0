"""Extractive question answering, ModernBERT-base from a configuration; windows of long documents, EM/F1 after."""

import collections
import random

import numpy as np
from torch.utils.data import Dataset
from transformers import (
    ModernBertConfig,
    ModernBertForQuestionAnswering,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

max_length = 512
doc_stride = 128
vocab_size = 50368
n_train_docs = 260
n_val_docs = 60
hidden, layers, heads = 768, 22, 12
train_batch, eval_batch = 24, 64

set_seed(0)


def make_document(rnd):
    context = [rnd.randrange(100, vocab_size - 100) for _ in range(rnd.randint(200, 1600))]
    question = [rnd.randrange(100, vocab_size - 100) for _ in range(rnd.randint(6, 20))]
    start = rnd.randrange(len(context) - 10)
    end = start + rnd.randint(1, 8)
    return question, context, start, end


class SquadLike(Dataset):
    """question + a window of the context, as many windows as the document needs"""

    CLS, SEP, PAD = 1, 2, 3

    def __init__(self, n_docs, seed):
        rnd = random.Random(seed)
        self.features = []
        self.answers = {}
        for doc_id in range(n_docs):
            q, c, s, e = make_document(rnd)
            self.answers[doc_id] = (s, e)
            room = max_length - len(q) - 3
            offset = 0
            while True:
                window = c[offset : offset + room]
                ids = [self.CLS] + q + [self.SEP] + window + [self.SEP]
                first = len(q) + 2
                if offset <= s and e < offset + len(window):
                    sp, ep = first + s - offset, first + e - offset
                else:
                    sp = ep = 0
                mask = [1] * len(ids) + [0] * (max_length - len(ids))
                ids = ids + [self.PAD] * (max_length - len(ids))
                self.features.append(
                    {
                        "input_ids": ids,
                        "attention_mask": mask,
                        "start_positions": sp,
                        "end_positions": ep,
                        "_doc": doc_id,
                        "_shift": offset - first,
                        "_first": first,
                    }
                )
                if offset + room >= len(c):
                    break
                offset += room - doc_stride

    def __len__(self):
        return len(self.features)

    def __getitem__(self, i):
        return {k: v for k, v in self.features[i].items() if not k.startswith("_")}


def postprocess(dataset, start_logits, end_logits, n_best=10, max_answer=12):
    best = collections.defaultdict(lambda: (-1e9, (0, 0)))
    for f, sl, el in zip(dataset.features, start_logits, end_logits):
        for s in np.argsort(sl)[::-1][:n_best]:
            for e in np.argsort(el)[::-1][:n_best]:
                if s < f["_first"] or e < s or e - s > max_answer:
                    continue
                score = float(sl[s] + el[e])
                if score > best[f["_doc"]][0]:
                    best[f["_doc"]] = (score, (int(s) + f["_shift"], int(e) + f["_shift"]))
    em, f1 = [], []
    for doc, (s, e) in dataset.answers.items():
        ps, pe = best[doc][1]
        inter = max(0, min(e, pe) - max(s, ps) + 1)
        em.append(float((s, e) == (ps, pe)))
        f1.append(2 * inter / ((e - s + 1) + (pe - ps + 1)))
    return {"exact_match": 100 * np.mean(em), "f1": 100 * np.mean(f1)}


def main():
    config = ModernBertConfig(
        vocab_size=vocab_size,
        hidden_size=hidden,
        intermediate_size=hidden * 3 // 2,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        pad_token_id=3,
        cls_token_id=1,
        sep_token_id=2,
        bos_token_id=1,
        eos_token_id=2,
        attn_implementation="sdpa",
    )
    model = ModernBertForQuestionAnswering(config)
    train_set, val_set = SquadLike(n_train_docs, 5), SquadLike(n_val_docs, 6)
    print(len(train_set), "train windows", len(val_set), "validation windows")
    args = TrainingArguments(
        output_dir="modernbert_qa",
        per_device_train_batch_size=train_batch,
        per_device_eval_batch_size=eval_batch,
        learning_rate=8e-5,
        num_train_epochs=2,
        lr_scheduler_type="linear",
        bf16=True,
        bf16_full_eval=False,
        logging_steps=10,
        save_strategy="epoch",
        save_only_model=True,
        save_total_limit=1,
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=train_set,
        eval_dataset=val_set,
        data_collator=default_data_collator,
    )
    trainer.train()
    output = trainer.predict(val_set)
    start_logits, end_logits = output.predictions[:2]
    print(
        {k: round(float(v), 2) for k, v in postprocess(val_set, start_logits, end_logits).items()}
    )


if __name__ == "__main__":
    main()
