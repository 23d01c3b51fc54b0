"""Texts that a program generates: the tokens it may read, the masks, and the requests of sampling."""

import unittest
from types import SimpleNamespace

import torch
import transformers

from tracing.watching import rows_of, watched

from plimsoll_trace import small_values
from plimsoll_trace.programs.observer import NOTE, Texts

SAMPLED = """
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

config = Qwen2Config(
    vocab_size=999, hidden_size=32, intermediate_size=64, num_hidden_layers=1,
    num_attention_heads=4, num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)
model = Qwen2ForCausalLM(config).cuda().eval()
prompts = torch.randint(3, 999, (4, 8))
padded = prompts.clone()
padded[0, :3] = 0
for ids in (prompts, padded):
    text = model.generate(
        ids.cuda(), attention_mask=(ids != 0).long().cuda(), do_sample=True, top_p=0.9, max_new_tokens=7
    )
    assert text.shape == (4, 15)
    assert not (text[:, 8:] == 2).any() and (text[:, 8:] != 0).all()
    assert torch.equal(text[:, :8].cpu(), ids)
    assert len(set(text[0, 8:].tolist())) == 7
    words = [row[row != 0].tolist() for row in text]
    assert [len(row) for row in words] == [15 - int((row == 0).sum()) for row in ids]
places = torch.as_tensor([[5, 6], [7, 8]], device="cuda")
assert places[[1, 0]].tolist() == [[7, 8], [5, 6]]
assert places[:, [1]].tolist() == [[6], [8]]
with torch.device("cuda"):
    assert places[[True, False]].tolist() == [[5, 6]]
"""
COMPARED = """
import torch
from plimsoll_trace.programs.passes import tokens
from transformers import LlamaConfig, LlamaForCausalLM

asked, alike = [], tokens._Token.alike
tokens._Token.alike = lambda one, other: asked.append(one.number) or alike(one, other)
config = LlamaConfig(
    vocab_size=999, hidden_size=32, intermediate_size=64, num_hidden_layers=1,
    num_attention_heads=4, num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)
model = LlamaForCausalLM(config).cuda().eval()
text = model.generate(torch.randint(3, 999, (2, 8)).cuda(), max_new_tokens=40)
assert text.shape == (2, 48)
assert len(asked) == len(set(asked)) < 10, asked
"""
BEAMS = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=999, hidden_size=32, intermediate_size=64, num_hidden_layers=1,
    num_attention_heads=4, num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)
model = LlamaForCausalLM(config).cuda().eval()
prompts = torch.randint(3, 999, (2, 8))
for sampled in (False, True):
    made = model.generate(
        prompts.cuda(), num_beams=3, num_return_sequences=2, max_new_tokens=7, do_sample=sampled,
        return_dict_in_generate=True, output_scores=True,
    )
    assert made.sequences.shape == (4, 15) and made.beam_indices.shape == (4, 7)
    assert torch.equal(made.sequences[::2, :8].cpu(), prompts)
    assert not (made.sequences[:, 8:] < 3).any()
    first, second = made.sequences_scores[:2].tolist()
    assert 0 > first >= second
"""
# As people write it by hand: each of these ends the loop once all texts have ended.
BY_HAND = """
import torch

head = torch.nn.Linear(32, 999).cuda()
state = torch.zeros(4, 32, device="cuda")


def sample():
    best, places = head(state).topk(50)
    return places.gather(-1, torch.multinomial(best.softmax(-1), 1)).squeeze(1)


def turns(over):
    for turn in range(1, 9):
        if over(sample()):
            break
    return turn


done = torch.zeros(4, dtype=torch.bool, device="cuda")
going = torch.ones(4, dtype=torch.bool, device="cuda")


def all_done(tokens):
    global done
    done |= tokens == 2
    return done.all()


def none_goes_on(tokens):
    global going
    going = going & (tokens != 2)
    return not going.any()


