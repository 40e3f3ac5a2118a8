"""A night with a model that is often out, in minutes: a search is disturbed in every way, and nothing may be lost.

trouble  what goes wrong, by a seeded script: with the model, and with the machine
bill     what the server answered and what the search recorded, question by question"""
