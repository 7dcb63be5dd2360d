"""Which changes are made, and which code is left alone."""

import ast
from pathlib import Path

from benchmarks.mutation.operators import Mutant, mutants_of


def mutants(folder: Path, text: str) -> list[Mutant]:
    (folder / "module.py").write_text(text)
    return list(mutants_of(folder, "module.py"))


def test_a_statement_is_changed_at_one_place_at_a_time(tmp_path: Path) -> None:
    cases = {
        "x = a < b": {"x = a <= b"},
        "x = a >= b": {"x = a > b"},
        "x = a == b != c": {"x = a != b != c", "x = a == b == c"},
        "x = a is not b": {"x = a is b"},
        "x = a not in b": {"x = a in b"},
        "x = a and b or c": {"x = a or b or c", "x = a and b and c"},
        "x = (a + b) * c": {"x = (a - b) * c", "x = (a + b) / c"},
        "x += a": {"x -= a"},
        "x = not a": {"x = a"},
        "x = 0.5": {"x = 1.5", "x = (-0.5)"},
        "x = f(key=True)": {"x = f(key=False)"},
        "f(a)": {"pass"},
        "x = [a for a in b if c(a)]": {"x = [a for a in b if (not (c(a)))]"},
        "x = a if b else c": {"x = a if (not (b)) else c"},
        "def f(a):\n    for b in a:\n        continue\n    return a\n": {"break", "return None"},
        "def f(a):\n    raise ValueError(a + 1)\n": {
            "pass"
        },  # whole, and its message is not changed
    }
    for statement, changed in cases.items():
        assert {mutant.after.strip() for mutant in mutants(tmp_path, statement)} == changed


def test_what_no_test_should_notice_is_left_alone(tmp_path: Path) -> None:
    for text in (
        *('"""A text of 3."""\n', "assert a < b\n", "x: Literal[1]\n", "Kind = Literal[1, 2]\n"),
        *(
            "logger.info('%d', a + 1)\n",
            "def f(a: Literal[1]) -> Literal[1]: ...\n",
            "@retry(3)\ndef f(): ...\n",
        ),
        *("class A(Protocol):\n    x = 1\n", "x = Field(description=a + b)\n", "x = f'{a}' + b\n"),
        *("if __name__ == '__main__':\n    main()\n", "if TYPE_CHECKING:\n    x = 1\n"),
    ):
        assert mutants(tmp_path, text) == []


def test_the_replaced_bytes_are_right_behind_other_scripts(tmp_path: Path) -> None:
    text = "x = 'жöß', a < b\n"

    [mutant] = mutants(tmp_path, text)

    data = text.encode()
    changed = (data[: mutant.start] + mutant.text.encode() + data[mutant.end :]).decode()
    assert ast.dump(ast.parse(changed)) == ast.dump(ast.parse("x = 'жöß', a <= b\n"))
