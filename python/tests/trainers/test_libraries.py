"""The Trainer of transformers and TRL's from outside, programs with the one line, and the snippets of docs/recipes."""

import gc
import importlib.util
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import unittest
import weakref
from collections import deque
from unittest import mock

import torch
from accelerate import Accelerator
from transformers import Trainer

import warm
from sdk.injection import batch_of, build, out_of_memory
from trainers.small_trainer import Faults, Samples, Watched, gpt2, losses, loud, made, quiet
from trainers.unchanged import run_unchanged
from warm import PACKAGE, free_port

import plimsoll
from plimsoll.trainers import generation, hugging_face, status


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


class OneLine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        quiet()

    @classmethod
    def tearDownClass(cls):
        loud()

    def test_a_trainer_with_the_callback_recovers_and_one_without_does_not(self):
        faults = Faults("forward", [1])
        callback = plimsoll.TrainerCallback()
        trainer = made("gpt2", 0.0, {}, faults=faults, callbacks=[callback])
        trainer.train()
        plain = made("gpt2", 0.0, {})
        plain.train()
        self.assertEqual(faults.raised, 1)
        for mine, theirs in zip(losses(trainer), losses(plain)):
            self.assertAlmostEqual(mine, theirs, places=3)
        page = callback._repr_html_()
        self.assertIn("load line", page)
        self.assertRegex(page, r"Forecast \(estimated\): risk (unknown|none)\.")
        self.assertIn("smaller-microbatch, 6 to 3 samples", page)
        with self.assertRaises(torch.OutOfMemoryError):
            made("gpt2", 0.0, {}, faults=Faults("forward", [1])).train()

    def test_a_notebook_shows_the_recoveries_of_evaluations_beside_those_of_the_training(self):
        with mock.patch.object(status, "_happened", deque(maxlen=status.TRAININGS_KEPT)):
            callback = plimsoll.TrainerCallback()
            faults = Faults("forward", [1])
            trainer = made("gpt2", 0.0, {}, faults=faults, callbacks=[callback])
            trainer.train()
            faults.at = {faults.calls + 1}
            for _ in range(2 * status.TRAININGS_KEPT):
                trainer.evaluate(Samples("gpt2", 8))
            page = callback._repr_html_()
        self.assertEqual(faults.raised, 2)
        self.assertIn("<li>step 1: smaller-microbatch, 6 to 3 samples", page)
        self.assertIn("<li>evaluation, batch 1: smaller-microbatch, 8 to 4 samples", page)

    def test_the_forecast_says_when_memory_will_be_full(self):
        clock, held = [0.0], [1.0]

        class Filling:
            def memory_point(self):
                return 100 * 2**30, int(held[0] * 2**30), None

        with mock.patch.object(status, "_outlook", status.Outlook()):
            with mock.patch("time.monotonic", lambda: clock[0]):
                for _ in range(80):
                    status.look(Filling())
                    clock[0] += 0.5
                    held[0] += 1.0
            page = status.html("Trainer")
        self.assertRegex(page, r"risk (high|critical)\..* Full in about \d+ s \(\d+ to \d+\)\.")

    def test_the_first_step_of_an_accelerate_loop_is_tried_again(self):
        accelerator = plimsoll.prepare(Accelerator(cpu=True))
        self.assertIs(plimsoll.prepare(accelerator), accelerator)
        faults = Faults("step", [1])
        weights = []
        for around in (faults, Faults("step", [])):
            model, optimizer = build(1, 0.0)
            model, optimizer = accelerator.prepare(model, optimizer)
            x, y = batch_of(1, 8)
            with around.around():
                for _ in range(3):
                    optimizer.zero_grad()
                    accelerator.backward(torch.nn.functional.cross_entropy(model(x), y))
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
            weights.append([p.detach().clone() for p in model.parameters()])
        self.assertEqual(faults.raised, 1)
        for mine, theirs in zip(*weights):
            self.assertTrue(torch.equal(mine, theirs))

    def test_anything_else_is_refused(self):
        for wrong in (None, 3, "accelerator", torch.nn.Linear(1, 1)):
            with self.assertRaises(plimsoll.Failure) as refused:
                plimsoll.prepare(wrong)
            self.assertIn("prepare takes an accelerator", refused.exception.fact)


