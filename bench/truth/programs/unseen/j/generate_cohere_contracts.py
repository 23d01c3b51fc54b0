"""Read long contracts (6k tokens) and answer greedily with a Command-R-like model in bf16."""

import time

import torch
from transformers import CohereConfig, CohereForCausalLM

VOCAB = 256000
HIDDEN = 2560
LAYERS = 20
HEADS = 20
KV_HEADS = 4
FFN = 6912
PROMPT = 6144
NEW = 64
BATCHES = [2, 4, 6]

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def load():
    config = CohereConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=FFN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=PROMPT + NEW,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with device:
            model = CohereForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    return model.eval()


def contracts(n, generator):
    """Left-padded token ids and their mask."""
    ids = torch.randint(3, VOCAB, (n, PROMPT), generator=generator)
    mask = torch.ones_like(ids)
    for row in range(1, n):
        gap = int(torch.randint(0, PROMPT // 3, (1,), generator=generator))
        ids[row, :gap] = 0
        mask[row, :gap] = 0
    return ids.to(device), mask.to(device)


@torch.inference_mode()
def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(42)
    model = load()
    print(f"{model.num_parameters() / 1e9:.2f}B parameters")
    for n in BATCHES:
        ids, mask = contracts(n, gen)
        t0 = time.perf_counter()
        answer = model.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=False,
            max_new_tokens=NEW,
            min_new_tokens=NEW,
        )
        took = time.perf_counter() - t0
        print(f"batch {n}: {answer.shape[1] - PROMPT} new tokens in {took:.1f} s")


if __name__ == "__main__":
    main()
