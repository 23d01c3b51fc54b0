"""The command: its lines, its errors, and scripts of a user's."""

import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from unittest import mock

import torch
import torch._dynamo.trace_rules

from tracing import PACKAGE, watching
from tracing.test_models import CONFIG, settings

from plimsoll.failure import Failure
from plimsoll_trace import record
from plimsoll_trace.__main__ import main
from plimsoll_trace.gpu import H200
from plimsoll_trace.ledger import Ledger
from plimsoll_trace.module_names import ModuleNames
from plimsoll_trace.observer import Observer
from plimsoll_trace.sources import hugging_face
from plimsoll_trace.sources.batches import batch_for
from plimsoll_trace.standins.cuda_names import on_meta
from plimsoll_trace.standins.environment import cuda_like
from plimsoll_trace.workload import Workload

SCRIPT = """
import torch

def workload(width=64, batch=8):
    layers = [torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 1)]
    return dict(
        model=torch.nn.Sequential(*layers),
        batch=lambda: torch.randn(batch, width),
        loss=lambda model, batch: model(batch).square().mean(),
    )
"""


def run(*arguments):
    out = io.StringIO()
    with redirect_stdout(out):
        status = main(list(arguments))
    return status, [json.loads(line) for line in out.getvalue().splitlines()]


class Scripts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def script(self, text=SCRIPT, name="job.py"):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


class Command(Scripts):
    def test_lines_tell_a_whole_run(self):
        status, lines = run("--script", self.script(), "--arg", "width=128", "--steps", "2")
        self.assertEqual(status, 0)
        header, *events, footer = lines
        self.assertEqual((header["plimsoll"], header["version"]), ("trace", 1))
        self.assertEqual(footer["parameters"], 128 * 128 + 128 + 128 + 1)
        self.assertEqual(footer["allocations"], sum(e[0] == "a" for e in events))
        strings = {e[1] for e in events if e[0] == "s"}
        live, seen = set(), []
        for event in events:
            if event[0] == "a":
                self.assertEqual(len(event), 6)
                self.assertTrue({event[3], event[4]} <= strings)
                self.assertIn(event[5], "wgoxktb")
                live.add(event[1])
            elif event[0] == "f":
                live.remove(event[1])
            elif event[0] == "m":
                seen.append(event[1])
        self.assertEqual(seen[:4], ["built", "ready", "step:1:batch", "step:1:forward"])
        self.assertEqual(seen[-1], "step:2:end")

    def test_weights_gradients_and_states_are_told_apart(self):
        _, lines = run("--script", self.script(), "--optimizer", "adamw", "--steps", "1")
        by = {}
        for event in lines:
            if isinstance(event, list) and event[0] == "a":
                by.setdefault(event[5], []).append(event[2])
        weights = [64 * 64 * 4, 64 * 4, 64 * 4, 4]
        self.assertEqual(sorted(by["w"]), sorted(weights))
        self.assertEqual(sorted(by["g"]), sorted(weights))
        self.assertEqual(sorted(by["o"]), sorted(2 * weights))
        self.assertEqual(by["b"], [8 * 64 * 4])

    def test_a_script_that_fails_says_where(self):
        path = self.script("def workload():\n    raise ValueError('no data')\n")
        status, [line] = run("--script", path)
        self.assertEqual(status, 2)
        self.assertEqual(line["error"]["code"], "script-failed")
        self.assertEqual(line["error"]["fact"], "ValueError: no data")
        self.assertTrue(line["error"]["where"].endswith("job.py:2"))

    def test_a_script_without_workload_and_other_slips(self):
        cases = {
            "script-no-workload": ("--script", self.script("x = 1\n", "empty.py")),
            "script-missing": ("--script", os.path.join(self.folder.name, "absent.py")),
            "bad-argument": ("--script", self.script(), "--arg", "width"),
            "unknown-vision-model": ("--torchvision", "resnet51"),
            "bad-arguments": ("--torchvision", "resnet18", "--batch", "0"),
            "config-not-json": ("--config", self.script()),
            "config-unreadable": ("--config", os.path.join(self.folder.name, "absent.json")),
        }
        for code, arguments in cases.items():
            with self.subTest(code):
                status, [line] = run(*arguments)
                self.assertEqual((status, line["error"]["code"]), (2, code))

    def test_a_model_that_does_not_take_the_batch_is_one_line(self):
        path = self.script(
            SCRIPT.replace("torch.randn(batch, width)", "torch.randn(batch, width + 1)")
        )
        status, [line] = run("--script", path)
        self.assertEqual((status, line["error"]["code"]), (2, "script-failed"))

    def test_without_torch_it_says_so(self):
        code = (
            "import sys; sys.modules['torch'] = None\n"
            "from plimsoll_trace.__main__ import main; sys.exit(main(sys.argv[1:]))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, "--torchvision", "resnet18"],
            capture_output=True,
            text=True,
            cwd=PACKAGE,
            check=False,
        )
        self.assertEqual(done.returncode, 3)
        self.assertEqual(json.loads(done.stdout)["error"]["code"], "torch-missing")


