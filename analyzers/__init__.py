"""Pure functions from a trace to tables, findings and a verdict; one question a file."""
