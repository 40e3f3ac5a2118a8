"""Backends that answer for ideas, plans, code and reviews: a command, a model behind HTTP, or a recording.

Not pure.  Imports store.files, machine and errors.

contract    questions, answers with their cost, and the two ways in which asking fails
calls       calls on disk: a question that was paid for is not asked again
complaints  complaints of programs and services, and whose matter it is that there was no answer
clients     recipes for Claude Code, Codex, aider, Gemini CLI and opencode
endpoints   models behind HTTP: the protocols of OpenAI and Anthropic; requests of a limited size and time
ask         asks a backend by its name; a command or a client, confined, or a recording"""
