"""Whether a recording has become slower than a baseline, or exceeds a budget: what CI asks."""
