"""Words that several files of this room share."""

#: What a pool with fewer threads than the CPU's own is called as a kind of device.
POOL = "threads"
