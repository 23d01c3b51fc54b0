"""Scripts of a user's: what they may name, what they are told, and how far a trace is."""

import os
from contextlib import redirect_stderr
from io import StringIO
from unittest import mock

import torch
import torch._dynamo.trace_rules

from tracing.test_command import Scripts, run

from plimsoll.tracing.gpu import H200
from plimsoll.tracing.ledger import Ledger
from plimsoll.tracing.module_names import ModuleNames
from plimsoll.tracing.observer import Observer
from plimsoll.tracing.standins.cuda_names import on_meta
from plimsoll.tracing.standins.environment import cuda_like

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
