"""What is proposed for code bases: small cases, real packages, and broken files."""

from __future__ import annotations

import ast
import difflib
import os
import random
import sysconfig
import unittest

from plimsoll.migrating.__main__ import look_at, python_files
from plimsoll.migrating.propose import NotUnderstood, propose

DEBUG = {"CUDA_LAUNCH_BLOCKING": ["1"], "PYTORCH_NO_CUDA_MEMORY_CACHING": None}

CASES = [
    (
        'import os\nos.environ["CUDA_LAUNCH_BLOCKING"] = "1"  # why\nx = 1\n',
        "import os\nx = 1\n",
    ),
    (
        'import os\ndef f():\n    os.environ.setdefault("CUDA_LAUNCH_BLOCKING", "1")\n',
        "import os\ndef f():\n    pass\n",
    ),
    (
        "from torch.cuda.amp import autocast, GradScaler\ns = GradScaler()\nwith autocast(True):\n    f()\n",
        "from torch.amp import autocast, GradScaler\n"
        's = GradScaler("cuda")\nwith autocast("cuda", enabled=True):\n    f()\n',
    ),
    (
        "import torch as t\nwith t.cuda.amp.autocast(dtype=t.float16):\n    f()\n",
        'import torch as t\nwith t.amp.autocast("cuda", dtype=t.float16):\n    f()\n',
    ),
    (
        "from torch.cuda import amp\ns = amp.GradScaler(2.0)\n",
        'from torch import amp\ns = amp.GradScaler("cuda", 2.0)\n',
    ),
    (
        "import torch\nfor x in y:\n    f(x)\n    torch.cuda.empty_cache()\n",
        "import torch\nfor x in y:\n    f(x)\n",
    ),
    (
        '"""Doc."""\r\nimport a\r\ntry:\r\n    f()\r\nexcept RuntimeError as e:\r\n'
        '    if "out of memory" in str(e):\r\n        g()\r\n',
        '"""Doc."""\r\nimport a\r\nimport plimsoll\r\ntry:\r\n    f()\r\nexcept RuntimeError as e:\r\n'
        "    if (plimsoll.recognise(e) is not None):\r\n        g()\r\n",
    ),
    (
        # The import comes where the line goes.
        'import os\nos.environ["CUDA_LAUNCH_BLOCKING"] = "1"\ntry:\n    f()\nexcept RuntimeError as e:\n'
        '    if "out of memory" in str(e):\n        g()\n',
        "import os\nimport plimsoll\ntry:\n    f()\nexcept RuntimeError as e:\n"
        "    if (plimsoll.recognise(e) is not None):\n        g()\n",
    ),
    (
        "from transformers import AutoModelForCausalLM, BitsAndBytesConfig\n"
        'm = AutoModelForCausalLM.from_pretrained(\n    "é",\n'
        '    quantization_config=BitsAndBytesConfig(load_in_8bit=True), device_map="auto"\n)\n',
        "from transformers import AutoModelForCausalLM, BitsAndBytesConfig\n"
        'import plimsoll\nm = plimsoll.load("é", preset="int8")\n',
    ),
]

# Found, and left to a person.
LEFT = [
    'import os\nif debug:\n    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\n',
    'import os; os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\n',
    "try:\n    from torch.cuda.amp import autocast\nexcept ImportError:\n    pass\n",
    "from torch.cuda.amp import custom_fwd, autocast\nwith autocast():\n    pass\n",
    "from torch.cuda.amp import autocast\ndecorate(autocast)\n",
    "import torch\nfor x in y:\n    if x:\n        torch.cuda.empty_cache()\n",
    'from apex import amp\nmodel, o = amp.initialize(model, o, opt_level="O1")\n',
    "import torch\ntry:\n    f()\nexcept torch.cuda.OutOfMemoryError:\n    g()\n",
    "from torch.utils.data import DataLoader\nd = DataLoader(x, batch_size=32)\n",
    "from transformers import BitsAndBytesConfig\nc = BitsAndBytesConfig(load_in_4bit=flag)\n",
]

