"""What the daemon and its fork server say to each other: records of one size, and nothing else.

    daemon ── Order: end this VM, make that one (its socket comes along), have it attempt an act ──► fork server
    daemon ◄── Event: a VM has ended, and how; number 0 once, when it is ready ── fork server

An order ends a VM and makes its successor in one go, as that is what a busy pool wants.

Import-light: between two forks little should be touched, as each page of it is copied anew.
"""

from __future__ import annotations

import struct

ORDER = struct.Struct("!QQB")
"""The number of the VM to end and of the one to make, 0 for none; what the latter is to attempt
(`probe.py`: its place in the list, from 1), 0 for a script."""

EVENT = struct.Struct("!QIi")
"""The number of a VM, its process ID and its exit status, negative for a signal. Of number 0, the
status tells which layers of `confine.LAYERS` are in force, a bit each."""
