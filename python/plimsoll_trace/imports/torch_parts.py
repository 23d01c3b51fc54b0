"""Parts of torch that serve its compiler alone: `torch.export`, `torch._dynamo`, and SymPy's shapes.

The trace never compiles. Without a compiler at work, dynamo's decorators return what they are given,
and questions about symbolic shapes are asked about plain numbers.
"""

from __future__ import annotations

import operator
from functools import partial, reduce
from typing import Any, Callable

from .substitute import Substitute

_SHAPES = "torch.fx.experimental.symbolic_shapes"


def substitute() -> None:
    for part in (
        Substitute("torch.export", is_package=True),
        _dynamo(),
        *compiler_parts(),
        symbolic_shapes(),
        # Asked for one class, to know that a number is not an expression.
        Substitute("sympy", {"Basic": type("Basic", (), {})}, is_package=True),
    ):
        part.place()


def compiler_parts() -> tuple[Substitute, ...]:
    """What torchvision and transformers ask for as they are imported, and use for some kinds of masks and boxes."""
    return (
        Substitute("torch._dynamo.utils").defer("is_compile_supported"),
        Substitute("torch._dynamo._trace_wrapped_higher_order_op").defer("TransformGetItemToIndex"),
    )


def _dynamo() -> Substitute:
    def as_given(function: Any = None, *_args: Any, **_settings: Any) -> Any:
        return (lambda given: given) if function is None else function

    return Substitute(
        "torch._dynamo",
        {
            "disable": as_given,
            "allow_in_graph": as_given,
            "assume_constant_result": as_given,
            "graph_break": lambda *_args, **_settings: None,
        },
        is_package=True,
    )


def symbolic_shapes() -> Substitute:
    """Each answer for plain booleans and numbers; anything else is passed to the real function."""
    shapes = Substitute(_SHAPES)

    def passed_on(name: str, plain: Callable[..., Any], *types: type) -> Callable[..., Any]:
        def answer(first: Any, *others: Any, **settings: Any) -> Any:
            if (
                type(first) in types
                and all(type(other) in types for other in others)
                and not settings
            ):
                return plain(first, *others)
            return getattr(shapes.real(), name)(first, *others, **settings)

        return answer

    def same(value: Any) -> Any:
        return value

    def joined(operation: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        return lambda *values: reduce(operation, values)

    answers: dict[str, tuple[Callable[..., Any], tuple[type, ...]]] = {
        **dict.fromkeys(
            ("guard_or_false", "guard_or_true", "guard_size_oblivious", "statically_known_true"),
            (same, (bool,)),
        ),
        "expect_true": (same, (bool,)),
        "size_hint": (same, (int,)),
        "has_hint": (lambda _value: True, (int, float, bool)),
        "is_nested_int": (lambda _value: False, (int,)),
        "sym_and": (joined(operator.and_), (bool,)),
        "sym_or": (joined(operator.or_), (bool,)),
    }
    for name, (plain, types) in answers.items():
        shapes.__dict__[name] = passed_on(name, plain, *types)
    shapes.__dict__["sym_eq"] = partial(_equal_shapes, shapes)
    return shapes


def _equal_shapes(shapes: Substitute, first: Any, second: Any) -> Any:
    pair = (first, second)
    if all(type(one) is int for one in pair):
        return first == second
    if all(isinstance(one, (tuple, list)) and all(type(n) is int for n in one) for one in pair):
        return tuple(first) == tuple(second)
    return shapes.real().sym_eq(first, second)
