"""Families of transformers that take more than a text or an image: each gets the batch that it is trained with."""

import unittest
from unittest import mock

import numpy
import torch
from transformers.loss import loss_for_object_detection as matching

from tracing import watching
from tracing.test_models import settings

from plimsoll.failure import MISSING_PACKAGE, Failure
from plimsoll.tracing.record import _failure_of
from plimsoll.tracing.sources import hugging_face
from plimsoll.tracing.sources.batches import batch_for, is_text_alone, target_notes

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 100,
}
IMAGE = {**SMALL, "image_size": 32, "patch_size": 16}
SERIES = {
    "prediction_length": 6,
    "context_length": 24,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
}
# Configs without a class, and the class and inputs that they come to.
TRAINED = {
    "videomae": (
        {**IMAGE, "num_frames": 4, "decoder_hidden_size": 32, "decoder_num_hidden_layers": 1},
        "VideoMAEForVideoClassification",
        {"pixel_values", "labels"},
    ),
    "vjepa2": (
        {
            **IMAGE,
            "crop_size": 32,
            "frames_per_clip": 4,
            "pred_hidden_size": 32,
            "pred_num_hidden_layers": 1,
            "pred_num_attention_heads": 2,
            "num_pooler_layers": 1,
        },
        "VJEPA2ForVideoClassification",
        {"pixel_values_videos", "labels"},
    ),
    "lilt": (
        {**SMALL, "hidden_size": 48},
        "LiltForTokenClassification",
        {"input_ids", "bbox", "labels"},
    ),
    "informer": (
        SERIES,
        "InformerForPrediction",
        {
            "past_values",
            "past_time_features",
            "past_observed_mask",
            "future_values",
            "future_time_features",
        },
    ),
    "patchtst": (
        {"d_model": 16, "num_hidden_layers": 1, "prediction_length": 6},
        "PatchTSTForPrediction",
        {"past_values", "future_values"},
    ),
    "git": (
        {**SMALL, "vision_config": IMAGE},
        "GitForCausalLM",
        {"input_ids", "pixel_values", "labels"},
    ),
    "siglip2": (
        {"text_config": SMALL, "vision_config": {**IMAGE, "num_patches": 4}},
        "Siglip2Model",
        {"input_ids", "pixel_values", "pixel_attention_mask", "spatial_shapes", "return_loss"},
    ),
    "t5": (
        {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2, "vocab_size": 99},
        "T5ForConditionalGeneration",
        {"input_ids", "labels"},
    ),
    "udop": (
        {
            "d_model": 32,
            "d_kv": 16,
            "d_ff": 64,
            "num_layers": 1,
            "num_heads": 2,
            "vocab_size": 99,
            "image_size": 32,
        },
        "UdopForConditionalGeneration",
        {"input_ids", "bbox", "decoder_input_ids", "labels"},
    ),
    "jetmoe": (
        {**SMALL, "num_local_experts": 4, "num_key_value_heads": 2, "kv_channels": 8},
        "JetMoeForCausalLM",
        {"input_ids", "labels"},
    ),
    "ibert": ({**SMALL, "quant_mode": True}, "IBertForMaskedLM", {"input_ids", "labels"}),
}


def assigned(cost):
    """In place of scipy's: of costs that are all the same, the first that comes."""
    places = numpy.arange(min(numpy.asarray(cost).shape))
    return places, places


class Families(unittest.TestCase):
    def test_each_is_trained_with_the_class_and_the_inputs_of_its_task(self):
        for kind, (values, name, inputs) in TRAINED.items():
            # Images have a size of their own.
            seq = 0 if "pixel_values" in inputs and "input_ids" not in inputs else 8
            given = settings(batch=2, seq=0 if kind == "vjepa2" else seq, precision="fp32")
            with self.subTest(kind), watching.watched():
                model, _ = hugging_face.build({"model_type": kind, **values}, given)
                batch = batch_for(model, given)
                self.assertEqual((type(model).__name__, set(batch)), (name, inputs))
                self.assertEqual(is_text_alone(model, given), kind == "udop")
                hugging_face.usual_forward(given)(model, batch).backward()

    def test_things_in_images_have_boxes_and_classes(self):
        given = settings(batch=2, seq=0, precision="fp32")
        yolos = {**IMAGE, "image_size": [32, 48], "num_detection_tokens": 10}
        with (
            mock.patch.object(matching, "linear_sum_assignment", assigned, create=True),
            mock.patch.object(matching, "requires_backends"),
            watching.watched(),
        ):
            model, _ = hugging_face.build({"model_type": "yolos", **yolos}, given)
            batch = batch_for(model, given)
            self.assertEqual(batch["pixel_values"].shape, (2, 3, 32, 48))
            self.assertEqual([one["boxes"].shape for one in batch["labels"]], [(7, 4), (7, 4)])
            self.assertEqual(target_notes(model, given), ["each image is taken to show 7 objects"])
            hugging_face.usual_forward(given)(model, batch).backward()

    def test_sound_of_a_codec_has_a_channel(self):
        given = settings(mode="infer", batch=2, seq=640, precision="fp32")
        values = {"model_type": "dac", "encoder_hidden_size": 4, "decoder_hidden_size": 64}
        with watching.watched(), torch.no_grad():
            model, _ = hugging_face.build(values, given)
            batch = batch_for(model, given)
            self.assertEqual(batch["input_values"].shape, (2, 1, 640))
            self.assertEqual(model(**batch).audio_values.shape[0], 2)


class Refused(unittest.TestCase):
    def refused(self, values):
        given = settings(batch=2, seq=8)
        with watching.watched(), self.assertRaises(Failure) as caught:
            model, _ = hugging_face.build(values, given)
            batch_for(model, given)
        return caught.exception

    def test_a_part_of_a_model_is_said_to_be_one(self):
        failure = self.refused({"model_type": "blip_text_model"})
        self.assertEqual(failure.code, "model-incomplete")
        self.assertIn("config of the whole", failure.next_step)

    def test_inputs_that_no_config_tells_are_named(self):
        failure = self.refused({"model_type": "qwen3_vl_vision", "depth": 1})
        self.assertEqual(failure.code, "inputs-unknown")
        self.assertIn("hidden_states, grid_thw", failure.fact)
        self.assertIn("--script", failure.next_step)

    def test_a_package_that_is_missing_is_named(self):
        for failure in (
            hugging_face.package_missing(ImportError("it requires the timm library")),
            _failure_of(ImportError("it requires the timm library")),
        ):
            self.assertEqual((failure.code, failure.status), ("package-missing", MISSING_PACKAGE))
            self.assertIn("timm", failure.fact)


if __name__ == "__main__":
    unittest.main()
