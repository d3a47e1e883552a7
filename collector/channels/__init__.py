"""Side channels: what happens beside the ops, one small module each.

A channel that is off is a ``NoChannel``: nothing is imported, hooked or started.
"""
