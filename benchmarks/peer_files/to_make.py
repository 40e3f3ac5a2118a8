"""Writes a Makefile from the spec; `nothing` loads it and builds nothing."""

from expand import expand

rules = [(inputs, output) for _, _, inputs, output in expand()]
lines = [".SUFFIXES:", "MAKEFLAGS += -r -R", ".PHONY: all nothing"]
lines += ["ALL = " + " ".join(output for _, output in rules)]
lines += ["all: $(ALL)", "nothing:", "\t@echo $(words $(ALL)) targets"]
lines += [f"{output}: {' '.join(inputs)}\n\t@md5sum $^ > $@" for inputs, output in rules]
with open("Makefile", "w") as file:
    file.write("\n".join(lines) + "\n")
