"""The Trainer of transformers, from outside: how its loss is weighed, what is left alone, evaluation, generate()."""

import gc
import json
import logging
import os
import subprocess
import sys
import unittest
import weakref
from unittest import mock

import torch
import warm
from free_port import free_port
from transformers import Trainer

from sdk.injection import out_of_memory
from trainers import PACKAGE
from trainers.small_trainer import Faults, Samples, Watched, gpt2, losses, made, quiet
from trainers.unchanged import run_unchanged

from plimsoll.trainers import generation, hugging_face


class Unchanged(unittest.TestCase):
    def test_a_program_finishes_in_one_attempt_with_the_same_losses(self):
        code, whole, _ = run_unchanged("trainer_gpt2.py")
        self.assertEqual(code, 0)
        code, limited, said = run_unchanged("trainer_gpt2.py", 900 * 2**20)
        self.assertEqual(code, 0, said[-3000:])
        self.assertIn("smaller-microbatch", said)
        for mine, theirs in zip(limited["losses"], whole["losses"]):
            self.assertLess(abs(mine - theirs), 1e-3 * theirs)
        self.assertLess(abs(limited["evaluated"] - whole["evaluated"]), 1e-3 * whole["evaluated"])

    def test_without_the_integration_it_fails_as_it_would_alone(self):
        off = {"PLIMSOLL_TRAINERS": "0"}
        code, whole, said = run_unchanged("trainer_gpt2.py", 30 * 2**30, more=off)
        self.assertEqual((code, len(whole["losses"])), (0, 2))
        self.assertNotIn("plimsoll:", said)


class WeightedLoss(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        quiet()

    def trained(self, kind, trainer, **settings):
        faults = Faults("forward", [1])
        one = made(kind, 0.0, settings, trainer, faults=faults)
        Watched(one).train()
        self.assertEqual(faults.raised, 1)
        twin = made(kind, 0.0, settings, trainer)
        twin.train()
        return losses(one), losses(twin)

    def assert_near(self, both):
        for mine, theirs in zip(*both):
            self.assertLess(abs(mine - theirs), 1e-3 * abs(theirs))

    def test_no_batch_is_held_once_its_step_is_over(self):
        one = made("bert", 0.0, {"per_device_train_batch_size": 2})
        real, seen, held = one.data_collator, [], []

        def collate(samples):
            batch = real(samples)
            seen.append(weakref.ref(batch["input_ids"]))
            held.append(sum(batch() is not None for batch in seen))
            return batch

        one.data_collator = collate
        gc.disable()
        self.addCleanup(gc.enable)
        Watched(one).train()
        self.assertEqual(len(held), 12)
        # The loader is one batch ahead.
        self.assertLessEqual(max(held), 3)

    def test_a_loss_of_ones_own_that_takes_the_mean_is_seen(self):
        class Own(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, **_):
                labels = inputs.pop("labels")
                logits = model(**inputs).logits[:, :-1]
                return torch.nn.functional.cross_entropy(
                    logits.reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1)
                )

        self.assert_near(self.trained("gpt2", Own, gradient_accumulation_steps=2))

    def test_a_mean_over_sequences_is_told_from_one_over_labels(self):
        class Own(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, **_):
                labels = inputs["labels"]
                logits = model(input_ids=inputs["input_ids"]).logits[:, :-1].transpose(1, 2)
                each = torch.nn.functional.cross_entropy(logits, labels[:, 1:], reduction="none")
                return (each.sum(1) / (labels[:, 1:] != -100).sum(1)).mean()

        self.assert_near(self.trained("gpt2", Own))

    def test_label_smoothing_adds_up(self):
        self.assert_near(self.trained("gpt2", Trainer, label_smoothing_factor=0.1))

    def test_a_loss_that_compares_samples_is_not_split(self):
        class Contrast(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, **_):
                hidden = model.transformer(input_ids=inputs["input_ids"]).last_hidden_state[:, -1]
                own = torch.arange(len(hidden))
                return torch.nn.functional.cross_entropy(hidden @ hidden.T / 8, own)

        faults = Faults("forward", [1])
        trainer = made("gpt2", 0.0, {}, Contrast, faults=faults)
        logging.getLogger("plimsoll").setLevel(logging.NOTSET)
        with self.assertLogs("plimsoll", "WARNING") as said:
            with self.assertRaises(torch.OutOfMemoryError):
                Watched(trainer).train()
        self.assertIn("not a mean or a sum over the samples", "\n".join(said.output))


