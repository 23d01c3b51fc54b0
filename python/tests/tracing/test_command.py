"""The command: its lines, errors, users' scripts and launchers; and traces against recordings of an H200."""

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from unittest import mock

import torch
import torch._dynamo.trace_rules

from tracing import watching
from tracing.test_models import CONFIG, settings
from tracing.watching import FORMAT, asked_sizes, faults_of
from warm import PACKAGE

from plimsoll.failure import Failure
from plimsoll_trace.__main__ import main
from plimsoll_trace.facts import Facts
from plimsoll_trace.gpu import H200
from plimsoll_trace.ledger import Ledger
from plimsoll_trace.module_names import ModuleNames
from plimsoll_trace.observer import Observer
from plimsoll_trace.options import parse
from plimsoll_trace.programs.launchers import launch_of
from plimsoll_trace.programs.places import Places
from plimsoll_trace.record import add_adapters, record
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


class Format(Scripts):
    def test_each_line_is_as_the_format_has_it_and_a_line_that_is_not_is_noticed(self):
        status, lines = run("--script", self.script(), "--steps", "1")
        self.assertEqual((status, faults_of(lines)), (0, []))
        kinds = {line[0] for line in lines[1:-1]}
        for kind in "saf":
            self.assertIn(kind, kinds)
            at = next(
                at for at, line in enumerate(lines) if isinstance(line, list) and line[0] == kind
            )
            for wrong in (lines[at][:-1], [*lines[at], *[1] * 9], [kind, -1], ["?", 1]):
                self.assertEqual(faults_of([*lines[:at], wrong, *lines[at + 1 :]]), [tuple(wrong)])
        header, *events, footer = lines
        for name in footer:
            left_out = {one: value for one, value in footer.items() if one != name}
            self.assertEqual(faults_of([header, *events, left_out]), [("missing", name)])
        changed = {**footer, "ended": 1, "other": True}
        self.assertEqual(faults_of([header, *events, changed]), [("ended", 1), ("other", True)])

    def test_the_record_of_facts_has_the_facts_of_the_format_with_their_types(self):
        types = {"flag": bool, "bytes": int}
        known = {name: types[fact["type"]] for name, fact in FORMAT["facts"].items()}
        self.assertEqual({name: type(value) for name, value in Facts().as_json().items()}, known)
        said = Facts(skips_layers=True, maybe_more_bytes=7).as_json()
        self.assertEqual((said["skipsLayers"], said["maybeMoreBytes"]), (True, 7))


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
        add_adapters(workload, rank)
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
            add_adapters(
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


TORCH, ACCELERATE = "torch.distributed.run", "accelerate.commands.launch"
LAUNCH_CONFIG = """
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
num_machines: 2
num_processes: 16
machine_rank: 0
fsdp_config:
  fsdp_version: 2
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_transformer_layer_cls_to_wrap: Block
  fsdp_reshard_after_forward: true
"""


class Launchers(unittest.TestCase):
    def test_a_program_without_a_launcher_is_itself(self):
        for command in (["train.py", "-m", TORCH], ["-m", "package", "--nproc-per-node=4"]):
            launch = launch_of(command, Places())
            self.assertEqual((launch.program, launch.processes), (command, 1))

    def test_options_are_the_launchers_until_the_program_begins(self):
        cases = [
            (["--nproc-per-node", "4", "train.py", "--nproc-per-node", "9"], 4),
            (["--standalone", "--nproc_per_node=2", "--nnodes=2", "train.py"], 4),
            (["--nproc-per-node=gpu", "train.py"], 8),
            (["--nnodes=1:3", "--nproc-per-node=2", "-m", "pkg.train", "x"], 6),
            (["train.py"], 1),
        ]
        for words, processes in cases:
            launch = launch_of(["-m", TORCH, *words], Places(8))
            self.assertEqual(launch.processes, processes, words)
            self.assertIn(launch.program[0], ("train.py", "-m"))
        self.assertEqual(launch.program, ["train.py"])

    def test_accelerate_hands_its_precision_on(self):
        words = [
            "--num_processes",
            "2",
            "--multi_gpu",
            "--mixed_precision=bf16",
            "train.py",
            "--lr",
            "1",
        ]
        places = Places()
        launch = launch_of(["-m", ACCELERATE, *words], places)
        self.assertEqual((launch.program, launch.processes), (["train.py", "--lr", "1"], 2))
        self.assertEqual(launch.environment["ACCELERATE_MIXED_PRECISION"], "bf16")
        self.assertNotIn("ACCELERATE_USE_FSDP", launch.environment)
        self.assertEqual(places.cards, 2)

    def test_accelerate_reads_its_own_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(LAUNCH_CONFIG)
            file.flush()
            words = ["--config_file", file.name, "-m", "package.train", "x"]
            launch = launch_of(["-m", ACCELERATE, *words], Places())
        self.assertEqual(launch.program, ["-m", "package.train", "x"])
        self.assertEqual((launch.processes, launch.nodes, launch.of_a_node), (16, 2, 8))
        told = {
            "ACCELERATE_USE_FSDP": "true",
            "FSDP_VERSION": "2",
            "FSDP_TRANSFORMER_CLS_TO_WRAP": "Block",
            "ACCELERATE_MIXED_PRECISION": "bf16",
        }
        self.assertEqual({name: launch.environment.get(name) for name in told}, told)

    def test_what_cannot_be_traced_is_refused(self):
        for words, code in (
            ([TORCH, "--nproc-per-node=2"], "program-missing"),
            ([ACCELERATE, "--use_deepspeed", "train.py"], "program-sharded"),
            ([ACCELERATE, "--config_file", "no-such.yaml", "train.py"], "launcher-refused"),
            ([ACCELERATE, "--use_fsdp", "--multi_gpu", "train.py"], "launcher-refused"),
            ([ACCELERATE, "--no-such-option", "train.py"], "launcher-refused"),
        ):
            with self.assertRaises(Failure) as raised, redirect_stderr(io.StringIO()):
                launch_of(["-m", *words], Places())
            self.assertEqual(raised.exception.code, code, words)

    def test_a_library_that_is_not_traced_is_refused_with_the_way_to_ask_for_instead(self):
        megatron = [ACCELERATE, "--use_megatron_lm"]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"zero_optimization": {"stage": 1}}, file)
            file.flush()
            settings = f"--deepspeed_config_file={file.name}"
            for words, way in (
                # accelerate's own where nothing says one.
                ([ACCELERATE, "--use_deepspeed"], "zero2"),
                ([ACCELERATE, "--use_deepspeed", "--zero_stage=3"], "zero3"),
                ([ACCELERATE, "--use_deepspeed", settings], "zero1"),
                ([*megatron, "--megatron_lm_tp_degree=4"], "tp"),
                ([*megatron, "--megatron_lm_tp_degree=4", "--megatron_lm_pp_degree=2"], None),
            ):
                with self.assertRaises(Failure) as raised, redirect_stderr(io.StringIO()):
                    launch_of(["-m", *words, "train.py"], Places())
                self.assertEqual(raised.exception.code, "program-sharded", words)
                named = re.search(r"--parallel (\w+)", raised.exception.next_step)
                self.assertEqual(named and named.group(1), way, words)


