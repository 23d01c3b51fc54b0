"""Titles for articles: BART-base, Seq2SeqTrainer with predict_with_generate and a small ROUGE-like score."""

import random
from collections import Counter

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    DataCollatorForSeq2Seq,
    GenerationConfig,
    PreTrainedTokenizerFast,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

N_TRAIN = 1200
N_VAL = 96
MAX_SOURCE = 768
MAX_TARGET = 48
D_MODEL = 768
N_LAYERS = 6
TRAIN_BS = 16
EVAL_BS = 48
N_WORDS = 40000

random.seed(3)


def make_tokenizer():
    vocab = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
    vocab.update({f"tok{i}": i + 4 for i in range(N_WORDS)})
    t = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=t, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )


tokenizer = make_tokenizer()


def make_rows(n):
    rows = []
    for _ in range(n):
        topic = random.randrange(N_WORDS - 600)
        words = [
            f"tok{topic + int(random.paretovariate(1.0)) % 500}"
            for _ in range(random.randint(120, 900))
        ]
        title = [w for w, _ in Counter(words).most_common(random.randint(5, 40))]
        rows.append((" ".join(words), " ".join(title)))
    return rows


def preprocess(rows):
    features = []
    for source, title in rows:
        enc = tokenizer(source, max_length=MAX_SOURCE, truncation=True)
        lab = tokenizer(text_target=title, max_length=MAX_TARGET, truncation=True)
        features.append(
            {
                "input_ids": enc["input_ids"],
                "attention_mask": enc["attention_mask"],
                "labels": lab["input_ids"],
            }
        )
    return features


def rouge1(pred, ref):
    a, b = Counter(pred.split()), Counter(ref.split())
    overlap = sum((a & b).values())
    if overlap == 0:
        return 0.0
    p, r = overlap / sum(a.values()), overlap / sum(b.values())
    return 2 * p * r / (p + r)


def compute_metrics(eval_preds):
    preds, labels = eval_preds
    if isinstance(preds, tuple):
        preds = preds[0]
    preds = np.where(preds != -100, preds, tokenizer.pad_token_id)
    labels = np.where(labels != -100, labels, tokenizer.pad_token_id)
    decoded_preds = [p.strip() for p in tokenizer.batch_decode(preds, skip_special_tokens=True)]
    decoded_labels = [l.strip() for l in tokenizer.batch_decode(labels, skip_special_tokens=True)]
    result = {
        "rouge1": 100
        * float(np.mean([rouge1(p, l) for p, l in zip(decoded_preds, decoded_labels)]))
    }
    result["gen_len"] = float(
        np.mean([np.count_nonzero(p != tokenizer.pad_token_id) for p in preds])
    )
    return {k: round(v, 4) for k, v in result.items()}


def main():
    config = BartConfig(
        vocab_size=len(tokenizer),
        d_model=D_MODEL,
        encoder_layers=N_LAYERS,
        decoder_layers=N_LAYERS,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=4 * D_MODEL,
        decoder_ffn_dim=4 * D_MODEL,
        max_position_embeddings=1024,
        forced_eos_token_id=2,
    )
    model = BartForConditionalGeneration(config)
    model.generation_config = GenerationConfig(
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=2,
        forced_eos_token_id=2,
        min_length=6,
    )

    train = preprocess(make_rows(N_TRAIN))
    val = preprocess(make_rows(N_VAL))
    print("mean source length", np.mean([len(r["input_ids"]) for r in train]))

    args = Seq2SeqTrainingArguments(
        output_dir="bart_titles",
        learning_rate=1e-4,
        per_device_train_batch_size=TRAIN_BS,
        per_device_eval_batch_size=EVAL_BS,
        num_train_epochs=2,
        weight_decay=0.01,
        label_smoothing_factor=0.1,
        predict_with_generate=True,
        generation_max_length=MAX_TARGET,
        generation_num_beams=4,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=2,
        bf16=True,
        logging_steps=25,
        report_to="none",
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=args,
        train_dataset=train,
        eval_dataset=val,
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        processing_class=tokenizer,
        compute_metrics=compute_metrics,
    )
    trainer.train()
    predictions = trainer.predict(val[: EVAL_BS // 2], max_length=MAX_TARGET, num_beams=1)
    print(predictions.metrics)
    ids = np.where(predictions.predictions != -100, predictions.predictions, tokenizer.pad_token_id)
    for line in tokenizer.batch_decode(ids[:3], skip_special_tokens=True):
        print(" >", line[:120])


if __name__ == "__main__":
    main()
