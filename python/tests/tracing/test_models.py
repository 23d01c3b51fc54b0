"""Models of transformers: the class of a config, its batch and loss; and values of meta tensors."""

import argparse
import json
import os
import tempfile
import unittest

import torch
import transformers

from tracing import watching

from plimsoll.failure import Failure
from plimsoll_trace import ledger as kinds
from plimsoll_trace import quantized, small_values
from plimsoll_trace.assumed.chosen import NOTE
from plimsoll_trace.options import parse
from plimsoll_trace.programs.parameters import on_meta
from plimsoll_trace.programs.places import Places
from plimsoll_trace.quantized import eight_bits, four_bits
from plimsoll_trace.record import record
from plimsoll_trace.sources import hugging_face
from plimsoll_trace.sources.batches import batch_for, target_notes
from plimsoll_trace.sources.vision import full_name
from plimsoll_trace.workload import Settings

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 100,
}
# The classes that are usually trained, as the formulas take them too.
USUAL = {
    "llama": "LlamaForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "gemma3_text": "Gemma3ForCausalLM",
    "gemma3": "Gemma3ForConditionalGeneration",
    "bert": "BertForMaskedLM",
    "roberta": "RobertaForMaskedLM",
    "distilbert": "DistilBertForMaskedLM",
    "t5": "T5ForConditionalGeneration",
    "bart": "BartForConditionalGeneration",
    "vit": "ViTForImageClassification",
    "swin": "SwinForImageClassification",
    "convnext": "ConvNextForImageClassification",
    "whisper": "WhisperForConditionalGeneration",
    "wav2vec2": "Wav2Vec2ForCTC",
    "clip": "CLIPModel",
}


def built(architecture, kind="bert", more=None, **values):
    config = {"model_type": kind, "architectures": [architecture], **SMALL, **(more or {})}
    return hugging_face.build(config, settings(**values))


class Classes(unittest.TestCase):
    def test_a_config_without_a_class_stands_for_the_one_usually_trained(self):
        for kind, name in USUAL.items():
            with self.subTest(kind):
                config = transformers.AutoConfig.for_model(kind)
                found, notes = hugging_face.choose(transformers, config, {})
                self.assertEqual(found.__name__, name)
                self.assertIn(name, notes[0])

    def test_a_class_that_is_named_is_taken(self):
        config = transformers.AutoConfig.for_model("bert")
        named = {"architectures": ["NoSuchModel", "BertForTokenClassification"]}
        found, notes = hugging_face.choose(transformers, config, named)
        self.assertEqual((found.__name__, notes), ("BertForTokenClassification", []))


