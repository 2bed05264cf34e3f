"""Puts the code of a spoiled module into a program that has the sound one loaded.

Called in a process that was forked for one mutant. Every function of the module that lives, however
it was wrapped, gets the code of its namesake; what the module did while it was imported stays done.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import TypeAlias

_Key: TypeAlias = tuple[str, int]

Living: TypeAlias = dict[str, list[FunctionType]]
"""Functions by the file that they come from."""


def living(folder: Path) -> Living:
    """The functions that this process has of the modules in a folder. Asked once, before the forks:
    it looks at every object that there is."""
    found: Living = {}
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename.startswith(f"{folder}/"):
            found.setdefault(each.__code__.co_filename, []).append(each)
    return found


def plant(functions: list[FunctionType], tree: ast.Module) -> int:
    """How many functions have other code now; what cannot be told apart is left as it was."""
    new = _by_name(compile(tree, functions[0].__code__.co_filename, "exec", dont_inherit=True))
    changed = 0
    for function in functions:
        old = function.__code__
        codes = new.get(_key(old), [])
        if len(codes) == 1 and codes[0].co_freevars == old.co_freevars:
            function.__code__ = codes[0]
            changed += 1
    return changed


def _key(code: CodeType) -> _Key:
    return code.co_qualname, code.co_firstlineno


def _by_name(module: CodeType) -> dict[_Key, list[CodeType]]:
    found: dict[_Key, list[CodeType]] = {}
    for code in _inside(module):
        found.setdefault(_key(code), []).append(code)
    return found


def _inside(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _inside(constant)
