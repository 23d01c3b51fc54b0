"""torch.compile around an OLMo language model: bf16 autocast, micro-batches of one fixed shape, SWA-style weight average, a validation pass."""

import time

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import OlmoConfig, OlmoForCausalLM


class Options:
    vocab = 50304
    width = 1024
    layers = 10
    context = 768
    micro = 8
    accumulate = 3
    updates = 12
    lr = 4e-4


def windows(stream, n, generator):
    starts = torch.randint(0, len(stream) - Options.context, (n,), generator=generator)
    return torch.stack([stream[s : s + Options.context] for s in starts])


def main():
    o = Options
    torch.manual_seed(3)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = OlmoConfig(
        vocab_size=o.vocab,
        hidden_size=o.width,
        intermediate_size=4 * o.width,
        num_hidden_layers=o.layers,
        num_attention_heads=16,
        max_position_embeddings=o.context,
        tie_word_embeddings=True,
        use_cache=False,
    )
    model = OlmoForCausalLM(config).to(device)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.95))
    step_model = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=o.lr, weight_decay=0.1, foreach=True)
    g = torch.Generator().manual_seed(8)
    stream = torch.randint(0, o.vocab, (300_000,), generator=g)
    clock = time.time()
    for update in range(o.updates):
        total = 0.0
        for _ in range(o.accumulate):
            ids = windows(stream, o.micro, g).to(device)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = step_model(input_ids=ids, labels=ids).loss / o.accumulate
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        average.update_parameters(model)
        if update % 4 == 0:
            print(f"update {update} loss {total:.4f} after {time.time() - clock:.1f} s")

    average.eval()
    with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16):
        ids = windows(stream, o.micro, g).to(device)
        print("averaged weights:", average(input_ids=ids, labels=ids).loss.item())


if __name__ == "__main__":
    main()
