"""What a planted bug is made of."""

from typing import Any

Patch = tuple[Any, str, Any]  # owner, name, what to put there