class Builds(unittest.TestCase):
    def test_the_precision_asked_for_counts_and_not_the_configs(self):
        with watching.watched():
            model, _ = built("BertForMaskedLM", more={"torch_dtype": "float16"}, precision="fp32")
        self.assertEqual({p.dtype for p in model.parameters()}, {torch.float32})

    def test_quantization_of_the_config_is_left_out_and_told(self):
        with watching.watched():
            _, notes = built(
                "BertForMaskedLM", more={"quantization_config": {"quant_method": "awq"}}
            )
        self.assertIn("quantization", notes[0])

    def test_a_model_without_a_head_has_nothing_to_train(self):
        with watching.watched(), self.assertRaises(Failure) as caught:
            model, _ = built("BertModel")
            hugging_face.usual_forward(settings())(model, batch_for(model, settings()))
        self.assertEqual(caught.exception.code, "no-loss")

    def test_each_head_gets_its_labels(self):
        shapes = {
            "BertForMaskedLM": {"labels": (3, 8)},
            "BertForSequenceClassification": {"labels": (3,)},
            "BertForTokenClassification": {"labels": (3, 8)},
            "BertForQuestionAnswering": {"start_positions": (3,), "end_positions": (3,)},
            "BertForMultipleChoice": {"labels": (3,)},
            "BertForPreTraining": {"labels": (3, 8), "next_sentence_label": (3,)},
        }
        for name, wanted in shapes.items():
            with self.subTest(name), watching.watched():
                model, _ = built(name)
                batch = batch_for(model, settings(batch=3))
                given = {k: tuple(v.shape) for k, v in batch.items() if k != "input_ids"}
                self.assertEqual(given, wanted)
                self.assertEqual(hugging_face.usual_forward(settings())(model, batch).numel(), 1)

    def test_classifiers_of_language_models_get_a_padding_token(self):
        with watching.watched():
            model, _ = built("LlamaForSequenceClassification", "llama")
            batch = batch_for(model, settings(batch=3))
            self.assertEqual(model(**batch).loss.numel(), 1)

    def test_transcripts_are_learned_too(self):
        small = {"conv_dim": [32] * 7, "num_feat_extract_layers": 7, "num_conv_pos_embeddings": 16}
        with watching.watched():
            model, _ = built(
                "Wav2Vec2ForCTC", "wav2vec2", {**small, "num_conv_pos_embedding_groups": 2}
            )
            self.assertEqual({p.device.type for p in model.parameters()}, {"meta"})
            loss = hugging_face.usual_forward(settings())(
                model, batch_for(model, settings(seq=16000))
            )
            loss.backward()
            self.assertIsNotNone(model.lm_head.weight.grad)

    def test_a_decoder_beside_an_encoder_of_sound_gets_the_transcript(self):
        layers = {f"{part}_num_hidden_layers": 1 for part in ("encoder", "decoder")}
        with watching.watched():
            model, _ = built("MoonshineForConditionalGeneration", "moonshine", layers)
            for asked, tokens in ((0, 16), (5, 5)):
                wanted = settings(batch=3, seq=16000, target_seq=asked)
                batch = batch_for(model, wanted)
                self.assertEqual(batch["labels"].shape, (3, tokens))
                self.assertEqual(hugging_face.usual_forward(wanted)(model, batch).numel(), 1)
                notes = target_notes(model, wanted)
                self.assertEqual([("samples" in note) for note in notes], [] if asked else [True])


class Vision(unittest.TestCase):
    known = ("resnet50", "mobilenet_v3_large", "mobilenet_v3_small", "efficientnet_b4")

    def test_names_are_found_however_they_are_joined(self):
        for name, wanted in {
            "ResNet-50": "resnet50",
            "efficientnet-b4": "efficientnet_b4",
            "mobilenet_v3": "mobilenet_v3_large",
        }.items():
            self.assertEqual(full_name(name, self.known), wanted)

    def test_a_name_that_there_is_counts_as_it_is_written(self):
        known = ["regnet_y_16gf", "regnet_y_1_6gf"]
        for name in known:
            self.assertEqual(full_name(name, known), name)

    def test_near_names_are_suggested(self):
        with self.assertRaises(Failure) as caught:
            full_name("resnet51", self.known)
        self.assertIn("resnet50", caught.exception.next_step)


# Layers in 8 and 4 bits: what their weights take, and what exists only while they run.

CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
}
LINEAR = 2 * (4 * 256 * 256 + 3 * 256 * 512)


def settings(**values):
    usual = {
        "mode": "train",
        "batch": 1,
        "seq": 8,
        "image": 0,
        "precision": "bf16",
        "optimizer": "adamw",
        "checkpointing": False,
        "lora": 0,
        "steps": 1,
    }
    return Settings(**{**usual, **values})


def layer():
    with torch.device("meta"):
        return torch.nn.Linear(256, 512, bias=False, dtype=torch.bfloat16)


def kept(module):
    return sorted(t.numel() * t.element_size() for t in [*module.parameters(), *module.buffers()])


class Layers(unittest.TestCase):
    def test_four_bits_take_half_a_byte_and_a_scale_for_each_64(self):
        self.assertEqual(
            kept(four_bits(layer(), torch.bfloat16, False)), sorted([65536, 2048 * 4, 16 * 4])
        )

    def test_scales_can_be_packed_themselves(self):
        sizes = kept(four_bits(layer(), torch.bfloat16, True))
        self.assertEqual(sizes, sorted([65536, 2048, 8 * 4, 16 * 4, 256 * 4, 4]))

    def test_eight_bits_keep_a_scale_for_each_row(self):
        self.assertEqual(kept(eight_bits(layer())), sorted([131072, 512 * 4]))

    def test_the_whole_weight_exists_while_it_is_multiplied(self):
        with watching.watched() as observer:
            four = four_bits(layer(), torch.bfloat16, False)
            x = torch.empty(8, 256, dtype=torch.bfloat16, device="meta", requires_grad=True)
            asked = watching.Asked(observer)
            with torch.no_grad():
                four(x)
            self.assertEqual(asked.sizes(), [512 * 256 * 2, 8 * 512 * 2])
            out = four(x)
            asked.sizes()
            grad = torch.empty_like(out)
            asked.sizes()
            out.backward(grad)
            self.assertEqual(max(asked.sizes()), 512 * 256 * 2)


