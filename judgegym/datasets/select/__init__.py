"""`judgegym select`: the best responses of a scored data set, or pairs of them, in the layouts that trainers read."""
