"""SWE-bench Verified: issues of real repositories, in boxes that fork, judged by their hidden tests."""

from bpo.sandboxes.swebench.environments import Prepared, ToolError, prepare
from bpo.sandboxes.swebench.grading import SuiteReport, grade, opened
from bpo.sandboxes.swebench.instances import Instance, load
from bpo.sandboxes.swebench.releases import release
from bpo.sandboxes.swebench.sandbox import SweBench

__all__ = [
    "Instance",
    "Prepared",
    "SuiteReport",
    "SweBench",
    "ToolError",
    "grade",
    "load",
    "opened",
    "prepare",
    "release",
]
