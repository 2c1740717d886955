"""The hub of these tests is shared with the real runs of tests/e2e."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from fakehub import fake_hub, fake_mirror  # noqa: F401
