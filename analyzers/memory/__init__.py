"""Memory: what is allocated when, the peak and what makes it, growth, fragmentation, what would fit."""
