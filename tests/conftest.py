"""Where the tests find the reference material, and what they skip without."""

from __future__ import annotations

import json
import os

import pytest
from places import SHARED

# One thread per process: two busy torch threads on a shared core are many times slower than one.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def exact_moments() -> dict:
    path = SHARED / "reference" / "exact_moments.json"
    if not path.exists():
        pytest.skip(f"the reference values are not here: {path}")
    return json.loads(path.read_text())
