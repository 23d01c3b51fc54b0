"""Write ad headlines with BERT2BERT (EncoderDecoderModel) and the Seq2SeqTrainer: fp16, an evaluation batch larger than the training batch, beam search in evaluation."""

import argparse
import random

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    EncoderDecoderConfig,
    EncoderDecoderModel,
    GenerationConfig,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)

PAD, CLS, SEP = 0, 101, 102


class Ads(Dataset):
    def __init__(self, count, source, target, vocab, seed):
        rnd = random.Random(seed)
        self.items = []
        for _ in range(count):
            body = [rnd.randrange(1000, vocab) for _ in range(rnd.randint(source // 2, source - 2))]
            title = rnd.sample(body, k=min(len(body), rnd.randint(target // 4, target - 2)))
            self.items.append((body, title))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        body, title = self.items[i]
        return {"input_ids": [CLS, *body, SEP], "labels": [CLS, *title, SEP]}


def collate(rows):
    def pad(lists, value):
        longest = max(map(len, lists))
        return torch.tensor([x + [value] * (longest - len(x)) for x in lists])

    ids = pad([r["input_ids"] for r in rows], PAD)
    return {
        "input_ids": ids,
        "attention_mask": (ids != PAD).long(),
        "labels": pad([r["labels"] for r in rows], -100),
    }


def overlap(prediction):
    """Unigram F1, a poor man's ROUGE-1."""
    guesses, truths = prediction
    scores = []
    for guess, truth in zip(guesses, truths):
        g = {int(t) for t in guess if t not in (PAD, CLS, SEP, -100)}
        t = {int(t) for t in truth if t not in (PAD, CLS, SEP, -100)}
        scores.append(2 * len(g & t) / max(1, len(g) + len(t)))
    return {"rouge1": float(np.mean(scores)), "length": float((guesses != PAD).sum(1).mean())}


def build(a):
    common = dict(
        vocab_size=a.vocab,
        hidden_size=a.hidden,
        num_attention_heads=a.hidden // 64,
        intermediate_size=4 * a.hidden,
    )
    config = EncoderDecoderConfig.from_encoder_decoder_configs(
        BertConfig(num_hidden_layers=a.layers, **common),
        BertConfig(num_hidden_layers=a.layers, **common),
    )
    config.decoder_start_token_id = CLS
    config.eos_token_id = SEP
    config.pad_token_id = PAD
    model = EncoderDecoderModel(config=config)
    model.generation_config = GenerationConfig(
        decoder_start_token_id=CLS,
        bos_token_id=CLS,
        eos_token_id=SEP,
        pad_token_id=PAD,
        max_length=a.target,
        num_beams=a.beams,
        length_penalty=1.2,
        no_repeat_ngram_size=3,
    )
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocab", type=int, default=30522)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--source", type=int, default=320)
    parser.add_argument("--target", type=int, default=48)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--eval-batch", type=int, default=80)
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--train", type=int, default=600)
    parser.add_argument("--eval", type=int, default=100)
    parser.add_argument("--cpu", action="store_true")
    a = parser.parse_args()
    set_seed(3)

    model = build(a)
    args = Seq2SeqTrainingArguments(
        output_dir="ads",
        num_train_epochs=1,
        per_device_train_batch_size=a.batch,
        per_device_eval_batch_size=a.eval_batch,
        predict_with_generate=True,
        learning_rate=5e-5,
        weight_decay=0.01,
        warmup_steps=5,
        fp16=not a.cpu,
        eval_strategy="epoch",
        save_strategy="no",
        logging_steps=5,
        report_to="none",
        use_cpu=a.cpu,
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=args,
        data_collator=collate,
        train_dataset=Ads(a.train, a.source, a.target, a.vocab, 1),
        eval_dataset=Ads(a.eval, a.source, a.target, a.vocab, 2),
        compute_metrics=overlap,
    )
    trainer.train()
    for entry in trainer.state.log_history:
        if "eval_rouge1" in entry:
            print({k: v for k, v in entry.items() if k.startswith("eval_")})


if __name__ == "__main__":
    main()
