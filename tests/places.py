"""Where the project, the reference material and a browser are."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Reference values of the estimators: a part of the repository, so that these tests never skip.
REFERENCE = ROOT / "tests" / "reference"
# Real games, real products: beside the checkout, or where BPO_SHARED says. Tests that need them skip where they are absent.
SHARED = Path(os.environ.get("BPO_SHARED", ROOT.parent / "shared"))
# The first Chromium there is, and how it is started without a screen or a network.
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"]
