"""Summaries of court hearings: LongT5 (transient-global attention) with Seq2SeqTrainer and beam evaluation."""

import argparse
import os

import numpy as np
import torch
from transformers import (
    LongT5Config,
    LongT5ForConditionalGeneration,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--source_length", type=int, default=4096)
parser.add_argument("--target_length", type=int, default=192)
parser.add_argument("--d_model", type=int, default=768)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--batch", type=int, default=2)
parser.add_argument("--accumulation", type=int, default=2)
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--vocab", type=int, default=32128)
parser.add_argument("--output", default="longt5_hearings")


class Hearings(torch.utils.data.Dataset):
    def __init__(self, n, options, seed):
        g = torch.Generator().manual_seed(seed)
        self.source = torch.randint(3, options.vocab - 100, (n, options.source_length), generator=g)
        self.target = torch.randint(3, options.vocab - 100, (n, options.target_length), generator=g)
        self.source[:, -1] = 1
        self.target[:, -1] = 1

    def __len__(self):
        return self.source.shape[0]

    def __getitem__(self, i):
        return {
            "input_ids": self.source[i],
            "attention_mask": torch.ones_like(self.source[i]),
            "labels": self.target[i],
        }


def overlap(prediction):
    """A stand-in for ROUGE-1: how many tokens of the reference occur in the prediction."""
    predicted, reference = prediction.predictions, prediction.label_ids
    scores = []
    for p, r in zip(predicted, reference):
        r = set(r[r > 1].tolist())
        scores.append(len(r & set(p.tolist())) / max(1, len(r)))
    return {"overlap": float(np.mean(scores)), "length": float((predicted > 1).sum(-1).mean())}


def main(options):
    set_seed(1)
    config = LongT5Config(
        vocab_size=options.vocab,
        d_model=options.d_model,
        d_kv=64,
        d_ff=options.d_model * 8 // 3,
        num_layers=options.layers,
        num_decoder_layers=options.layers,
        num_heads=options.d_model // 64,
        feed_forward_proj="gated-gelu",
        encoder_attention_type="transient-global",
        local_radius=127,
        global_block_size=16,
        tie_word_embeddings=False,
        decoder_start_token_id=0,
    )
    model = LongT5ForConditionalGeneration(config)
    arguments = Seq2SeqTrainingArguments(
        output_dir=options.output,
        max_steps=options.steps,
        per_device_train_batch_size=options.batch,
        per_device_eval_batch_size=2 * options.batch,
        gradient_accumulation_steps=options.accumulation,
        learning_rate=1e-3,
        optim="adafactor",
        lr_scheduler_type="constant",
        bf16=True,
        eval_strategy="steps",
        eval_steps=options.steps,
        predict_with_generate=True,
        generation_max_length=64,
        generation_num_beams=3,
        logging_steps=2,
        save_strategy="no",
        report_to="none",
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=arguments,
        train_dataset=Hearings(40, options, 1),
        eval_dataset=Hearings(8, options, 2),
        compute_metrics=overlap,
    )
    trainer.train()
    print(trainer.state.log_history[-2:])


if __name__ == "__main__":
    main(parser.parse_args())
