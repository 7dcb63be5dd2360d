"""Long forms of `tests/faults`: mixed traffic with all faults, random kills, full disks, endpoints that are away."""
