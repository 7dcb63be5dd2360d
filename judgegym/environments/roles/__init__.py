"""For environments in which the policy may be the judge: the setting of its role, and comparison with gold labels."""
