"""Fixtures of the tiny real runs; what they are made of is in running.py, which tests import by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from running import recipe, trainwright  # noqa: F401

from fakehub import fake_hub  # noqa: F401
