"""What training counts: rewards, groups, what was dropped, and how groups were judged together."""
