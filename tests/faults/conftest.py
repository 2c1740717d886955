"""What the tests share is in faulty.py, which they import by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
