"""Where the tests find the reference material, and what they skip without."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

# One thread per process: two busy torch threads on a shared core are many times slower than one.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("BPO_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def exact_moments() -> dict:
    path = SHARED / "reference" / "exact_moments.json"
    if not path.exists():
        pytest.skip(f"the reference values are not here: {path}")
    return json.loads(path.read_text())
