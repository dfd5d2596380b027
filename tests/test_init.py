"""The names that `bpo` offers: lazy, complete, and the same for people, programs and type checkers."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys

import pytest
from places import ROOT

import bpo


def seen_by_type_checkers() -> dict[str, str]:
    """Name -> module of the imports under TYPE_CHECKING."""
    body = ast.parse((ROOT / "bpo" / "__init__.py").read_text()).body
    (block,) = [node for node in body if isinstance(node, ast.If)]
    return {alias.name: node.module for node in block.body for alias in node.names}


def test_every_name_is_imported_from_where_type_checkers_see_it():
    assert sorted(seen_by_type_checkers()) == sorted(bpo.__all__)
    for name, module in seen_by_type_checkers().items():
        assert getattr(bpo, name) is getattr(importlib.import_module(module), name)


def test_dir_lists_the_names_and_a_wrong_one_is_an_attribute_error():
    assert set(bpo.__all__) <= set(dir(bpo))
    with pytest.raises(AttributeError, match="no attribute 'Treee'"):
        bpo.Treee  # noqa: B018


def test_a_name_imports_its_own_module_and_torch_only_where_it_must():
    code = "import sys; from bpo import Growth, RootOnly, Tree, check_unbiased, grow, tree_lines; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_missing_package_is_named_with_its_pip_command():
    code = "import sys; sys.modules['torch'] = None\ntry:\n    from bpo import TabularPolicy\nexcept ImportError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "needs the package 'torch', which is not installed: pip install 'bpo[lm]'" in done.stdout