# Scripts of a user's: what they may name, what they are told, and how far a trace is.

CUDA = """
import torch
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

def workload(batch, width=64):
    model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.Linear(width, 1)).to(device)
    torch.cuda.manual_seed_all(0)
    images = torch.randn(batch, width, device="cpu").cuda()

    def loss(model, given):
        wanted = torch.zeros(batch, 1, device="cuda:0")
        return ((model(given.to(0)) - wanted) ** 2).mean()

    return dict(model=model, batch=lambda: images, loss=loss)
"""
MODEL = "import torch\n\ndef workload():\n    model = torch.nn.Linear(4, 4)\n"


class Named(Scripts):
    def test_code_that_names_cuda_is_traced_all_the_same(self):
        status, lines = run("--script", self.script(CUDA), "--batch", "16", "--steps", "1")
        self.assertEqual(status, 0, lines)
        sizes = [e[2] for e in lines if isinstance(e, list) and e[0] == "a"]
        self.assertIn(16 * 64 * 4, sizes)

    def test_parameters_without_a_default_get_what_was_asked_for(self):
        text = CUDA.replace("def workload(batch,", "def workload(batch, seq,")
        status, [line] = run("--script", self.script(text), "--batch", "16")
        self.assertEqual(status, 2)
        self.assertIn("seq", line["error"]["fact"])

    def test_what_only_a_gpu_can_do_is_told_with_its_line(self):
        path = self.script(MODEL + "    torch.cuda.Stream()\n")
        status, [line] = run("--script", path)
        self.assertEqual((status, line["error"]["code"]), (2, "script-needs-gpu"))
        self.assertTrue(line["error"]["where"].endswith("job.py:5"))

    def test_a_model_elsewhere_and_a_loss_that_is_none_are_told(self):
        dict_of = "    return dict(model=model, batch=torch.randn(4, 4), loss=lambda m, b: %s)\n"
        cases = {
            "script-other-device": MODEL.replace("4, 4)", "4, 4, device='cpu')")
            + dict_of % "m(b).sum()",
            "script-bad-loss": MODEL + dict_of % "m(b)",
            "script-bad-workload": MODEL + "    return model\n",
            "script-failed": "def workload(:\n",
        }
        for code, text in cases.items():
            with self.subTest(code):
                status, [line] = run("--script", self.script(text), "--steps", "1")
                self.assertEqual((status, line["error"]["code"]), (2, code))
                self.assertIn("job.py", line["error"]["where"])

    def test_in_inference_the_model_gets_what_it_takes_and_no_labels(self):
        pair = "    return dict(model=%s, batch=(torch.randn(8, 4), torch.ones(8, 64)))\n"
        for model in ("model", "torch.nn.Bilinear(4, 64, 4)"):
            path = self.script(MODEL + pair % model)
            status, lines = run("--script", path, "--mode", "infer", "--steps", "1")
            self.assertEqual(status, 0, lines)

    def test_cuda_is_as_before_afterwards(self):
        before = (torch.cuda.is_available, torch.cuda.synchronize)
        with on_meta():
            self.assertTrue(torch.cuda.is_available())
            self.assertEqual(torch.ones(2, device="cuda").device.type, "meta")
        self.assertEqual((torch.cuda.is_available, torch.cuda.synchronize), before)

    def test_torch_can_list_its_functions_while_cuda_is_replaced(self):
        # torch 2.6 makes this list when torchvision or transformers is imported, and refuses to
        # where two of its functions are one object.
        names = ModuleNames()
        with cuda_like(Observer(Ledger(), H200, names.current), names), on_meta():
            rules = torch._dynamo.trace_rules.get_torch_obj_rule_map.__wrapped__()
        self.assertIn(torch.relu, rules)