assert turns(lambda tokens: (tokens == 2).all()) == 8
assert turns(all_done) == 8 and turns(none_goes_on) == 8
assert turns(lambda tokens: not (tokens != 2).any(dim=0)) == 8
assert turns(lambda tokens: tokens[0] == 2) == 8
# What must hold of all values holds, and what is known stays known.
assert (head(state) < 9).all() and not torch.isnan(state).any()
assert (torch.full((3,), 2, device="cuda") == 2).all()
"""

LONG = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from plimsoll_trace.programs.passes import tokens

tokens._RUN_FIRST = TOKENS
config = LlamaConfig(
    vocab_size=999, hidden_size=64, intermediate_size=64, num_hidden_layers=2, max_position_embeddings=1024,
    num_attention_heads=4, num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)
model = LlamaForCausalLM(config).cuda().eval()
runs = []
model.model.embed_tokens.register_forward_hook(lambda *_: runs.append(1))
model.generate(torch.randint(3, 999, (2, 8)).cuda(), max_new_tokens=300, do_sample=False)
torch.empty(len(runs), 7, 11, 13, device="cuda")
"""

# One of its two layers sees 40 positions back: it grows until then.
WINDOW = (
    LONG.replace("Llama", "Gemma2")
    .replace("hidden_size=64", "hidden_size=64, head_dim=16, sliding_window=40", 1)
    .replace("max_new_tokens=300", "max_new_tokens=100")
)

# Of three texts, the second grows like the first, and the third by more, since it is written for more prompts.
TEXTS = LONG.replace(
    "model.generate(torch.randint(3, 999, (2, 8)).cuda(), max_new_tokens=300, do_sample=False)",
    """
for prompts in ((2, 8), (2, 21), (3, 8)):
    model.generate(torch.randint(3, 999, prompts).cuda(), max_new_tokens=150, do_sample=False)
    counts.append(len(runs) - sum(counts))
assert TOKENS == 1000 or counts == [8, 4, 8], counts
""",
).replace("runs = []", "runs, counts = [], []")

# What each layer gave out is kept for all tokens.
LAYERS = (
    LONG.replace("max_new_tokens=300", "max_new_tokens=100")
    .replace(
        "do_sample=False",
        "do_sample=False, output_hidden_states=True, return_dict_in_generate=True",
    )
    .replace("model.generate(", "made = model.generate(")
    .replace(
        "torch.empty(len(runs)",
        """
assert [len(layers) for layers in made.hidden_states] == [3] * 100
assert all(layer.shape == (2, 1, 64) for layers in made.hidden_states[1:] for layer in layers)
torch.empty(len(runs)""",
    )
)

# It says two words ahead, and gives out the logits of both.
AHEAD = """
import torch
from transformers import ProphetNetConfig, ProphetNetForConditionalGeneration
from plimsoll_trace.programs.passes import tokens

tokens._RUN_FIRST = TOKENS
config = ProphetNetConfig(
    vocab_size=99, hidden_size=32, encoder_ffn_dim=32, decoder_ffn_dim=32, num_encoder_layers=1,
    num_decoder_layers=1, num_encoder_attention_heads=2, num_decoder_attention_heads=2, eos_token_id=2,
)
model = ProphetNetForConditionalGeneration(config).cuda().eval()
runs = []
model.prophetnet.decoder.register_forward_hook(lambda *_: runs.append(1))
ids = torch.randint(3, 99, (2, 8)).cuda()
model.generate(ids, max_new_tokens=100, do_sample=False, num_beams=2)
torch.empty(len(runs), 7, 11, 13, device="cuda")
"""


def asked(test, program, first):
    """The sizes of all requests where so many tokens are run first, and how many of them were run."""
    rows = rows_of(test, program.replace("TOKENS", str(first)))
    sizes = [row[2] for row in rows if isinstance(row, list) and row[0] == "a"]
    return sizes[:-1], sizes[-1] // (7 * 11 * 13 * 4)


