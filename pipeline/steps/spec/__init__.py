"""Records of a `kind: steps` spec.

Does no I/O.  Imports core and pipeline.spec: a record keeps its place in the YAML, for messages.

model  the records: steps, their files, values of `for:`, environment"""