class Progress(Scripts):
    def test_each_phase_is_one_line_for_who_asked(self):
        output = StringIO()
        text = CUDA.replace("workload(batch,", "workload(batch=2,")
        with mock.patch.dict(os.environ, {"PLIMSOLL_PROGRESS": "1"}), redirect_stderr(output):
            run("--script", self.script(text), "--steps", "2")
        self.assertEqual(
            [line for line in output.getvalue().splitlines() if line.startswith("{")],
            [
                f'{{"progress":{{"phase":"{phase}","step":{step},"of":2}}}}'
                for phase, step in (("import", 0), ("build", 0), ("step", 1), ("step", 2))
            ],
        )

    def test_nobody_else_is_told(self):
        output = StringIO()
        with redirect_stderr(output):
            run("--script", self.script(), "--steps", "1")
        self.assertNotIn("progress", output.getvalue())


# LoRA: peft's own layers, and those that take their place where it is not installed.


def step(rank=4):
    """What one step with adapters asks for, and the model."""
    with watching.watched() as observer:
        model, _ = hugging_face.build(CONFIG, settings())
        workload = Workload(model, lambda: None, lambda model, batch: None)
        record.add_adapters(workload, rank)
        batch = batch_for(model, settings(batch=4, seq=32))
        asked = watching.Asked(observer)
        loss = workload.model(**batch).loss
        forward = asked.sizes()
        loss.backward()
        return forward, asked.sizes(), workload


class Adapters(unittest.TestCase):
    def test_all_linear_layers_but_the_output_learn_in_float32(self):
        _, _, workload = step()
        learning = {n: p for n, p in workload.model.named_parameters() if p.requires_grad}
        self.assertEqual(len(learning), 2 * 7 * 2)
        self.assertEqual({p.dtype for p in learning.values()}, {torch.float32})
        self.assertFalse(any("lm_head" in name for name in learning))

    def test_without_peft_the_same_is_asked_for(self):
        forward, backward, _ = step()
        with mock.patch.dict(sys.modules, {"peft": None}):
            own_forward, own_backward, workload = step()
        self.assertEqual(own_forward, forward)
        self.assertEqual(sorted(own_backward), sorted(backward))
        self.assertIn("peft", workload.notes[0])

    def test_a_model_without_linear_layers_is_refused(self):
        with (
            mock.patch.dict(sys.modules, {"peft": None}),
            watching.watched(),
            self.assertRaises(Failure),
        ):
            record.add_adapters(
                Workload(torch.nn.Sequential(torch.nn.ReLU()), lambda: None, lambda m, b: None), 4
            )


# What a loop keeps between steps, and how long the labels are.

GPT2 = {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 32, "vocab_size": 512}
T5 = {
    "model_type": "t5",
    "architectures": ["T5ForConditionalGeneration"],
    "d_model": 32,
    "d_ff": 64,
    "d_kv": 16,
    "num_heads": 2,
    "num_layers": 1,
    "decoder_start_token_id": 0,
    "vocab_size": 512,
}


class Assumed(Scripts):
    def config(self, values):
        path = os.path.join(self.folder.name, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(values, file)
        return path

    def traced(self, values, *more):
        return run(
            "--config", self.config(values), "--batch", "2", "--seq", "16", "--steps", "2", *more
        )

    def live_in_backward(self, *more):
        """Sizes that forward asked for and that are still there when the optimizer begins."""
        status, lines = self.traced(GPT2, *more)
        self.assertEqual(status, 0, lines[-1])
        phase, live = "", {}
        for event in lines[1:-1]:
            if event[0] == "m":
                phase = event[1]
                if phase == "step:2:optimizer":
                    return sorted(live.values())
            elif event[0] == "a" and phase == "step:2:forward":
                live[event[1]] = event[2]
            elif event[0] == "f":
                live.pop(event[1], None)
        return self.fail("there was no second step")

    def test_outputs_live_until_the_next_step_where_the_loop_keeps_them(self):
        logits = 2 * 16 * 512 * 4
        self.assertNotIn(logits, self.live_in_backward())
        self.assertNotIn(logits, self.live_in_backward("--keep", "loss"))
        self.assertIn(logits, self.live_in_backward("--keep", "outputs"))

    def test_labels_have_the_length_that_is_said(self):
        for more, length, said in ((), 8, 1), (("--target-seq", "16"), 16, 0):
            with self.subTest(more):
                status, lines = self.traced(T5, *more)
                self.assertEqual(status, 0, lines[-1])
                sizes = [e[2] for e in lines[1:-1] if e[0] == "a"]
                self.assertIn(2 * length * 512 * 4, sizes)
                notes = [note for note in lines[-1]["notes"] if "labels are taken" in note]
                self.assertEqual(len(notes), said)

    def test_a_length_that_no_labels_have_is_refused(self):
        status, [line] = self.traced(GPT2, "--target-seq", "16")
        self.assertEqual((status, line["error"]["code"]), (2, "no-target"))


if __name__ == "__main__":
    unittest.main()
