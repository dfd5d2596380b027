"""What processes that we start are told of the caller's environment: nothing by which a caller would change results."""

from __future__ import annotations

import os
from collections.abc import Mapping

# Variables, and beginnings of variables, that change what Python, git, notebooks, figures or printed tables are. Where packages
# come from, and how the network is reached, is the machine's business and stays.
DROPPED = (
    "COLUMNS",
    "LINES",
    "NO_COLOR",
    "FORCE_COLOR",
    "MPLBACKEND",
    "MPLCONFIGDIR",
    "MATPLOTLIBRC",
    "VIRTUAL_ENV",
    "LANGUAGE",
)
DROPPED_BEGINNINGS = ("GIT_", "PYTHON", "LC_", "CONDA_", "CLICOLOR", "IPYTHON", "JUPYTER_", "SETUPTOOLS_", "PIP_", "UV_")
KEPT = (
    *("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"),
    *("UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_INSECURE_HOST", "UV_OFFLINE"),
    *("UV_CACHE_DIR", "UV_NATIVE_TLS", "UV_HTTP_TIMEOUT", "UV_LINK_MODE", "UV_KEYRING_PROVIDER"),
    *("UV_PYTHON_INSTALL_DIR", "UV_PYTHON_INSTALL_MIRROR", "UV_PYTHON_DOWNLOADS", "UV_PYTHON_PREFERENCE"),
)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's variables without those that change results, text in UTF-8; then `extra`."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT or not _dropped(name)}
    return {**kept, "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1", **(extra or {})}


def _dropped(name: str) -> bool:
    return name in DROPPED or name.startswith(DROPPED_BEGINNINGS)
