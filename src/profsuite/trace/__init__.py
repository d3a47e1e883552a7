"""The trace model: schema, tables, readers, store.  Imports nothing else of profsuite but errors."""
