# SPDX-License-Identifier: Apache-2.0
"""Ranks that go on in their processes, after others of them are lost.

frames.py   what two ranks tell each other, once both have proved that they know the job's secret
address.py  where the place of a rank is, and whether its host is silent
place.py    where the ranks that are left meet: each rank has such a place, and the first of them
            that lives leads
members.py  the ranks that have begun together, as far as they are left

No launcher takes part. So the ranks do without PMIx and PMI-2, which know only the ranks that have
been started.
"""

from .members import Members
from .place import Consent

__all__ = ["Consent", "Members"]
