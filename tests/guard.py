"""A pytest plugin: in the files that test the estimators a skipped test counts as failed, on every machine.

What the project says about bias and variance rests on these files, and a skip would let a clone without them pass.
"""

from __future__ import annotations

import pytest

NEVER_SKIP = frozenset(
    {
        "test_estimators_exact.py",
        "test_exact_reads.py",
        "test_early_ends.py",
        "test_invariants.py",
        "test_noise.py",
        "test_claims.py",
    }
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A test that skipped itself; a test that is known to fail (xfail) is no skip."""
    return _refused((yield), item.path.name)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """A whole file that skipped itself."""
    return _refused((yield), collector.path.name)


def _refused(report, name: str):
    if name in NEVER_SKIP and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"tests of the estimators must not be skipped; {name} was, because {_reason(report)}"
    return report


def _reason(report) -> str:
    where = report.longrepr
    return str(where[2] if isinstance(where, tuple) else where)
