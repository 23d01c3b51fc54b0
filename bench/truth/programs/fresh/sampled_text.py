"""Text sampled from a causal model in batches, prompts padded on the left, with a static cache at the end."""

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

torch.manual_seed(0)
config = Qwen2Config(
    vocab_size=60000,
    hidden_size=768,
    intermediate_size=2304,
    num_hidden_layers=12,
    num_attention_heads=12,
    num_key_value_heads=4,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)
model = Qwen2ForCausalLM(config).to(dtype=torch.bfloat16, device="cuda").eval()
for size in (16, 48):
    lengths = torch.randint(40, 200, (size,))
    ids = torch.zeros(size, int(lengths.max()), dtype=torch.long)
    for i, n in enumerate(lengths.tolist()):
        ids[i, -n:] = torch.randint(3, 60000, (n,))
    mask = (ids != 0).long()
    out = model.generate(
        ids.cuda(),
        attention_mask=mask.cuda(),
        do_sample=True,
        top_p=0.9,
        top_k=50,
        max_new_tokens=64,
    )
    print(size, tuple(out.shape))
with torch.no_grad():
    scores = torch.log_softmax(model(out[:8]).logits.float(), -1)
    print(scores.gather(-1, out[:8, :, None]).mean().item())
