"""Whether a program evaluates with what it compiles, by its source."""

import unittest

from plimsoll.tracing.programs.compiling.likely_sizes import evaluates

WITH = """
fast = torch.compile(model)
for x in train:
    fast(x).backward()
model.eval()
with torch.no_grad(), torch.autocast("cuda"):
    {evaluated}(x)
"""
FUNCTION = """
def main():
    fast = torch.compile(model) if wanted else model
    fast(x).backward()
    print(accuracy({evaluated}, loader))

def accuracy(model, loader):
    model.eval()
    with torch.inference_mode():
        model(x)
"""
DECORATED = """
{name} = torch.compile(raw)

@torch.no_grad()
def loss():
    return model(x)
"""
STEP = """
class Task(LightningModule):
    def __init__(self):
        self.{name} = torch.compile(net)

    def validation_step(self, batch):
        return self.model(batch)
"""
IN_PLACE = """
model.compile()
with torch.no_grad():
    {evaluated}(x)
"""
LOSS = """
@torch.compile(dynamic=False)
def loss(x):
    return model(x)

with torch.no_grad():
    {evaluated}(x)
"""


class Evaluations(unittest.TestCase):
    def assert_told_apart(self, source, name, own, other):
        self.assertTrue(evaluates([source.format(**{name: own})]), own)
        self.assertFalse(evaluates([source.format(**{name: other})]), other)

    def test_a_block_without_gradients_calls_the_compiled_one_or_the_plain_one(self):
        self.assert_told_apart(WITH, "evaluated", "fast", "model")
        self.assert_told_apart(IN_PLACE, "evaluated", "model", "average")
        self.assert_told_apart(LOSS, "evaluated", "loss", "model")

    def test_a_function_that_evaluates_is_given_one_of_them(self):
        self.assert_told_apart(FUNCTION, "evaluated", "fast", "model")

    def test_a_function_without_gradients_uses_it_by_its_name(self):
        self.assert_told_apart(DECORATED, "name", "model", "fast")

    def test_a_step_of_lightning_uses_it(self):
        self.assert_told_apart(STEP, "name", "model", "fast")

    def test_a_program_in_several_files(self):
        first, second = DECORATED.format(name="model").split("@")
        self.assertTrue(evaluates([first, "@" + second]))
        self.assertFalse(evaluates([first]))

    def test_a_trainer_that_compiles_by_a_setting(self):
        self.assertTrue(evaluates(["Trainer(model, eval_dataset=held)"]))
        self.assertFalse(evaluates(["Trainer(model)", "pattern = re.compile('eval_dataset')"]))

    def test_what_is_no_python_says_nothing(self):
        self.assertFalse(evaluates(["with torch.no_grad(:", "\0", ""]))


if __name__ == "__main__":
    unittest.main()
