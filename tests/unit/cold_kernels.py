"""Lists the kernels that Python calls and `penstock.warm` does not compile (`python -m`)."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from types import ModuleType

from numba.core.dispatcher import Dispatcher

import penstock.warm


def _plain(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those inside of kernels."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.FunctionDef) and _decorated(node)):
            yield node
            yield from _plain(node)


def _decorated(function: ast.FunctionDef) -> bool:
    names = {d.id for d in function.decorator_list if isinstance(d, ast.Name)}
    return bool(names & {"kernel", "inlined", "lean", "lean_inlined"})


def _named(node: ast.AST, module: ModuleType) -> object:
    """What a name, or a name in another module, stands for."""
    match node:
        case ast.Name(id=name, ctx=ast.Load()):
            return vars(module).get(name)
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return getattr(vars(module).get(name), attribute, None)
    return None


def called(module: ModuleType) -> Iterator[Dispatcher]:
    """The kernels that the module's own code, outside of kernels, names."""
    for node in _plain(ast.parse(inspect.getsource(module))):
        found = _named(node, module)
        if isinstance(found, Dispatcher):
            yield found


if __name__ == "__main__":
    penstock.warm.compile_kernels()
    modules = [m for name, m in list(sys.modules.items()) if name.startswith("penstock.")]
    kernels = {kernel for module in modules for kernel in called(module)}
    cold = sorted(f"{k.__module__}.{k.__name__}" for k in kernels if not k.signatures)
    print(*cold, sep="\n", end="")
