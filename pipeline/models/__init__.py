"""Backends that answer for ideas, plans, code and reviews: a command, a model behind HTTP, or a recording.

Not pure.  Imports store.files, machine and errors.

contract  questions, answers with their cost, and the two ways in which asking fails
calls     calls on disk: a question that was paid for is not asked again
openai    a model behind an HTTP endpoint
ask       asks a backend by its name; a command, confined, or a recording"""
