"""A forkable shell: working trees in boxes that fork in microseconds and cannot hurt their host."""

from bpo.sandboxes.shell.limits import Limits, Result
from bpo.sandboxes.shell.sandbox import Shell
from bpo.sandboxes.shell.tiers import clean, findings, open_workspace
from bpo.sandboxes.shell.workspace import Workspace, WorkspaceSnapshot

__all__ = ["Limits", "Result", "Shell", "Workspace", "WorkspaceSnapshot", "clean", "findings", "open_workspace"]
