"""The best of N answers by letter, one answer by rating; RewardBench-2's scores."""
