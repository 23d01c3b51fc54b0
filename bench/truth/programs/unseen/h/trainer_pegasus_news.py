"""Headline generation with a mid-sized Pegasus: Seq2SeqTrainer, Adafactor, beams at evaluation."""

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    PegasusConfig,
    PegasusForConditionalGeneration,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    default_data_collator,
)

VOCAB = 96103
SOURCE_LEN = 512
TARGET_LEN = 64
TRAIN_SIZE = 440
EVAL_SIZE = 72
D_MODEL = 768
LAYERS = 8
BATCH = 16
EVAL_BATCH = 24


class Articles(Dataset):
    def __init__(self, size, seed):
        g = torch.Generator().manual_seed(seed)
        self.source = torch.randint(110, VOCAB, (size, SOURCE_LEN), generator=g)
        lengths = torch.randint(SOURCE_LEN // 2, SOURCE_LEN + 1, (size,), generator=g)
        self.mask = (torch.arange(SOURCE_LEN)[None] < lengths[:, None]).long()
        self.source[self.mask == 0] = 0
        # the headline repeats every eighth word of the article
        self.target = self.source[:, ::8][:, :TARGET_LEN].clone()
        self.target[:, -1] = 1
        self.target[self.target == 0] = -100

    def __len__(self):
        return len(self.source)

    def __getitem__(self, i):
        return {
            "input_ids": self.source[i],
            "attention_mask": self.mask[i],
            "labels": self.target[i],
        }


class Collator:
    """Label smoothing takes the labels away from the model, so the decoder inputs are made here."""

    def __init__(self, model):
        self.model = model

    def __call__(self, rows):
        batch = default_data_collator(rows)
        batch["decoder_input_ids"] = self.model.prepare_decoder_input_ids_from_labels(
            labels=batch["labels"]
        )
        return batch


def rouge1(pred):
    preds, refs = pred
    scores = []
    for p, r in zip(preds, refs):
        p, r = set(p[p > 1].tolist()), set(r[r > 1].tolist())
        hit = len(p & r)
        scores.append(2 * hit / max(1, len(p) + len(r)))
    lengths = [int(np.count_nonzero(p > 0)) for p in preds]
    return {"rouge1": float(np.mean(scores)), "gen_len": float(np.mean(lengths))}


def main():
    config = PegasusConfig(
        vocab_size=VOCAB,
        d_model=D_MODEL,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=4 * D_MODEL,
        decoder_ffn_dim=4 * D_MODEL,
        max_position_embeddings=SOURCE_LEN,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        forced_eos_token_id=1,
        scale_embedding=True,
    )
    model = PegasusForConditionalGeneration(config)
    print("parameters:", model.num_parameters())

    args = Seq2SeqTrainingArguments(
        output_dir="pegasus-news",
        max_steps=45,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=EVAL_BATCH,
        learning_rate=1e-3,
        optim="adafactor",
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=5,
        label_smoothing_factor=0.1,
        bf16=True,
        predict_with_generate=True,
        generation_max_length=48,
        generation_num_beams=4,
        eval_strategy="steps",
        eval_steps=25,
        save_strategy="no",
        logging_steps=5,
        report_to="none",
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=args,
        train_dataset=Articles(TRAIN_SIZE, 0),
        eval_dataset=Articles(EVAL_SIZE, 1),
        data_collator=Collator(model),
        compute_metrics=rouge1,
    )
    trainer.train()
    result = trainer.predict(Articles(EVAL_SIZE // 2, 2), max_length=32, num_beams=2)
    print(result.metrics)
    model.save_pretrained("pegasus-news/last")


if __name__ == "__main__":
    main()
