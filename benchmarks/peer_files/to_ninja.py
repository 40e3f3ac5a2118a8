"""Writes build.ninja from the spec."""

from expand import expand

lines = ["rule digest\n  command = md5sum $in > $out"]
lines += [f"build {output}: digest {' '.join(inputs)}" for _, _, inputs, output in expand()]
with open("build.ninja", "w") as file:
    file.write("\n".join(lines) + "\n")
