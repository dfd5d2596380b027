"""Where the project and the reference material are."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Real games, reference values: beside the checkout, or where BPO_SHARED says. Tests that need them skip where they are absent.
SHARED = Path(os.environ.get("BPO_SHARED", ROOT.parent / "shared"))
