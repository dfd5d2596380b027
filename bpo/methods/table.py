"""THE TABLE: every method is where the tree grows, who gets credit and how the policy moves.

Notebooks, the command line and the documentation read METHODS; nothing else knows a method's name. A row is a `Method` at the
top of a module of this package, or of another package that registers it (group "bpo.methods"); its name there is its key.
Parts that rows choose from by name are found in the same way. The rows are found by looking, and no module here names them, so
that the code behind a run is that of its own row.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from bpo.methods.record import Method
from bpo.methods.selection import NamedSelector
from bpo.objective import Loss
from bpo.plugins import Registry, modules_of, parts_in

METHODS: Registry[Method] = Registry("method", "bpo.methods", Method, lambda: parts_in(modules_of("bpo.methods"), Method))
SELECTORS: Registry[NamedSelector] = Registry(
    "selector", "bpo.selectors", NamedSelector, lambda: parts_in(["bpo.methods.selectors"], NamedSelector)
)
OBJECTIVES: Registry[Loss] = Registry(
    "objective", "bpo.objectives", Callable, lambda: importlib.import_module("bpo.objective").OBJECTIVES
)
