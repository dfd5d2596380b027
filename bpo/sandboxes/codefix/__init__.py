"""Program repair: a broken function, edits or a shell, hidden tests."""

from bpo.sandboxes.codefix.demos import demonstration
from bpo.sandboxes.codefix.sandbox import CodeFix

__all__ = ["CodeFix", "demonstration"]
