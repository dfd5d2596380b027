"""The random streams of a tree."""

import zlib

import numpy as np
import pytest

from bpo.builder import AUXILIARY, TreeBuilder


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1, 2**32, 2**70 + 3])
@pytest.mark.parametrize("auxiliary", [False, True])
def test_the_stream_of_a_child_is_that_of_numpys_default_generator(seed, auxiliary):
    builder = TreeBuilder("task", 3, (2, seed, 5))
    builder.append(None, None, 0.0, {})
    wanted = np.random.default_rng([2, seed, 5, zlib.crc32(b"task"), 3, 0, 4 + AUXILIARY * auxiliary])
    assert builder.stream(0, 4, auxiliary).random(5).tolist() == wanted.random(5).tolist()
