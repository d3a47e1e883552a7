"""The collector: records a training run into a run folder, at a cost that lets it stay on.

Everything that needs torch lives here.  The parts are apart: ``config`` and ``schedule`` say what and when,
``window``, ``recorder`` and ``cupti`` record, ``channels`` record what happens beside, ``recording`` puts their
columns together, ``profiler`` drives them all.
"""