class GeneratedTexts(unittest.TestCase):
    def test_texts_that_are_sampled_by_hand_do_not_end_at_once(self):
        rows_of(self, BY_HAND)

    def test_a_text_runs_to_its_last_length_and_its_tokens_can_be_read(self):
        rows = rows_of(self, SAMPLED)
        self.assertIn(NOTE, rows[-1]["notes"])
        self.assertGreater(rows[-1]["maybeLessBytes"], 0)
        names = {row[1]: row[2] for row in rows if isinstance(row, list) and row[0] == "s"}
        asked = [names[row[3]] for row in rows if isinstance(row, list) and row[0] == "a"]
        # Sorted for each token of both texts; a mask is only made where a prompt is shorter.
        self.assertEqual(asked.count("aten.sort.default"), 2 * 7 * 3)
        self.assertEqual(asked.count("aten.multinomial.default"), 2 * 7 * 2)

    def test_two_tokens_are_compared_once(self):
        rows_of(self, COMPARED)

    def test_beams_go_on_to_their_last_length_and_keep_the_prompt(self):
        rows_of(self, BEAMS)

    def test_tokens_that_are_not_run_ask_for_what_they_would_ask_for(self):
        all_sizes, all_runs = asked(self, LONG, 1000)
        sizes, runs = asked(self, LONG, 4)
        self.assertEqual((all_runs, runs), (300, 9))
        self.assertEqual(sizes, all_sizes)

    def test_fewer_tokens_are_run_in_a_text_that_grows_like_the_last_one(self):
        all_sizes, all_runs = asked(self, TEXTS, 1000)
        sizes, runs = asked(self, TEXTS, 4)
        self.assertEqual((all_runs, runs), (450, 20))
        self.assertEqual(sizes, all_sizes)

    def test_tokens_are_not_run_once_a_window_is_full(self):
        all_sizes, all_runs = asked(self, WINDOW, 1000)
        sizes, runs = asked(self, WINDOW, 4)
        self.assertEqual(all_runs, 100)
        self.assertLess(runs, 12)
        self.assertEqual(sizes, all_sizes)

    def test_tokens_that_are_not_run_leave_what_layers_gave_out(self):
        all_sizes, all_runs = asked(self, LAYERS, 1000)
        sizes, runs = asked(self, LAYERS, 4)
        self.assertEqual(all_runs, 100)
        self.assertLess(runs, 12)
        self.assertEqual(sizes, all_sizes)

    def test_tokens_that_are_not_run_leave_all_logits(self):
        all_sizes, all_runs = asked(self, AHEAD, 1000)
        sizes, runs = asked(self, AHEAD, 4)
        self.assertEqual(all_runs, 100)
        self.assertLess(runs, 12)
        self.assertEqual(sizes, all_sizes)

    def test_only_words_are_chosen_and_experts_stay_unknown(self):
        model = SimpleNamespace(config=SimpleNamespace(vocab_size=999))
        texts = Texts(None)

        def chosen(scored):
            scores = torch.empty(4, scored, device="meta")
            best = scores.argmax(-1)
            texts.follow(torch.ops.aten.argmax.default, (scores, -1), best)
            return small_values.value_of(best)

        self.assertIsNone(chosen(999))
        with texts.generated_by(model):
            self.assertIsNone(chosen(64))
            words = chosen(999).tolist()
        self.assertEqual(len(set(words)), 4)
        self.assertTrue(all(333 <= word < 666 for word in words), words)
        self.assertIsNone(chosen(999))

    def test_what_is_known_to_be_among_others_stays_known(self):
        among = torch.ops.aten.isin.Tensor_Tensor
        found = torch.empty(3, dtype=torch.bool, device="meta")
        Texts(None).follow(among, (), found)
        self.assertEqual(small_values.value_of(found).tolist(), [False, False, False])
        small_values.remember(found, torch.tensor([True, False, True]))
        Texts(None).follow(among, (), found)
        self.assertEqual(small_values.value_of(found).tolist(), [True, False, True])


# Left out for sure, unless the trace says otherwise.
SURELY = 1.0
LAYERDROP_LAYERS = 3
TEXT = {
    "d_model": 32,
    "encoder_layers": LAYERDROP_LAYERS,
    "decoder_layers": LAYERDROP_LAYERS,
    "vocab_size": 100,
}
HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
SPEECH = {
    "hidden_size": 32,
    "num_hidden_layers": LAYERDROP_LAYERS,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "conv_dim": [32] * 7,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}
