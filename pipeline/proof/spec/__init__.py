"""Records of a proof spec. Pure; imports goals.

model  ProofSpec and its parts"""
