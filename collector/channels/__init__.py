"""Side channels: what happens beside the ops, one small module each.

``registry.make`` makes those that are on; of a channel that is off nothing is imported, hooked or started.
"""