class Models(unittest.TestCase):
    def trace(self, **values):
        usual = {
            **vars(parse(["--script=none"])),
            "script": None,
            "batch": 2,
            "seq": 16,
            "precision": "bf16",
            "optimizer": "adamw",
            "steps": 1,
        }
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(CONFIG, file)
            return record(argparse.Namespace(**{**usual, **values, "config": path}))

    def weights(self, recording):
        return sum(e[2] for e in recording.ledger.events if e[0] == "a" and e[5] == "w")

    def test_linear_layers_shrink_and_the_rest_stays(self):
        rest = 2 * 1000 * 256 + 5 * 256
        recording = self.trace(mode="infer", quantization="int4")
        self.assertEqual(recording.parameters, LINEAR + rest)
        loaded = [e for e in recording.ledger.events if e[0] == "a" and e[5] == "w"]
        self.assertLess(abs(sum(e[2] for e in loaded) - (LINEAR * 0.5625 + rest * 2)), 4096)
        self.assertTrue(any("not measured" in note for note in recording.notes))

    def test_building_never_holds_the_model_whole(self):
        live = most = 0
        sizes = {}
        for event in self.trace(mode="infer", quantization="int8").ledger.events:
            if event[:2] == ("m", "ready"):
                break
            if event[0] == "a":
                sizes[event[1]] = event[2]
                live += event[2]
                most = max(most, live)
            elif event[0] == "f":
                live -= sizes[event[1]]
        self.assertLess(most, 1.6 * LINEAR + 4 * 1000 * 256)

    def test_adapters_learn_beside_packed_weights(self):
        recording = self.trace(quantization="int4_double", lora=4)
        learned = sum(e[2] for e in recording.ledger.events if e[0] == "a" and e[5] == "g")
        layers = 2 * (4 * (256 + 256) + 3 * (256 + 512)) * 4
        self.assertEqual(learned, layers * 4)

    def test_what_cannot_be_is_told(self):
        cases = {
            "quantized-not-trained": {"quantization": "int8"},
            "quantization-by-memory": {"quantization": "int4_offload", "mode": "infer"},
            "quantization-on-host": {"quantization": "cpu"},
        }
        for code, values in cases.items():
            with self.subTest(code), self.assertRaises(Failure) as caught:
                quantized.check(settings(**values), "config.json")
            self.assertEqual(caught.exception.code, code)
        with self.assertRaises(Failure):
            quantized.check(settings(quantization="int4", mode="infer"), None)


