"""Source of a function: what is refused, and where it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipment.mutation import mutant
from gpu_runtime.api.v1alpha1.handler_source import source_error

GOOD = {
    "a function": "def main(payload):\n    return payload\n",
    "an async function": "async def main(payload):\n    return payload\n",
    "a class": "class main:\n    pass\n",
    "a value": "main = lambda payload: payload\n",
    "one of two values": "main, other = print, print\n",
    "an annotated value": "main: object = print\n",
    "an import": "from json import loads as main\n",
    "whatever a star brings": "from json import *\n",
    "a choice": "try:\n    import torch\nexcept ImportError:\n    def main(x): return x\nelse:\n    pass\n",
    "a branch": "if True:\n    pass\nelse:\n    def main(x): return x\n",
}
BAD = {
    "a broken line": ("def main(payload):\n    return (payload\n", "is not valid Python: line 2: '(' was never closed"),
    "another language": ("function main() {}", "is not valid Python: line 1: invalid syntax: function main() {}"),
    "a wrong indent": ("def main():\nreturn 1\n", "is not valid Python: line 2: expected an indented block"),
    "nothing of that name": ("def other(payload): ...\n", "defines no main, which handler.entry names"),
    "a name inside a function": ("def other():\n    def main(): ...\n", "defines no main"),
    "a method": ("class Other:\n    def main(self): ...\n", "defines no main"),
    "a name that is only used": ("print(main)\n", "defines no main"),
    "a NUL": ("def main(): ...\n\0", "is not valid Python"),
    "deep signs": ("main = " + "-" * 100_000 + "1", "nested too deeply"),
    "deep calls": ("main = a" + "()" * 100_000, "nested too deeply"),
    "too many bytes in few characters": ("def main(): ...\n#" + "\N{SNOWMAN}" * 90_000, "bytes: at most 262144"),
}


@pytest.mark.parametrize("source", GOOD.values(), ids=GOOD)
def test_the_entry_may_be(source: str) -> None:
    assert source_error(source, "main") == ""


@pytest.mark.parametrize(("source", "words"), BAD.values(), ids=BAD)
@mutant("api/v1alpha1/handler_source.py", "    if size > SOURCE_LENGTH:", "    if False:")
@mutant("api/v1alpha1/handler_source.py", 'return "" if defines(module.body, entry) else', 'return "" if True else')
def test_source_is_refused_for(source: str, words: str) -> None:
    assert words in source_error(source, "main")


def test_source_is_never_run(tmp_path: Path) -> None:
    left = tmp_path / "left"
    assert source_error(f"open({str(left)!r}, 'w')\ndef main(): ...\n", "main") == ""
    assert not left.exists()
