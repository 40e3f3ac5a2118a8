"""What a tree search needs of git: where it starts, worktrees, candidates as commits, and refs that keep them.

Not pure.  Imports store.files, machine.process and errors.

command     the git executable, without anybody's configuration
folders     folders that somebody else had in hand; locks by file
objects     commits, trees and differences, read and written without a checkout
refs        refs that keep the commits and texts of a run
worktrees   worktrees by name, as a commit has them
commits     candidates as commits and as patches
repository  the run's own repository, and how `repo:` becomes a commit in it"""
