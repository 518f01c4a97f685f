"""Whether the source of a function can be run. It is parsed, never executed."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpu_runtime.api.v1alpha1.gpufunction import SOURCE_LENGTH

LONGEST_LINE = 100


def source_error(source: str, entry: str) -> str:
    """Why the source cannot be used; empty when it can."""
    size = len(source.encode())
    if size > SOURCE_LENGTH:
        return f"has {size} bytes: at most {SOURCE_LENGTH} are allowed"
    try:
        module = ast.parse(source)
    except SyntaxError as error:
        return f"is not valid Python: line {error.lineno or 1}: {error.msg}{_quoted(error)}"
    except (ValueError, RecursionError, MemoryError):  # a NUL, or expressions that are nested too deeply
        return "is not valid Python: it has a NUL character, or is nested too deeply"
    return "" if defines(module.body, entry) else f"defines no {entry}, which handler.entry names"


def defines(statements: Iterable[ast.stmt], name: str) -> bool:
    """Whether the name is defined at the top level of the module, also in an `if`, `try`, `with` or loop there."""
    return any(_defines(each, name) for each in statements)


def _defines(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return statement.name == name
        case ast.Import() | ast.ImportFrom():
            # What a star brings is known only when it runs.
            return any((each.asname or each.name.partition(".")[0]) in (name, "*") for each in statement.names)
        case ast.Assign() | ast.AnnAssign():
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            named = [node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
            return any(node.id == name for node in named)
    inner = [part for field in ("body", "orelse", "finalbody") for part in getattr(statement, field, ())]
    handlers = [part for handler in getattr(statement, "handlers", ()) for part in handler.body]
    return defines([*inner, *handlers], name)


def _quoted(error: SyntaxError) -> str:
    text = (error.text or "").strip()
    return f": {text[:LONGEST_LINE]}" if text else ""