HAS_TRL = importlib.util.find_spec("trl") is not None
SAMPLES = 24


def finetuned(seed, faults=None, adapters=False, **settings):
    from datasets import Dataset
    from peft import LoraConfig
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    from transformers.trainer_callback import PrinterCallback
    from trl import SFTConfig, SFTTrainer

    torch.manual_seed(seed)
    model = gpt2(0.0)
    if faults is not None:
        faults.watch(model, "gpt2")
    numbers = {"<pad>": 0, "<begin>": 1, "<end>": 2}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(numbers, unk_token="<pad>")),
        pad_token="<pad>",
        eos_token="<end>",
    )
    # Texts of unlike lengths: each batch is filled up, and what was filled up carries no loss.
    made_by = torch.Generator().manual_seed(7)
    rows = [torch.randint(3, 40, (4 + i % 9,), generator=made_by).tolist() for i in range(SAMPLES)]
    given = {
        "output_dir": tempfile.gettempdir(),
        "per_device_train_batch_size": 6,
        "num_train_epochs": 1,
        "logging_steps": 1,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "disable_tqdm": True,
        "gradient_checkpointing": False,
        "learning_rate": 1e-2,
        "max_length": 32,
        **settings,
    }
    trainer = SFTTrainer(
        model,
        args=SFTConfig(**given),
        train_dataset=Dataset.from_dict({"input_ids": rows}),
        processing_class=tokenizer,
        peft_config=LoraConfig(r=2, target_modules=["c_attn"]) if adapters else None,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


@unittest.skipUnless(HAS_TRL, "trl is not installed")
class Trl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        quiet()

    @classmethod
    def tearDownClass(cls):
        logging.getLogger("plimsoll").setLevel(logging.NOTSET)

    def test_failures_inside_the_step_are_recovered(self):
        for trial, (point, at, settings, adapters) in enumerate(
            [
                ("forward", [1, 6], {}, False),
                ("forward", [2], {"gradient_accumulation_steps": 2}, True),
                ("backward", [1], {"gradient_accumulation_steps": 2}, False),
                ("backward", [2, 5], {"max_grad_norm": 0.5}, False),
                ("clip", [1], {"max_grad_norm": 0.5}, True),
            ]
        ):
            with self.subTest(f"{point} {at} {settings} {adapters}"):
                faults = Faults(point, at)
                mine = finetuned(trial, faults, adapters, **settings)
                with faults.around():
                    watched = Watched(mine).train()
                self.assertGreaterEqual(faults.raised, 1)
                parts = [sizes for window in watched.windows for sizes in window]
                self.assertEqual(sum(map(sum, parts)), SAMPLES, "each sample once")
                plain = finetuned(trial, None, adapters, **settings)
                plain.train()
                self.assertEqual(len(losses(mine)), len(losses(plain)))
                for one, other in zip(losses(mine), losses(plain)):
                    self.assertLess(abs(one - other), 1e-3 * other)


FOLDER = os.path.join(os.path.dirname(PACKAGE), "docs", "recipes")
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

# Installed by npm run test:integrations alone.
ELSEWHERE = ("lightning", "trl")


def is_missing(package, code):
    wanted = f"import {package}" in code or f"from {package} import" in code
    return wanted and importlib.util.find_spec(package) is None


def snippets():
    for name in sorted(os.listdir(FOLDER)):
        with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
            for number, found in enumerate(SNIPPET.findall(file.read())):
                yield f"{name}, snippet {number + 1}", found


class Recipes(unittest.TestCase):
    def test_snippets_run(self):
        ran = 0
        for name, code in snippets():
            with self.subTest(name):
                if any(is_missing(package, code) for package in ELSEWHERE):
                    compile(code, name, "exec")
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    done = warm.run(
                        [sys.executable, "-W", "ignore", "-c", code],
                        env={**os.environ, "PYTHONPATH": PACKAGE, "CUDA_VISIBLE_DEVICES": ""},
                        cwd=folder,
                        capture_output=True,
                        text=True,
                        check=False,
                        timeout=3600,  # It ends one that hangs, also on a machine that is busy with others.
                    )
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                ran += 1
        self.assertGreaterEqual(ran, 5)


if __name__ == "__main__":
    unittest.main()
