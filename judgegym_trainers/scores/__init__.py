"""The scores of texts that a trainer has: from a reward server over HTTP, or from a judge in this process."""
