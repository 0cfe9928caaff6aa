"""How a line says itself which rank it is from, whatever label its launcher has put before it."""

from __future__ import annotations

import re

#: PyTorch's label: the process that prints it has that rank in the whole job. ("rank 3: " may be said about another
#: one.) With what separates it from the text.
RANK_LABEL = re.compile(r"\[rank:? ?(\d{1,6})\]:? ?", re.IGNORECASE)