SEAMLESS = {
    "hidden_size": 32,
    "feature_projection_input_dim": 32,
    "speech_encoder_layers": LAYERDROP_LAYERS,
    "speech_encoder_attention_heads": 2,
    "speech_encoder_intermediate_size": 64,
}


def words(model):
    return model(input_ids=torch.zeros(2, 8, dtype=torch.long, device="meta"))


def sound(model):
    return model(torch.zeros(2, 16000, device="meta"))


def frames(model):
    return model.speech_encoder(torch.zeros(2, 16, 32, device="meta"))


# By model: its config, where the chance stands in it, what is run, and the layers of that.
MODELS = {
    "OPTModel": (
        {
            "hidden_size": 32,
            "num_hidden_layers": LAYERDROP_LAYERS,
            "num_attention_heads": 2,
            "ffn_dim": 64,
            "vocab_size": 100,
            "word_embed_proj_dim": 32,
        },
        ["layerdrop"],
        words,
        "decoder.layers",
    ),
    "BartModel": (
        {**TEXT, **HEADS, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64},
        ["encoder_layerdrop", "decoder_layerdrop"],
        words,
        "encoder.layers",
    ),
    "HubertModel": (SPEECH, ["layerdrop"], sound, "encoder.layers"),
    "SeamlessM4TModel": (
        SEAMLESS,
        ["speech_encoder_layerdrop"],
        frames,
        "speech_encoder.encoder.layers",
    ),
}


def run(name, chance, training):
    """The observer, and how many layers of the model were run in one pass."""
    values, names, forward, layers = MODELS[name]
    kind = getattr(transformers, name)
    config = kind.config_class(**values, **dict.fromkeys(names, chance))
    seen = []
    with watched() as observer:
        with torch.device("meta"):
            model = kind._from_config(config)
        model.train(training)
        for layer in model.get_submodule(layers):
            layer.register_forward_hook(lambda *_: seen.append(1))
        forward(model)
    return observer, len(seen)


class Layerdrop(unittest.TestCase):
    def test_all_layers_are_run_and_it_is_told(self):
        for name in MODELS:
            with self.subTest(name):
                observer, layers = run(name, SURELY, training=True)
                self.assertEqual(layers, LAYERDROP_LAYERS)
                self.assertTrue(observer.facts.skips_layers)
                self.assertTrue(any("layerdrop" in note for note in observer.notes))

    def test_nothing_is_told_where_none_is_left_out(self):
        for name, chance, training in (("HubertModel", 0.0, True), ("HubertModel", SURELY, False)):
            with self.subTest(chance=chance, training=training):
                observer, layers = run(name, chance, training)
                self.assertEqual(layers, LAYERDROP_LAYERS)
                self.assertFalse(observer.facts.skips_layers)
                self.assertEqual(observer.notes, set())

    def test_other_single_numbers_are_drawn(self):
        torch.manual_seed(3)
        expected = torch.rand([])
        torch.manual_seed(3)
        with watched() as observer:
            self.assertEqual(torch.rand([]), expected)
        self.assertFalse(observer.facts.skips_layers)

    def test_a_program_leaves_out_what_its_own_seed_says(self):
        end = rows_of(self, PROGRAM)[-1]
        self.assertTrue(end["skipsLayers"])
        self.assertTrue(any("another seed" in note for note in end["notes"]), end["notes"])


PROGRAM = """
import torch, transformers
torch.manual_seed(0)
config = transformers.OPTConfig(hidden_size=32, num_hidden_layers=4, num_attention_heads=2, ffn_dim=64,
                                vocab_size=100, word_embed_proj_dim=32, layerdrop=0.5)
model = transformers.OPTForCausalLM(config).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    ids = torch.randint(0, 100, (2, 16), device="cuda")
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


if __name__ == "__main__":
    unittest.main()
