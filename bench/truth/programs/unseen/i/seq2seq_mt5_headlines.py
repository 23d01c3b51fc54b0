"""Multilingual headline generation: mT5-small trained by Seq2SeqTrainer, ROUGE-1 from generated headlines."""

import logging
from collections import Counter

import numpy as np
import torch
from datasets import Dataset
from transformers import (
    MT5Config,
    MT5ForConditionalGeneration,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)

logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)

VOCAB = 250112
SOURCE, TARGET = 384, 48
TRAIN, DEV = 200, 60
BATCH, EVAL_BATCH, ACCUM = 8, 20, 2
EPOCHS = 1
SHAPE = dict(d_model=512, d_kv=64, d_ff=1024, num_layers=8, num_decoder_layers=8, num_heads=6)


def build(n, seed):
    rng = np.random.default_rng(seed)
    articles = rng.integers(300, VOCAB, size=(n, SOURCE))
    headlines = rng.integers(300, VOCAB, size=(n, TARGET))
    headlines[:, -1] = 1
    mask = np.ones((n, SOURCE), dtype=np.int64)
    return Dataset.from_dict(
        {
            "input_ids": articles.tolist(),
            "attention_mask": mask.tolist(),
            "labels": headlines.tolist(),
        }
    ).with_format("torch")


def rouge1(pred):
    ids, refs = pred.predictions, pred.label_ids
    scores, lengths = [], []
    for hyp, ref in zip(ids, refs):
        h = Counter(t for t in hyp.tolist() if t > 1)
        r = Counter(t for t in ref.tolist() if t > 1)
        common = sum((h & r).values())
        scores.append(2 * common / max(1, sum(h.values()) + sum(r.values())))
        lengths.append(sum(h.values()))
    return {"rouge1": 100 * float(np.mean(scores)), "gen_len": float(np.mean(lengths))}


def main():
    set_seed(31)
    config = MT5Config(vocab_size=VOCAB, dropout_rate=0.1, decoder_start_token_id=0, **SHAPE)
    model = MT5ForConditionalGeneration(config)
    logging.info("%.0fM parameters", model.num_parameters() / 1e6)

    args = Seq2SeqTrainingArguments(
        output_dir="mt5_headlines",
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=EVAL_BATCH,
        gradient_accumulation_steps=ACCUM,
        optim="adafactor",
        learning_rate=1e-3,
        lr_scheduler_type="constant",
        bf16=True,
        predict_with_generate=True,
        generation_max_length=TARGET,
        generation_num_beams=1,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        logging_steps=4,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=args,
        train_dataset=build(TRAIN, 0),
        eval_dataset=build(DEV, 1),
        compute_metrics=rouge1,
    )
    trainer.train()
    final = trainer.predict(build(DEV // 2, 2), max_length=TARGET, num_beams=3)
    logging.info("test %s", final.metrics)
    np.save("headlines.npy", final.predictions)
    logging.info("peak %.2f GiB", torch.cuda.max_memory_allocated() / 2**30)


if __name__ == "__main__":
    main()
