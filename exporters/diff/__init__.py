"""A comparison and a check in words and tables; each format is written by the exporter of its name."""