# Nothing to say.
QUIET = [
    'import os\nos.environ["CUDA_LAUNCH_BLOCKING"] = "0"\n',
    "import torch\ntorch.cuda.empty_cache()\n",
    "autocast()\n",
    "def f(os):\n    os.environ['CUDA_LAUNCH_BLOCKING'] = '1'\n",
    "import torch\nfor x in y:\n    def f():\n        torch.cuda.empty_cache()\n",
]


class Proposals(unittest.TestCase):
    def test_changes(self) -> None:
        for before, after in CASES:
            with self.subTest(before):
                self.assertEqual(propose(before.encode(), DEBUG).data.decode(), after)

    def test_what_is_left_to_a_person(self) -> None:
        for text in LEFT:
            with self.subTest(text):
                proposal = propose(text.encode(), DEBUG)
                self.assertEqual(proposal.data.decode(), text)
                self.assertTrue(proposal.findings)

    def test_what_is_not_found(self) -> None:
        for text in QUIET:
            with self.subTest(text):
                self.assertEqual(propose(text.encode(), DEBUG).findings, ())

    def test_a_second_time_there_is_nothing_to_change(self) -> None:
        for _, after in CASES:
            again = propose(after.encode(), DEBUG)
            self.assertEqual(again.data.decode(), after)

    def test_broken_files_are_left_alone(self) -> None:
        draw = random.Random(7)
        texts = [before for before, _ in CASES] + LEFT
        for _ in range(400):
            data = bytearray(draw.choice(texts).encode())
            for _ in range(draw.randint(1, 6)):
                at = draw.randrange(len(data))
                cut = draw.randint(0, 4)
                data[at : at + cut] = bytes(
                    draw.choice(b"(\"')]:\n\t\x00\xff\\#a= ") for _ in range(cut)
                )
            try:
                ast.parse(bytes(data))
                parses = True
            except (SyntaxError, ValueError):
                parses = False
            try:
                proposal = propose(bytes(data), DEBUG)
            except NotUnderstood:
                continue
            if parses:
                ast.parse(proposal.data)
            else:
                self.assertEqual(proposal.data, bytes(data))

    def test_deep_and_odd_files(self) -> None:
        for data in (
            b"amp" + b"(" * 5000,
            b"amp\x00",
            b"\xef\xbb\xbfamp",
            b"# coding: latin-1\namp",
        ):
            with self.assertRaises(NotUnderstood):
                propose(data, DEBUG)

    def test_real_packages_still_parse_and_change_only_where_something_was_found(self) -> None:
        packages = sysconfig.get_paths()["purelib"]
        seen = 0
        for package in ("accelerate", "torchvision"):
            folder = os.path.join(packages, package)
            for path in python_files(folder) if os.path.isdir(folder) else ():
                result = look_at(path, DEBUG)
                seen += 1
                if not result or "after" not in result:
                    continue
                with open(path, encoding="utf-8", newline="") as file:
                    before = file.read()
                after = str(result["after"])
                ast.parse(after)
                self._only_at_findings(before, after, result)
        if seen == 0:
            self.skipTest("no package to try it on")

    def _only_at_findings(self, before: str, after: str, result: dict[str, object]) -> None:
        findings = result["findings"]
        assert isinstance(findings, list)
        lines = {finding["line"] for finding in findings if finding["changed"]}
        matcher = difflib.SequenceMatcher(None, before.split("\n"), after.split("\n"), False)
        for kind, start, end, first, last in matcher.get_opcodes():
            new = after.split("\n")[first:last]
            if kind == "equal" or (kind == "insert" and new == ["import plimsoll"]):
                continue
            self.assertTrue(lines & set(range(start - 1, end + 3)), (result["path"], start, end))


if __name__ == "__main__":
    unittest.main()
