"""Sample several answers per prompt from a Phi-3-mini sized decoder (self-consistency), left-padded batches."""

import argparse
import collections
import json
import time

import torch
from transformers import GenerationConfig, Phi3Config, Phi3ForCausalLM


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--hidden", type=int, default=3072)
    p.add_argument("--layers", type=int, default=32)
    p.add_argument("--intermediate", type=int, default=8192)
    p.add_argument("--prompts", type=int, default=12)
    p.add_argument("--batch", type=int, default=6)
    p.add_argument("--samples", type=int, default=4)
    p.add_argument("--prompt_len", type=int, default=400)
    p.add_argument("--new_tokens", type=int, default=80)
    p.add_argument("--temperature", type=float, default=0.8)
    return p.parse_args()


def make_prompts(n, longest, pad, device):
    g = torch.Generator().manual_seed(0)
    ids = torch.randint(3, 32000, (n, longest), generator=g)
    lengths = torch.randint(longest // 2, longest + 1, (n,), generator=g)
    mask = (torch.arange(longest)[None] >= longest - lengths[:, None]).long()
    return ids.masked_fill(mask == 0, pad).to(device), mask.to(device)


@torch.inference_mode()
def main():
    a = parse()
    torch.manual_seed(1234)
    device = torch.device("cuda")
    config = Phi3Config(
        vocab_size=32064,
        hidden_size=a.hidden,
        intermediate_size=a.intermediate,
        num_hidden_layers=a.layers,
        num_attention_heads=32,
        num_key_value_heads=32,
        max_position_embeddings=4096,
        original_max_position_embeddings=4096,
        pad_token_id=32000,
        eos_token_id=32007,
        bos_token_id=1,
    )
    began = time.time()
    torch.set_default_dtype(torch.bfloat16)
    with device:
        model = Phi3ForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    model.eval()
    print(f"{model.num_parameters() / 1e9:.2f}B parameters in {time.time() - began:.1f}s")

    sampling = GenerationConfig(
        do_sample=True,
        temperature=a.temperature,
        top_p=0.95,
        top_k=50,
        num_return_sequences=a.samples,
        max_new_tokens=a.new_tokens,
        repetition_penalty=1.05,
        pad_token_id=32000,
        eos_token_id=32007,
    )
    ids, mask = make_prompts(a.prompts, a.prompt_len, 32000, device)
    answers = []
    for start in range(0, a.prompts, a.batch):
        rows = slice(start, start + a.batch)
        began = time.time()
        out = model.generate(
            input_ids=ids[rows], attention_mask=mask[rows], generation_config=sampling
        )
        new = out[:, a.prompt_len :].view(-1, a.samples, out.size(1) - a.prompt_len)
        took = time.time() - began
        print(f"prompts {start}..{start + len(new) - 1}: {new.numel() / took:.0f} tokens/s")
        for question in new.cpu():
            # the vote: the most common last token
            votes = collections.Counter(int(sample[-1]) for sample in question)
            answers.append(
                {
                    "vote": votes.most_common(1)[0][0],
                    "lengths": [(s != 32000).sum().item() for s in question],
                }
            )
    with open("phi3_answers.json", "w") as f:
        json.dump(answers, f, indent=1)
    if torch.cuda.is_available():
        print(f"peak {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
