"""The methods: one file per family of rows, the table of all of them, and `build`, which fills in a row's parameters."""

from bpo.methods.construct import build
from bpo.methods.record import BuiltMethod, Method
from bpo.methods.selection import NamedSelector
from bpo.methods.table import METHODS, OBJECTIVES, SELECTORS
from bpo.param import Param

__all__ = ["METHODS", "OBJECTIVES", "SELECTORS", "BuiltMethod", "Method", "NamedSelector", "Param", "build"]
