"""How each repository of SWE-bench Verified is installed and tested: the harness's specifications, in our own form.

Facts from `MAP_REPO_VERSION_TO_SPECS` of the package swebench 4.1 (Python versions, packages, commands). New here are these:
all packages are taken as they were on one day, so that fewer have to be pinned; every repository is installed in place (`-e`);
Python 3.6 stands for 3.5, which uv does not serve; Sphinx's tests are started without tox. astropy, matplotlib and
scikit-learn compile C code and may need system libraries; their recipes have not been tried.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from bpo.errors import BadInput, choose
from bpo.sandboxes.swebench import logs
from bpo.sandboxes.swebench.instances import Instance, run_as_tests

# The harness's environments were first made in autumn 2023, from what the package index had then.
UNTIL = "2023-10-01"
PYTEST = "pytest -rA"
DJANGO = "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1"
SYMPY = "bin/test -C --verbose"


@dataclass(frozen=True)
class BuildRecipe:
    """How to install a version of a repository, and to test it.

    python     version of the interpreter; packages: what is installed beside the repository and what it asks for
    required   files of the repository that list further packages; those that are there are used
    extras     extras of the repository, like "[test]"
    edits      (file, pattern, replacement): lines that are changed before anything is installed, where the pattern occurs
    isolated   whether the repository is built with what it asks for itself, or with the packages above
    test       command that runs tests; paths of files, or what stands for them, are put after it
    parser     reads what it prints; variables: of the test's environment
    """

    python: str
    test: str = PYTEST
    parser: logs.Parser = logs.pytest
    packages: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    extras: str = ""
    edits: tuple[tuple[str, str, str], ...] = ()
    isolated: bool = True
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def runner(self) -> str:
        """Who runs the tests, by the names that `witness` has for them."""
        return {DJANGO: "unittest", SYMPY: "sympy"}.get(self.test, "pytest")

    def command(self, instance: Instance, changed: Sequence[str] | None = None) -> tuple[str, ...]:
        """The command that runs an instance's tests: those among the changed files, None: of its test patch's."""
        files = instance.test_files if changed is None else run_as_tests(changed)
        if self.test == DJANGO:
            # Its runner takes modules below tests/.
            files = tuple(path.removesuffix(".py").removeprefix("tests/").replace("/", ".") for path in files)
        return (*shlex.split(self.test), *files)


_DJANGO = BuildRecipe("3.6", DJANGO, logs.django, required=("tests/requirements/py3.txt",))
_MATPLOTLIB = BuildRecipe("3.7", parser=logs.pytest_mouse, packages=("pytest",), required=("requirements/testing/all.txt",))
_ASTROPY = BuildRecipe(
    "3.9",
    parser=logs.pytest_colored,
    extras="[test]",
    packages=("numpy==1.25.2", "pyerfa==2.0.0.3", "pytest==7.4.0", "pytest-astropy==0.10.0", "hypothesis==6.82.6"),
    edits=(("pyproject.toml", r'requires = \["setuptools",', 'requires = ["setuptools==68.0.0",'),),
)
_SKLEARN = BuildRecipe(
    "3.6",
    parser=logs.pytest_colored,
    packages=("numpy==1.19.2", "scipy==1.5.2", "cython<3", "setuptools", "pytest", "pandas", "matplotlib", "joblib"),
    isolated=False,
)
# Releases that dropped what Sphinx up to 4.4 was written for.
_SPHINX_OLD = tuple(
    ("setup.py", pattern, replacement)
    for pattern, replacement in (
        (r"Jinja2>=2.3", "Jinja2<3.0"),
        (r"'sphinxcontrib-applehelp'", "'sphinxcontrib-applehelp<=1.0.7'"),
        (r"'sphinxcontrib-devhelp'", "'sphinxcontrib-devhelp<=1.0.5'"),
        (r"'sphinxcontrib-qthelp'", "'sphinxcontrib-qthelp<=1.0.6'"),
        (r"'sphinxcontrib-htmlhelp(>=2.0.0)?'", "'sphinxcontrib-htmlhelp<=2.0.4'"),
        (r"'sphinxcontrib-serializinghtml(>=1.1.5)?'", "'sphinxcontrib-serializinghtml<=1.1.9'"),
        (r"alabaster>=0.7,<0.8", "alabaster>=0.7,<0.7.12"),
        (r"'packaging',", "'packaging', 'markupsafe<=2.0.1',"),
    )
)
_SPHINX = BuildRecipe("3.9", parser=logs.pytest_colored, packages=("Jinja2==3.0.3",), extras="[test]")
_PYTEST_COMMON = ("attrs==23.1.0", "packaging==23.1", "py==1.11.0")
_PYTEST_OLD = (*_PYTEST_COMMON, "more-itertools==10.1.0", "pluggy==0.13.1", "wcwidth==0.2.6")

# By repository: recipes, each with the first version that it is for.
RECIPES: Mapping[str, tuple[tuple[str, BuildRecipe], ...]] = {
    "astropy/astropy": (
        (
            "0",
            BuildRecipe(
                "3.6",
                "pytest -rA -vv -o console_output_style=classic --tb=no",
                logs.pytest_colored,
                packages=("setuptools==38.2.4", "numpy==1.16.0", "cython==0.27.3", "pytest==3.3.1", "pytest-astropy==0.2.1"),
                isolated=False,
            ),
        ),
        ("3.0", _ASTROPY),
        ("5.3", replace(_ASTROPY, python="3.10")),
    ),
    "django/django": (
        ("0", _DJANGO),
        ("4.0", replace(_DJANGO, python="3.8")),
        ("4.1", replace(_DJANGO, python="3.9")),
        ("5.0", replace(_DJANGO, python="3.11")),
    ),
    "matplotlib/matplotlib": (
        ("0", _MATPLOTLIB),
        ("3.1", replace(_MATPLOTLIB, python="3.8")),
        (
            "3.5",
            replace(_MATPLOTLIB, python="3.11", packages=("pytest", "numpy==1.25.2", "pillow==10.0.0", "pyparsing==3.0.9")),
        ),
    ),
    "mwaskom/seaborn": (
        (
            "0",
            BuildRecipe(
                "3.9",
                "pytest --no-header -rA",
                logs.pytest_either,
                packages=("matplotlib==3.7.2", "numpy==1.25.2", "pandas==2.0.0", "scipy==1.11.2", "pytest"),
                extras="[dev]",
            ),
        ),
    ),
    "pallets/flask": (
        (
            "0",
            BuildRecipe("3.9", packages=("pytest", "Werkzeug==2.3.7", "Jinja2==3.0.1", "itsdangerous==2.1.2", "click==8.0.1")),
        ),
        (
            "2.1",
            BuildRecipe("3.10", packages=("pytest", "Werkzeug==2.3.7", "Jinja2==3.1.2", "itsdangerous==2.1.2", "click==8.1.3")),
        ),
        (
            "2.2",
            BuildRecipe("3.11", packages=("pytest", "Werkzeug==2.3.7", "Jinja2==3.1.2", "itsdangerous==2.1.2", "click==8.1.3")),
        ),
    ),
    "psf/requests": (("0", BuildRecipe("3.9", parser=logs.pytest_paths, packages=("pytest",))),),
    "pydata/xarray": (
        (
            "0",
            BuildRecipe(
                "3.10",
                packages=(
                    "numpy==1.23.0",
                    "packaging==23.1",
                    "pandas==1.5.3",
                    "pytest==7.4.0",
                    "scipy==1.11.1",
                    "setuptools==68.0.0",
                    "dask==2022.8.1",
                ),
            ),
        ),
    ),
    "pylint-dev/pylint": (
        ("0", BuildRecipe("3.9", parser=logs.pytest_paths, required=("requirements_test.txt",))),
        (
            "3.0",
            BuildRecipe(
                "3.9",
                parser=logs.pytest_paths,
                required=("requirements_test.txt",),
                packages=("astroid==3.0.0a6", "setuptools"),
            ),
        ),
    ),
    "pytest-dev/pytest": (
        ("0", BuildRecipe("3.9", packages=(*_PYTEST_OLD, "atomicwrites==1.4.1", "six==1.16.0", "hypothesis", "xmlschema"))),
        ("5.3", BuildRecipe("3.9", packages=(*_PYTEST_OLD, "hypothesis", "xmlschema"))),
        (
            "6.0",
            BuildRecipe(
                "3.9", packages=(*_PYTEST_COMMON, "more-itertools", "pluggy==0.13.1", "toml==0.10.2", "iniconfig==2.0.0")
            ),
        ),
        (
            "6.3",
            BuildRecipe(
                "3.9",
                packages=(*_PYTEST_COMMON, "pluggy==0.13.1", "toml==0.10.2", "iniconfig==2.0.0"),
                edits=(("setup.cfg", ">=>=", ">="),),
            ),
        ),
        ("7.0", BuildRecipe("3.9", packages=(*_PYTEST_COMMON, "pluggy==0.13.1", "tomli==2.0.1", "iniconfig==2.0.0"))),
        ("7.4", BuildRecipe("3.9", packages=("packaging==23.1", "pluggy==1.3.0", "exceptiongroup==1.1.3", "tomli==2.0.1"))),
    ),
    "scikit-learn/scikit-learn": (
        ("0", _SKLEARN),
        ("1.0", replace(_SKLEARN, python="3.9", packages=(*_SKLEARN.packages, "pandas<2"))),
    ),
    "sphinx-doc/sphinx": (
        ("0", _SPHINX),
        ("3.0", replace(_SPHINX, packages=("Jinja2<3.0",), edits=_SPHINX_OLD)),
        ("4.5", _SPHINX),
        ("8.0", replace(_SPHINX, python="3.10")),
    ),
    "sympy/sympy": (
        (
            "0",
            BuildRecipe(
                "3.9",
                SYMPY,
                logs.sympy,
                packages=("mpmath==1.3.0",),
                variables={"PYTHONWARNINGS": "ignore::UserWarning,ignore::SyntaxWarning"},
            ),
        ),
    ),
}


def recipe(instance: Instance) -> BuildRecipe:
    """The recipe for an instance's repository and version; BadInput for a repository that is not in the table."""
    choose("repository of SWE-bench", instance.repo, RECIPES)
    version = _numbers(instance.version)
    if not version:
        raise BadInput(f"{instance.name}: the version {instance.version!r} has no number")
    return [recipe for first, recipe in RECIPES[instance.repo] if _numbers(first) <= version][-1]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))
