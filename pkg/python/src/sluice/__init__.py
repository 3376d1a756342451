"""Client of Sluice: the HTTP API, and feeds that resume.

Verify webhooks with `sluice.webhook`, and work for subscriptions of mode `wake` with `sluice.worker`.
"""

from .client import Sluice
from .http import Frame, Response, SluiceError

__all__ = ["Frame", "Response", "Sluice", "SluiceError"]