class LeftAlone(unittest.TestCase):
    def assert_said(self, trainer, words):
        logging.getLogger("plimsoll").setLevel(logging.NOTSET)
        with self.assertLogs("plimsoll", "WARNING") as said:
            hugging_face.attach(trainer)
        self.assertEqual(len(said.output), 1)
        self.assertIn(words, said.output[0])
        self.assertNotIn("training_step", vars(trainer))

    def test_auto_find_batch_size(self):
        self.assert_said(made("bert", 0.0, {"auto_find_batch_size": True}), "auto_find_batch_size")

    def test_a_signature_that_is_not_known(self):
        class Newer(Trainer):
            def training_step(self, model, inputs, num_items_in_batch=None, extra=None):
                raise NotImplementedError

        self.assert_said(made("bert", 0.0, {}, Newer), "extra")

    def test_trainers_of_trl_whose_loss_compares_rows(self):
        kind = type("DPOTrainer", (Trainer,), {"__module__": "trl.trainer.dpo_trainer"})
        self.assert_said(made("bert", 0.0, {}, kind), "DPOTrainer may compare rows")
        kind = type("SFTTrainer", (Trainer,), {"__module__": "trl.trainer.sft_trainer"})
        self.assertIsNone(hugging_face.why_not(made("bert", 0.0, {}, kind)))

    def test_a_step_that_hands_on_all_it_is_given_is_known(self):
        class Around(Trainer):
            def training_step(self, *args, **kwargs):
                return super().training_step(*args, **kwargs)

        quiet()
        faults = Faults("forward", [1])
        watched = Watched(made("bert", 0.0, {}, Around, faults=faults)).train()
        self.assertEqual((faults.raised, sum(watched.windows[0][0])), (1, 6))

    def test_find_executable_batch_size(self):
        from accelerate.utils import find_executable_batch_size

        quiet()
        sizes = []

        @find_executable_batch_size(starting_batch_size=8)
        def train(batch_size):
            sizes.append(batch_size)
            faults = Faults("forward", [1] if len(sizes) == 1 else [])
            settings = {"per_device_train_batch_size": batch_size}
            return Watched(made("bert", 0.0, settings, faults=faults)).train()

        windows = train().windows
        self.assertEqual(sizes, [8, 7])
        self.assertEqual(
            windows[0], [[7]], "the program's own answer was to start with a smaller one"
        )

    def test_a_batch_whose_tensors_do_not_agree_runs_whole(self):
        from plimsoll.trainers.counting import samples_of

        ids, lengths = torch.zeros(1, 64), torch.zeros(9)
        self.assertIsNone(samples_of({"input_ids": ids, "cu_seq_lens": lengths}))
        self.assertIsNone(samples_of({"input_ids": torch.zeros(4, 8), "patches": torch.zeros(77)}))
        self.assertIsNone(samples_of({"input_ids": torch.zeros(0, 8)}))
        self.assertIsNone(samples_of(None))
        self.assertEqual(samples_of({"input_ids": torch.zeros(4, 8), "scale": 2.0}), 4)

    def test_all_is_as_before_when_training_ends(self):
        quiet()
        trainer = made("bert", 0.0, {})
        step = trainer.optimizer.step if trainer.optimizer else None
        Watched(trainer).train()
        self.assertNotIn("training_step", vars(trainer))
        self.assertNotIn("backward", vars(trainer.accelerator))
        self.assertTrue(step is None or trainer.optimizer.step.__name__ == step.__name__)


class Evaluation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        quiet()

    def test_a_batch_of_evaluation_is_split(self):
        for kind in ("gpt2", "bert"):
            settings = {"per_device_eval_batch_size": 16}
            faults = Faults("forward", [1, 2])
            whole = made(kind, 0.0, settings).predict(Samples(kind, 16))
            trainer = made(kind, 0.0, settings, faults=faults)
            replaced = hugging_face.attach_evaluation(trainer)
            parts = trainer.predict(Samples(kind, 16))
            replaced.put_back()
            self.assertEqual(faults.raised, 2)
            self.assertEqual(parts.predictions.shape, whole.predictions.shape)
            self.assertLess(float(abs(parts.predictions - whole.predictions).max()), 1e-5)
            self.assertAlmostEqual(parts.metrics["test_loss"], whole.metrics["test_loss"], places=5)

    def test_generate_falls_back_to_fewer_sequences(self):
        torch.manual_seed(0)
        model = gpt2(0.0).eval()
        ids = torch.randint(3, 40, (6, 5))
        wanted = model.generate(ids, max_new_tokens=6, do_sample=False)
        kinds = type("module", (), {"GenerationMixin": type(model)})
        with mock.patch.object(type(model), "generate", type(model).generate):
            generation.install(kinds)
            faults = Faults("forward", [2, 9])
            faults.watch(model, "gpt2")
            found = model.generate(ids, max_new_tokens=6, do_sample=False)
            self.assertEqual(faults.raised, 2)
            self.assertTrue(torch.equal(found, wanted))
            # What cannot be cut is left as it is.
            with mock.patch.object(generation, "_recovering", side_effect=AssertionError):
                answer = model.generate(ids, max_new_tokens=2, return_dict_in_generate=True)
            self.assertEqual(answer.sequences.shape, (6, 7))

    def test_results_of_unlike_lengths_are_filled_up(self):
        short, long = torch.ones(2, 3, dtype=torch.long), torch.ones(1, 5, dtype=torch.long)
        joined = generation.padded([short, long], 0, torch)
        self.assertEqual(joined.tolist()[0], [1, 1, 1, 0, 0])
        self.assertIsInstance(out_of_memory(), RuntimeError)


# Two ranks of a Trainer under DDP: a rank that runs out of memory does not block the other.

TRIALS = 12


class Ranks(unittest.TestCase):
    def test_failures_on_one_rank_are_recovered_and_both_agree(self):
        here = os.path.dirname(os.path.abspath(__file__))
        shared = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([PACKAGE, os.path.dirname(here)]),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "ACCELERATE_USE_CPU": "true",
        }
        ranks = [
            warm.Popen(
                [sys.executable, "-W", "ignore", os.path.join(here, "two_ranks.py"), str(TRIALS)],
                env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        for rank in ranks:
            said, errors = rank.communicate(timeout=600)
            done = [json.loads(line) for line in said.splitlines() if line.startswith('{"point"')]
            self.assertEqual(len(done), TRIALS, errors[-3000:])
            for trial in done:
                self.assertTrue(trial["failed"] and trial["same"], trial)
                self.assertEqual(trial["samples"], 12, "half of the samples, each once")
                # Adam makes rounding of small gradients visible: parts are summed in another order.
                self.assertLess(trial["off"], 1e-3, trial)


if __name__ == "__main__":
    unittest.main()
