"""Fine-tune a Wav2Vec2-Conformer with CTC on utterances of 2 to 8 seconds (padded to the longest)."""

from dataclasses import dataclass

import numpy as np
import torch
from transformers import (
    Trainer,
    TrainingArguments,
    Wav2Vec2ConformerConfig,
    Wav2Vec2ConformerForCTC,
    Wav2Vec2FeatureExtractor,
)

RATE = 16000
SHORTEST, LONGEST = 2.0, 8.0
CHARS = 32
PAD = 0
N_TRAIN, N_DEV = 160, 40
BATCH, EVAL_BATCH = 10, 8
STEPS = 14
SHAPE = dict(hidden_size=768, num_hidden_layers=10, num_attention_heads=12, intermediate_size=3072)

np.random.seed(99)
torch.manual_seed(99)


def make_utterances(n):
    rows = []
    for _ in range(n):
        seconds = np.random.uniform(SHORTEST, LONGEST)
        t = np.arange(int(seconds * RATE)) / RATE
        tone = np.sin(2 * np.pi * np.random.uniform(80, 400) * t) + 0.1 * np.random.randn(len(t))
        text = np.random.randint(1, CHARS, size=int(seconds * 8))
        rows.append({"input_values": tone.astype(np.float32), "labels": text.tolist()})
    return rows


@dataclass
class CTCCollator:
    extractor: Wav2Vec2FeatureExtractor

    def __call__(self, rows):
        batch = self.extractor.pad(
            [{"input_values": r["input_values"]} for r in rows],
            padding="longest",
            return_attention_mask=True,
            return_tensors="pt",
        )
        longest = max(len(r["labels"]) for r in rows)
        labels = torch.full((len(rows), longest), -100)
        for i, r in enumerate(rows):
            labels[i, : len(r["labels"])] = torch.tensor(r["labels"])
        batch["labels"] = labels
        return batch


def greedy(ids):
    out, last = [], None
    for i in ids:
        if i not in (last, PAD):
            out.append(int(i))
        last = i
    return out


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


def character_error_rate(pred):
    errors = total = 0
    for hyp, ref in zip(pred.predictions, pred.label_ids):
        ref = [int(c) for c in ref if c >= 0]
        errors += distance(greedy([h for h in hyp if h >= 0]), ref)
        total += len(ref)
    return {"cer": errors / max(total, 1)}


def main():
    extractor = Wav2Vec2FeatureExtractor(
        sampling_rate=RATE, do_normalize=True, return_attention_mask=True
    )
    config = Wav2Vec2ConformerConfig(
        vocab_size=CHARS,
        pad_token_id=PAD,
        ctc_loss_reduction="mean",
        ctc_zero_infinity=True,
        layerdrop=0.0,
        mask_time_prob=0.05,
        position_embeddings_type="relative",
        **SHAPE,
    )
    model = Wav2Vec2ConformerForCTC(config)
    model.freeze_feature_encoder()
    args = TrainingArguments(
        output_dir="conformer_ctc",
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=EVAL_BATCH,
        learning_rate=1e-4,
        warmup_steps=4,
        fp16=True,
        eval_strategy="steps",
        eval_steps=7,
        save_strategy="steps",
        save_steps=14,
        save_only_model=True,
        logging_steps=2,
        remove_unused_columns=False,
        report_to="none",
        disable_tqdm=True,
        seed=99,
    )
    trainer = Trainer(
        model=model,
        args=args,
        data_collator=CTCCollator(extractor),
        train_dataset=make_utterances(N_TRAIN),
        eval_dataset=make_utterances(N_DEV),
        compute_metrics=character_error_rate,
        preprocess_logits_for_metrics=lambda logits, labels: (
            logits[0] if isinstance(logits, tuple) else logits
        ).argmax(-1),
        processing_class=extractor,
    )
    trainer.train()
    print(trainer.state.log_history[-1])


if __name__ == "__main__":
    main()
