"""Git for a tree search: the commit it starts from, worktrees, candidates as commits, and refs that keep them.

Not pure.  Imports core.text, store, machine.process and errors.

command     the git executable, without anybody's configuration; the lock of a repository
objects     commits, trees and differences without a checkout; the author and form of a commit; refs that keep the
            commits and texts of a run
worktrees   worktrees by name, each with the files of its commit; the repository that a candidate finds there
commits     candidates as commits and as patches: which files, which message
repository  the run's own repository, and how `repo:` becomes a commit in it"""