BENCH = os.path.join(os.path.dirname(PACKAGE), "bench")
sys.path.insert(0, os.path.join(BENCH, "gpu"))
import truth  # noqa: E402


def recorded(name, part="known"):
    """The sizes asked for, without what importing torchaudio asked for in that process."""
    path = os.path.join(truth.folder("events"), part, name + ".json")
    with open(path, encoding="utf-8") as file:
        run = json.load(file)
    stacks = run["stacks"]
    return [e[2] for e in run["events"] if e[0] == "alloc" and "kaldi.py" not in stacks[e[3]]]


def traced(**options):
    usual = {**vars(parse(["--script=none"])), "script": None}
    return asked_sizes(record(argparse.Namespace(**{**usual, **options})).ledger.events)


def blocks(sizes):
    """As the allocator rounds them."""
    return [-(-size // 512) * 512 for size in sizes]


def config(name):
    return os.path.join(truth.TRUTH, "configs", name + ".json")


class RecordedRuns(unittest.TestCase):
    maxDiff = 2000

    def test_gpt2_in_bfloat16(self):
        sizes = traced(config=config("gpt2"), batch=16, seq=1024, precision="bf16", optimizer="sgd")
        self.assertEqual(sizes, recorded("gpt2_train_b16_s1024_bf16_sgd"))

    def test_distilbert_in_float32_with_a_fused_optimizer(self):
        sizes = traced(config=config("distilbert"), batch=2, seq=1024, optimizer="adamw-fused")
        self.assertEqual(sizes, recorded("distilbert_train_b2_s1024_fp32_adamw-fused"))

    def test_gpt2_under_autocast_with_checkpointing(self):
        sizes = traced(
            config=config("gpt2"), batch=8, seq=1024, precision="amp-bf16", checkpointing=True
        )
        self.assertEqual(sizes, recorded("gpt2_train_b8_s1024_amp-bf16_adamw_ckpt"))

    def test_vision_transformer(self):
        sizes = traced(
            config=config("vit-base"),
            batch=128,
            seq=224,
            precision="bf16",
            optimizer="sgd-momentum",
        )
        self.assertEqual(sizes, recorded("vit-base_train_b128_s224_bf16_sgd-momentum"))

    def test_resnet_but_for_a_few_workspaces(self):
        sizes = traced(torchvision="resnet50", batch=32, seq=256, precision="bf16")
        measured = recorded("resnet50_train_b32_s256_bf16_adamw")
        large = 1 << 20
        mine, theirs = (
            sorted(s for s in sizes if s > large),
            sorted(s for s in measured if s > large),
        )
        self.assertLess(abs(sum(mine) - sum(theirs)), 0.01 * sum(theirs))

    def test_a_small_batch_through_a_resnet_in_float32(self):
        sizes = traced(torchvision="resnet18", batch=4, seq=224, optimizer="sgd-momentum")
        measured = recorded("resnet18_train_b4_s224_fp32_sgd-momentum", "fresh")
        self.assertEqual(blocks(sizes), blocks(measured))

    def test_a_network_of_lone_channels_in_float32(self):
        sizes = traced(
            config=os.path.join(truth.folder("cases"), "configs", "convnextv2-tiny.json"),
            batch=16,
            seq=224,
            steps=1,
        )
        measured = recorded("convnextv2-tiny_train_b16_s224_fp32_adamw", "fresh")
        large = 1 << 20
        mine, theirs = (
            [size for size in blocks(those) if size > large] for those in (sizes, measured)
        )
        self.assertEqual(mine, theirs[: len(mine)])

    def test_a_script_with_a_mean_squared_error(self):
        sizes = traced(
            script=os.path.join(truth.folder("cases"), "scripts", "mlp.py"),
            arg=["batch=8192"],
            batch=8192,
            optimizer="sgd-momentum",
        )
        self.assertEqual(sizes, recorded("mlp_train_b8192_sNone_fp32_sgd-momentum", "fresh"))

    def test_a_recurrent_script_under_autocast_once_it_is_built(self):
        sizes = traced(
            script=os.path.join(truth.folder("cases"), "scripts", "gru.py"),
            arg=["batch=64", "seq=256"],
            batch=64,
            precision="amp-bf16",
            optimizer="adamw-fused",
        )
        measured = recorded("gru_train_b64_s256_amp-bf16_adamw-fused", "fresh")
        # There the model was sent to the GPU once more when it was built, which gathers its weights again.
        again = measured.index(47800320, measured.index(47800320) + 1)
        self.assertEqual(sizes, measured[:again] + measured[again + 1 :])


if __name__ == "__main__":
    unittest.main()
