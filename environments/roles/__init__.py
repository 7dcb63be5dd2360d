"""Environments in which the policy may be the judge: its role, and how far a judge agrees with gold labels."""