class Values(unittest.TestCase):
    def test_masks_of_ones_answer_exactly(self):
        with watching.watched():
            mask = torch.ones(2, 16, dtype=torch.bool, device="meta")
            self.assertTrue(bool(mask.sum() == mask.numel()))
            self.assertFalse(bool((~mask[:, 4:]).any()))
            mask[0, 0] = False
            self.assertEqual(mask.sum().item(), 31)

    def test_weights_that_learn_are_not_looked_through_for_a_mask(self):
        held = torch.eye(128)
        kept, weights = (on_meta(held, Places(1), learns) for learns in (False, True))
        self.assertTrue(small_values.is_known(kept))
        self.assertFalse(small_values.is_known(weights))

    def test_filters_that_learn_are_not_coordinates(self):
        filters, points = torch.rand(64, 32, 3, 3), torch.rand(6000, 3)
        for held, learns, known in (
            (filters, True, False),
            (filters, False, True),
            (points, True, True),
            (torch.rand(8, 16, 3, 3), True, True),
        ):
            with self.subTest(shape=held.shape, learns=learns):
                self.assertEqual(small_values.is_known(on_meta(held, Places(1), learns)), known)

    def test_lengths_follow_from_a_mask_with_a_place_for_each_sample_of_sound(self):
        with watching.watched():
            # Twelve clips of twelve seconds.
            mask = torch.ones(12, 192_000, dtype=torch.int64, device="meta")
            mask[3, 100_000:] = 0
            lengths = mask.cumsum(-1)[:, -1]
            self.assertEqual(lengths[2:5].tolist(), [192_000, 100_000, 192_000])
            self.assertFalse(bool((lengths == 192_000).all()))

    def test_a_mask_of_a_large_batch_of_sound_says_whether_any_clip_is_short(self):
        # 96 clips of ten seconds, as Moonshine picks the frames of its convolutions from them.
        with watching.watched():
            mask = torch.ones(96, 160_000, dtype=torch.int64, device="meta")
            mask[5, 80_000:] = 0
            frames = mask[:, ::384]
            self.assertEqual(frames.sum(-1)[4:6].tolist(), [417, 209])
            self.assertFalse(bool(frames.bool().all()))

    def test_what_is_written_into_a_mask_with_a_row_for_each_position_is_known(self):
        with watching.watched():
            marks = torch.ones(4, 2048, dtype=torch.int64, device="meta")
            marks[:, 0] = 2
            seen = (marks > 0)[:, None, None, :].expand(-1, 1, 2048, -1)
            scores = torch.where(seen, 0.0, -1.0)[:, 0, 0, :]
            self.assertFalse(bool((scores > 0).any()))
            scores[marks == 2] = 9.0
            self.assertEqual((scores > 0).sum(dim=1).tolist(), [1, 1, 1, 1])

    def test_of_a_mask_whose_rows_are_alike_each_value_is_computed_once(self):
        with watching.watched():
            marks = torch.ones(4, 4096, dtype=torch.int64, device="meta")
            marks[:, 0] = 2
            rows = marks[:, None, None, :].expand(-1, 1, 4096, -1).to(torch.float32)
            hidden = 1.0 - rows
            scores = (hidden.masked_fill(hidden.bool(), -100.0) * hidden)[:, 0, 0, :]
            self.assertEqual((scores > 0).sum(dim=1).tolist(), [1, 1, 1, 1])

    def test_of_more_values_than_can_be_read_none_is_followed(self):
        with watching.watched():
            rows = torch.zeros(4096, device="meta").expand(1 << 20, 4096)
            self.assertFalse(small_values.is_likely(rows + 1))

    def test_what_is_written_into_one_of_many_rows_that_are_alike_is_in_that_row_alone(self):
        with watching.watched():
            marks = torch.arange(4096, device="meta") % 2
            rows = marks.expand(4096, -1).to(torch.float32)
            rows[5] = 7.0
            self.assertEqual(rows[4:7, :2].tolist(), [[0.0, 1.0], [7.0, 7.0], [0.0, 1.0]])
            rows += 1.0
            self.assertEqual(rows[4:7, :2].tolist(), [[1.0, 2.0], [8.0, 8.0], [1.0, 2.0]])

    def test_the_plain_case_is_assumed_of_the_unknown(self):
        with watching.watched():
            unknown = torch.randint(0, 9, (4, 4), device="meta")
            self.assertTrue(bool((unknown == 1).all()))
            self.assertFalse(bool((unknown == 1).any()))
            self.assertEqual(unknown.max().item(), 0)

    def test_a_number_that_is_written_into_a_name_is_the_one_of_a_real_run(self):
        with watching.watched():
            hit = torch.ones(3, dtype=torch.int64, device="meta").gt(0).nonzero()
            self.assertEqual(
                [f"expert_{one[0]}" for one in hit], ["expert_0", "expert_1", "expert_2"]
            )

    def test_constructors_can_read_small_tensors_back(self):
        with watching.watched() as observer, torch.device("meta"):
            observer.category = kinds.WEIGHT
            self.assertEqual((torch.arange(4) * 2 + 1).tolist(), [1, 3, 5, 7])
            self.assertEqual(torch.diff(torch.tensor([1, 4, 9])).int().tolist(), [3, 5])

    def test_a_size_that_a_step_computes_with_tensors_is_the_one_of_a_real_run(self):
        with watching.watched():
            places = torch.arange(8, device="meta").to(torch.float32)
            pooled = torch.cat([places.new_tensor([-1]), places[1:-1:2]])
            farthest = pooled[0] - places[0] + 2 * pooled.shape[0]
            made = torch.arange(farthest, pooled[0] - places[-1] - 1, -1, device="meta")
            self.assertEqual(made.tolist(), list(range(7, -9, -1)))
            self.assertEqual(torch.as_tensor([3, 4], device="meta").tolist(), [3, 4])

    def test_parameters_and_samples_of_distributions_are_taken_as_valid(self):
        unknown = torch.empty(4, 3, device="meta")
        zero, one = torch.zeros((), device="meta"), torch.ones((), device="meta")
        of = torch.distributions
        with watching.watched():
            for made in (
                lambda: of.Gumbel(zero + unknown.sum(), one + unknown.sum()),
                lambda: of.Gumbel(zero, one),
                lambda: of.Uniform(unknown, unknown),
                lambda: of.Bernoulli(unknown),
                lambda: of.Categorical(unknown),
                lambda: of.MultivariateNormal(unknown, unknown[:3].T @ unknown[:3]),
            ):
                distribution = made()
                with self.subTest(type(distribution).__name__):
                    sample = distribution.sample((5,))
                    self.assertEqual(distribution.log_prob(sample).device.type, "meta")

    def test_what_goes_to_the_host_is_zeros_and_told(self):
        with watching.watched() as observer:
            counts = torch.randint(0, 9, (4,), device="meta")
            self.assertEqual(counts.cpu().tolist(), [0, 0, 0, 0])
            kept = torch.ones(4, dtype=torch.long)
            kept.copy_(counts)
            self.assertTrue(any("read" in note for note in observer.notes))

    def test_all_are_taken_where_the_data_choose(self):
        with watching.watched() as observer:
            x = torch.randn(4, 8, device="meta")
            self.assertEqual(x[x > 0].shape, (32,))
            self.assertEqual(x.masked_select(x > 0).shape, (32,))
            self.assertEqual((x > 0).nonzero().shape, (32, 2))
            self.assertTrue(any("choose" in note for note in observer.notes))

    def test_numbers_written_into_a_tensor_stay_on_the_host(self):
        with watching.watched() as observer:
            tokens = torch.zeros(4, 8, dtype=torch.long, device="meta")
            before = len(observer.ledger.events)
            tokens[:, 0] = 7
            self.assertEqual(len(observer.ledger.events), before)

    def test_values_are_followed_through_lists_parts_and_writes_into_parts(self):
        with watching.watched() as observer, torch.device("meta"):
            observer.category = kinds.WEIGHT
            mask = torch.cat([torch.arange(4), torch.arange(4).new_ones(2)])
            self.assertEqual(mask.tolist(), [0, 1, 2, 3, 1, 1])
            first, second = torch.stack([mask, torch.zeros_like(mask)]).unbind()
            self.assertEqual((first.tolist(), second.sum().item()), ([0, 1, 2, 3, 1, 1], 0))
            mask[:2] = 7
            self.assertEqual(mask.tolist(), [7, 7, 2, 3, 1, 1])
            self.assertEqual(first.tolist(), [0, 1, 2, 3, 1, 1])
            mask[1:].add_(torch.randint(0, 9, (5,)))
            self.assertIsNone(small_values.value_of(mask))

    def test_what_an_op_writes_into_one_tensor_is_known_and_into_several_is_not(self):
        with watching.watched() as observer, torch.device("meta"):
            observer.category = kinds.WEIGHT
            first, second = torch.arange(4), torch.zeros(4, dtype=torch.int64)
            torch.add(first, first, out=second)
            self.assertEqual(small_values.value_of(first).tolist(), [0, 1, 2, 3])
            self.assertEqual(small_values.value_of(second).tolist(), [0, 2, 4, 6])
            torch.add(first, torch.randint(0, 9, (4,)), out=second)
            self.assertIsNone(small_values.value_of(second))
            counts = [torch.zeros(2), torch.zeros(2)]
            torch._foreach_add_(counts, 1)
            self.assertEqual([small_values.value_of(one) for one in counts], [None, None])

    def test_what_the_card_draws_leaves_the_generator_of_the_host_alone(self):
        with watching.watched():
            before = torch.get_rng_state()
            kept = torch.full((8,), 0.5, device="meta").bernoulli_()
            torch.rand_like(kept)
            self.assertTrue(torch.equal(torch.get_rng_state(), before))

    def test_what_unknown_data_choose_may_be_less_and_what_is_made_of_it(self):
        with watching.watched() as observer:
            observer.category = kinds.ACTIVATION
            rows, weight = (torch.empty(64, n, device="meta") for n in (64, 128))
            mask = torch.randn(64, device="meta") > 0
            chosen = rows[mask]
            made = chosen @ weight
            loose = observer.ledger.loose_at_peak
            self.assertEqual(loose, (chosen.numel() + made.numel()) * 4)
            self.assertIn(NOTE, observer.notes)
            del made
            # Not of those rows, and lower than the peak.
            (chosen.sum() + rows.sum()).mean()
            self.assertEqual(observer.ledger.loose_at_peak, loose)
            # A higher peak in which nothing of it lies.
            del chosen
            higher = torch.empty(1 << 20, device="meta")
            self.assertEqual((higher.numel(), observer.ledger.loose_at_peak), (1 << 20, 0))

    def test_of_drawn_numbers_as_many_lie_below_a_rate_as_the_rate_says(self):
        with watching.watched():
            words = torch.arange(8192, device="meta").view(8, 1024)
            hidden = torch.rand(8, 1024, device="meta") < 0.15
            labels = words.masked_fill(~hidden, -100)
            rows = torch.empty(8, 1024, 16, device="meta")[labels != -100]
            self.assertAlmostEqual(len(rows) / 8192, 0.15, delta=0.02)
            self.assertEqual(len(torch.empty(8192, device="meta")[labels.view(-1) >= 0]), len(rows))

    def test_what_a_mask_of_the_host_chooses_is_known(self):
        with watching.watched() as observer:
            observer.category = kinds.ACTIVATION
            rows = torch.empty(4, 64, device="meta")
            self.assertEqual(rows[torch.tensor([True, False, True, False])].shape, (2, 64))
            self.assertEqual(len(torch.ones(3).nonzero()), 3)
            self.assertEqual((observer.ledger.loose_at_peak, observer.notes), (0, set()))

    def test_places_of_all_are_known_where_all_were_taken(self):
        with watching.watched():
            chosen = torch.where(torch.randn(3, device="meta") > 0)[0]
            self.assertEqual(chosen.tolist(), [0, 1, 2])

    def test_tensors_are_equal_where_nothing_says_that_they_are_not(self):
        with watching.watched():
            unknown = torch.empty(4, device="meta")
            known = torch.arange(4, device="meta")
            self.assertTrue(torch.equal(unknown, unknown + 1))
            self.assertFalse(torch.equal(unknown, torch.empty(5, device="meta")))
            self.assertTrue(torch.equal(known, torch.tensor([0, 1, 2, 3], device="meta")))
            self.assertFalse(torch.equal(known, known + 1))

    def test_sound_is_made_of_its_spectrum_again(self):
        with watching.watched():
            window = torch.hann_window(400, device="meta")
            sound = torch.empty(4, 16000, device="meta")
            spectrum = torch.stft(sound, 400, 160, window=window, return_complex=True)
            again = torch.istft(spectrum, 400, 160, window=window)
            self.assertEqual((spectrum.shape, again.shape), ((4, 201, 101), (4, 16000)))

    def test_no_value_is_broken(self):
        with watching.watched():
            values = torch.empty(4, device="meta")
            self.assertTrue((values.isnan().sum() == 0).item())
            self.assertFalse(values.isinf().any())

    def test_values_are_quantized_for_a_training_that_knows_of_it(self):
        from torch.ao.quantization import get_default_qat_qconfig

        with watching.watched():
            layer = torch.nn.Linear(8, 4, device="meta")
            config = get_default_qat_qconfig("fbgemm")
            rows = config.activation().to("meta")(torch.empty(3, 8, device="meta"))
            layer(rows * config.weight().to("meta")(layer.weight).sum()).sum().backward()
            self.assertEqual(layer.weight.grad.shape, (4, 8))
            values = torch.empty(3, 4, device="meta", requires_grad=True)
            scales = torch.ones(4, device="meta"), torch.zeros(4, dtype=torch.int32, device="meta")
            each = torch.fake_quantize_per_channel_affine(values, *scales, 1, -128, 127)
            torch.fake_quantize_per_tensor_affine(each, 0.1, 0, -128, 127).sum().backward()
            self.assertEqual(values.grad.shape, values.shape)


if __name__ == "__main__":
    unittest.main()
