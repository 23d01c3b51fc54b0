"""Summaries with a BART-large from its configuration: batches of articles, greedy, then four beams, then sampling."""

import os
import time

import torch
from transformers import BartConfig, BartForConditionalGeneration, GenerationConfig

ARTICLES = int(os.environ.get("ARTICLES", "72"))
BATCH = int(os.environ.get("BATCH", "32"))
SOURCE = int(os.environ.get("SOURCE", "900"))
NEW = int(os.environ.get("NEW", "96"))
LAYERS = int(os.environ.get("LAYERS", "12"))
WIDTH = int(os.environ.get("WIDTH", "1024"))
VOCAB = int(os.environ.get("VOCAB", "50265"))


def load():
    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=VOCAB,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=16,
        decoder_attention_heads=16,
        encoder_ffn_dim=4 * WIDTH,
        decoder_ffn_dim=4 * WIDTH,
    )
    model = BartForConditionalGeneration(config)
    if torch.cuda.is_available():
        model = model.half().cuda()
    return model.eval()


def make_articles():
    g = torch.Generator().manual_seed(5)
    lengths = torch.randint(SOURCE // 2, SOURCE + 1, (ARTICLES,), generator=g).tolist()
    return [torch.randint(4, VOCAB, (n,), generator=g) for n in lengths]


def chunks(rows, size):
    for i in range(0, len(rows), size):
        yield rows[i : i + size]


def main():
    model = load()
    articles = make_articles()
    settings = {
        "greedy": GenerationConfig(max_new_tokens=NEW, num_beams=1, do_sample=False),
        "beams": GenerationConfig(
            max_new_tokens=NEW,
            min_new_tokens=NEW // 2,
            num_beams=4,
            length_penalty=2.0,
            no_repeat_ngram_size=3,
            early_stopping=True,
        ),
        "sampling": GenerationConfig(
            max_new_tokens=NEW, do_sample=True, top_p=0.9, num_return_sequences=3
        ),
    }
    for config in settings.values():
        config.pad_token_id, config.bos_token_id, config.eos_token_id = 1, 0, 2
        config.decoder_start_token_id = 2
    for name, config in settings.items():
        start = time.time()
        summaries = []
        for batch in chunks(articles, BATCH):
            ids = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True, padding_value=1)
            ids = ids.to(model.device)
            with torch.no_grad():
                out = model.generate(
                    input_ids=ids, attention_mask=(ids != 1).long(), generation_config=config
                )
            summaries.extend(out.cpu().tolist())
        words = sum(len(s) for s in summaries)
        print(f"{name}: {len(summaries)} summaries, {words} tokens, {time.time() - start:.1f} s")
    if torch.cuda.is_available():
        print(f"peak {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
