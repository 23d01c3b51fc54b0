"""Conditions that only the data decide: which way a program goes."""

import os
import tempfile
import unittest

from tracing.kinds.traced_program import rows_of

from plimsoll.tracing.programs.values import some_are_taken

EXPERTS = """
import torch

router = torch.nn.Linear(8, 4).cuda()
experts = [torch.nn.Linear(8, 1024).cuda() for _ in range(4)]
rows = torch.randn(4096, 8, device="cuda")
chosen = router(rows).{choice}
for number, expert in enumerate(experts):
    mask = chosen == number
    if {condition}:
        expert(rows[mask])
"""

ROWS = """
import torch

model = torch.nn.Linear(8, 1024).cuda()
rows = torch.randn(4096, 8, device="cuda")
score = rows.mean(1)
assert (score > 0).any()
if (score > 9).any():
    raise ValueError("too large")
for turn in range(1):
    if (score.abs() > 8).any():
        continue
    if not (score > 0).any():
        continue
    part = model(rows[score > 0]) if (score > 0).sum() > 0 else 0
    if (score < 0).any():
        other = model(rows[score < 0])
"""

TEXT = """
import torch

END, words = 0, {words}
model = torch.nn.Linear(16, words).cuda()
tokens, ended = [], torch.zeros(4, dtype=torch.bool, device="cuda")
for turn in range(50):
    token = torch.multinomial(model(torch.randn(4, 16, device="cuda")).softmax(-1), 1)
    tokens.append(token)
    ended |= (token == END).squeeze(1)
    if bool(ended.all()):
        break
    if token[0].item() == END and words > 32:
        break
torch.cat(tokens, 1)
"""


JOINED = """
import torch

model = torch.nn.Linear(8, 1024).cuda()
rows = torch.randn(4096, 8, device="cuda")
sure = torch.randn(100, 8, device="cuda")
out = model(torch.cat([sure, rows[rows.mean(1) > 0]]))
"""


class WhereDataDecide(unittest.TestCase):
    def sizes_of(self, op, text):
        rows = rows_of(self, text)
        names = {row[1]: row[2] for row in rows[1:-1] if row[0] == "s"}
        return [row[2] for row in rows[1:-1] if row[0] == "a" and names[row[3]] == op]

    def test_each_expert_gets_its_share(self):
        share = 4096 // 4 * 1024 * 4
        ways = {"max(-1).indices": "mask.any()", "argmax(-1)": "mask.sum() > 0"}
        for choice, condition in ways.items():
            with self.subTest(condition):
                text = EXPERTS.format(choice=choice, condition=condition)
                self.assertEqual(self.sizes_of("aten.addmm.default", text).count(share), 4)

    def test_the_way_that_works_on_chosen_rows_is_gone(self):
        whole = 4096 * 1024 * 4
        self.assertEqual(self.sizes_of("aten.addmm.default", ROWS).count(whole), 2)

    def test_chosen_rows_that_are_joined_with_others_may_be_fewer(self):
        footer = rows_of(self, JOINED)[-1]
        self.assertGreaterEqual(footer["maybeLessBytes"], (4096 + 100) * 1024 * 4)

    def test_a_text_does_not_end_with_the_first_word(self):
        for words in (8, 300):
            joined = self.sizes_of("aten.cat.default", TEXT.format(words=words))
            self.assertEqual(joined, [4 * 50 * 8])


CHECKED = """
import torch

classes = torch.randint(0, 5, (2_500_000,)).cuda()
assert classes.min() >= 0 and classes.max() < 5, "classes"
assert not classes.max() > 5
if not classes.max() < 5:
    raise ValueError("classes")
if classes.max() >= 5:
    raise ValueError("classes")
parts = torch.rand(10, device="cuda")
assert parts.sum() > 0 and not torch.isnan(parts).any()
"""


class Checked(unittest.TestCase):
    def test_what_a_program_expects_of_its_data_holds(self):
        rows_of(self, CHECKED)


class SomeAreTaken(unittest.TestCase):
    def goes(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            names = {"some": some_are_taken, "went": []}
            exec(compile(text, path, "exec"), names)
            return names["went"]

    def test_unless_the_program_would_go_no_further(self):
        self.assertEqual(self.goes("if some():\n    went.append(1)\n"), [1])
        self.assertEqual(self.goes("if some():\n    raise ValueError\n"), [])
        self.assertEqual(self.goes("for _ in [0]:\n    if some(): break\n    went.append(1)"), [1])
        self.assertEqual(self.goes("if some():\n    import sys; sys.exit(1)\n"), [])

    def test_if_the_program_would_go_no_further_without(self):
        text = "for _ in [0]:\n    if not some():\n        continue\n    went.append(1)\n"
        self.assertEqual(self.goes(text), [1])
        self.assertEqual(self.goes("assert some()\nwent.append(1)"), [1])
        self.assertEqual(self.goes("assert not some()\nwent.append(1)"), [1])

    def test_results_and_nothing(self):
        text = "def f(x):\n    if some():\n        return {}\n    return 'rest'\nwent.append(f('some'))"
        self.assertEqual(self.goes(text.format("x")), ["some"])
        self.assertEqual(self.goes(text.format("None")), ["rest"])
        self.assertEqual(self.goes("went.append(went.copy() if some() else 0)"), [[]])
        self.assertEqual(self.goes("went.append(0 if some() else went.copy())"), [[]])

    def test_elsewhere_nothing_is_known(self):
        self.assertEqual(self.goes("went.append(some())"), [None])


if __name__ == "__main__":
    unittest.main()
