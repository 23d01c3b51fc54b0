"""A chat session with a 3B Qwen2: the cache is kept between turns, sampling by generate(), history trimmed."""

import argparse
import random
import time

import torch
from transformers import DynamicCache, Qwen2Config, Qwen2ForCausalLM

SYSTEM, USER, ASSISTANT, END = 151644, 872, 77091, 151645


def build(args):
    config = Qwen2Config(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=int(args.hidden * 5.375),
        num_hidden_layers=args.layers,
        num_attention_heads=16,
        num_key_value_heads=2,
        max_position_embeddings=32768,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=min(END, args.vocab - 1),
    )
    with torch.device(args.device):
        model = Qwen2ForCausalLM._from_config(config, dtype=torch.bfloat16)
    return model.eval()


def user_message(rnd, vocab, turn):
    n = rnd.randint(30, 200)
    if turn % 4 == 2:
        n = 1500  # somebody pastes a document
    return [rnd.randrange(1000, vocab - 1000) for _ in range(n)]


@torch.inference_mode()
def reply(model, ids, cache, args):
    t = torch.tensor([ids], device=args.device)
    out = model.generate(
        input_ids=t,
        attention_mask=torch.ones_like(t),
        past_key_values=cache,
        max_new_tokens=args.max_new_tokens,
        do_sample=True,
        temperature=0.7,
        top_p=0.8,
        top_k=20,
        repetition_penalty=1.05,
        pad_token_id=0,
    )
    return out[0, len(ids) :].tolist()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--hidden", type=int, default=2048)
    p.add_argument("--layers", type=int, default=36)
    p.add_argument("--vocab", type=int, default=151936)
    p.add_argument("--turns", type=int, default=6)
    p.add_argument("--max_new_tokens", type=int, default=160)
    p.add_argument("--max_history", type=int, default=4096)
    args = p.parse_args()

    torch.manual_seed(0)
    rnd = random.Random(0)
    model = build(args)
    last = args.vocab - 1
    system = (
        [min(SYSTEM, last)]
        + [rnd.randrange(1000, args.vocab - 1000) for _ in range(400)]
        + [min(END, last)]
    )
    history = list(system)
    cache = DynamicCache(config=model.config)
    for turn in range(args.turns):
        message = user_message(rnd, args.vocab, turn)
        history += [min(USER, last)] + message + [min(END, last), min(ASSISTANT, last)]
        if len(history) > args.max_history:
            # keep the system prompt and the newest part; the cache has to be built again
            history = system + history[-(args.max_history // 2) :]
            cache = DynamicCache(config=model.config)
            print("  (history trimmed)")
        start = time.perf_counter()
        answer = reply(model, history, cache, args)
        seconds = time.perf_counter() - start
        history += answer
        print(
            f"turn {turn}: context {len(history) - len(answer)}, {len(answer)} new tokens, "
            f"{len(answer) / seconds:.1f} tok/s, cache {cache.get_seq_length()}"
        )
    if args.device == "cuda":
        print(f"peak memory {torch.cuda.max_memory_allocated() / 1024**3:.2f} GiB")


if __name__ == "__main__":
    main()
