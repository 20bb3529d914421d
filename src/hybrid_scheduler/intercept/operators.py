"""The operator `@` in a program's own modules: compiled as a call that may choose its device.

Positions in the source stay those of the operator, so that tracebacks are the same. The callable is a constant of
the code rather than a name, so that functions that are sent to another process by value find the plain operator
there. Files that mention a compiler of Python code are left alone, because such compilers read the operator itself.
"""

from __future__ import annotations

import ast
import importlib
import operator
import re
import warnings
from types import CodeType
from typing import Any

_PLACEHOLDER = "\0hybrid_scheduler: the operator @"
_COMPILERS = re.compile(rb"\b(numba|jax|torch|tensorflow|cupy|pythran|taichi|\w*jit)\b")


class _Operators:
    """Callable `matmul` of rewritten code; the plain operator until NumPy is there, and in other processes."""

    def __init__(self) -> None:
        self.matmul: Any = operator.matmul

    def __reduce__(self) -> tuple[Any, ...]:
        return importlib.import_module, ("operator",)


#: What all rewritten code calls.
OPERATORS = _Operators()


class OperatorRewriter(ast.NodeTransformer):
    """Replaces `a @ b` by a call.

    Parameters
    ----------
    name : str, optional
        Global name of the callable; without one a placeholder is called that `_with_operators` replaces.
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Replace one operation, and those inside it."""
        self.generic_visit(node)
        if not isinstance(node.op, ast.MatMult):
            return node
        function: ast.expr = ast.Name(self._name, ast.Load()) if self._name else ast.Constant(_PLACEHOLDER)
        if not self._name:
            function = ast.Attribute(function, "matmul", ast.Load())
        for part in ast.walk(function):
            # The callable has no width: an error is reported where the whole operation stands.
            if isinstance(part, ast.expr):
                part.lineno = node.lineno
                part.end_lineno = node.lineno
                part.col_offset = node.col_offset
                part.end_col_offset = node.col_offset
        return ast.copy_location(ast.Call(function, [node.left, node.right], []), node)


def rewritten_code(source: bytes, path: str) -> CodeType | None:
    """Compile a file with its operator `@` replaced; None if there is nothing to replace."""
    if b"@" not in source or _COMPILERS.search(source):
        return None
    try:
        with warnings.catch_warnings():  # reported when the file is compiled
            warnings.simplefilter("ignore")
            if not any(isinstance(node, ast.MatMult) for node in ast.walk(ast.parse(source, path))):
                return None
        tree = OperatorRewriter().visit(ast.parse(source, path))
        return _with_operators(compile(tree, path, "exec", dont_inherit=True))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # Python's own attempt reports it


def _with_operators(code: CodeType) -> CodeType:
    """Return code whose placeholder is the callable, in all functions inside it."""
    constants: list[Any] = []
    for value in code.co_consts:
        if isinstance(value, CodeType):
            value = _with_operators(value)
        constants.append(OPERATORS if type(value) is str and value == _PLACEHOLDER else value)
    return code.replace(co_consts=tuple(constants))
