"""Answer requests with a 7B Mistral in bf16: one long prompt, then a batch of chats, logits kept for scoring."""

import argparse
import math

import torch
from transformers import AutoConfig, AutoModelForCausalLM, MistralConfig


def load(args, device):
    config = MistralConfig(
        vocab_size=32768,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 7 // 2,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 128,
        num_key_value_heads=max(1, args.hidden // 512),
        max_position_embeddings=8192,
        sliding_window=None,
    )
    print(f"building {AutoConfig.for_model('mistral').model_type} with {args.layers} layers")
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.eval()
    return model


@torch.no_grad()
def score(model, tokens):
    """Mean log-likelihood of every row, from the logits of all positions."""
    logits = model(input_ids=tokens, use_cache=False).logits[:, :-1]
    logprobs = torch.log_softmax(logits.float(), dim=-1)
    picked = logprobs.gather(-1, tokens[:, 1:, None]).squeeze(-1)
    return picked.mean(1)


@torch.no_grad()
def chat(model, prompts, new_tokens):
    return model.generate(
        input_ids=prompts,
        attention_mask=torch.ones_like(prompts),
        max_new_tokens=new_tokens,
        do_sample=False,
        pad_token_id=0,
        eos_token_id=None,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--chats", type=int, default=16)
    parser.add_argument("--chat-prompt", type=int, default=256)
    parser.add_argument("--new-tokens", type=int, default=64)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = load(args, device)
    total = sum(p.numel() * p.element_size() for p in model.parameters())
    print(f"weights: {total / 2**30:.2f} GiB")
    vocab = model.config.vocab_size
    document = torch.randint(10, vocab, (1, args.context), device=device)
    likelihood = score(model, document)
    print(f"perplexity of the document {math.exp(-likelihood.mean().item()):.1f}")
    answer = chat(model, document, args.new_tokens)
    print("summary:", answer[0, args.context : args.context + 8].tolist())
    prompts = torch.randint(10, vocab, (args.chats, args.chat_prompt), device=device)
    answers = chat(model, prompts, args.new_tokens)
    print(f"{answers.shape[0]} chats, {answers.shape[1]} tokens each")
    ranks = score(model, answers).argsort(descending=True)
    print("best answer:", ranks[0].item())


if __name__ == "__main__":
    main()
