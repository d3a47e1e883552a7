"""The dashboard: traces in a browser, from the answer down to the nanosecond."""
