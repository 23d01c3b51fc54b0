"""Candidate replies from a Blenderbot-1B-distill sized model by beam search, for each of some dialogues."""

import logging
import time

import torch
from transformers import BlenderbotConfig, BlenderbotForConditionalGeneration

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")

device = "cuda"
dialogues = 64
batch_size = 24
context = 128
beams = 6
keep = 3
max_reply = 40
vocab = 8008
shape = dict(
    d_model=2560,
    encoder_layers=2,
    decoder_layers=12,
    encoder_ffn_dim=10240,
    decoder_ffn_dim=10240,
    encoder_attention_heads=32,
    decoder_attention_heads=32,
)


def load():
    config = BlenderbotConfig(
        vocab_size=vocab, scale_embedding=True, encoder_no_repeat_ngram_size=0, **shape
    )
    with torch.device(device):
        model = BlenderbotForConditionalGeneration(config)
    return model.to(torch.float16).eval()


def make_contexts():
    ids = torch.randint(4, vocab, (dialogues, context))
    mask = torch.ones_like(ids)
    for row in range(dialogues):
        n = int(torch.randint(20, context + 1, ()))
        ids[row, n:] = 0
        mask[row, n:] = 0
    return ids, mask


def main():
    model = load()
    logging.info("%.2fB parameters on %s", model.num_parameters() / 1e9, device)
    ids, mask = make_contexts()
    replies = []
    for start in range(0, dialogues, batch_size):
        chunk, chunk_mask = (
            ids[start : start + batch_size].to(device),
            mask[start : start + batch_size].to(device),
        )
        began = time.time()
        with torch.inference_mode():
            out = model.generate(
                chunk,
                attention_mask=chunk_mask,
                num_beams=beams,
                num_return_sequences=keep,
                length_penalty=0.65,
                no_repeat_ngram_size=3,
                min_new_tokens=20,
                max_new_tokens=max_reply,
                early_stopping=True,
            )
        out = out.view(len(chunk), keep, -1).cpu()
        replies.extend(out.tolist())
        logging.info(
            "%d dialogues in %.1f s, replies of %d tokens",
            len(chunk),
            time.time() - began,
            out.shape[-1],
        )
    torch.save(replies, "replies.pt")
    logging.info("peak %.2f GiB", torch.cuda.max_memory_allocated() / 2**30)


if __name__ == "__main__":
    main()
