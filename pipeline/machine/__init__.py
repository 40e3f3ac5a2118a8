"""What runs commands on this machine, and what keeps them apart: processes, locks, confinement, load.

Not pure.  Imports core, store and errors.  guard and worker are run as scripts, found beside the modules that start
them, and import nothing of ours.

process   commands: started, logged with secrets blotted out, ended
failures  why something failed, in words, and whose failure it is
guard     the script that outlives a build to end what it left behind
worker    the script that calls functions of the user's files
job       what a stage gets to do its work; the workers and shared things of a build
confine   keeps a command from writing to a project and reading what is sealed
landlock  the system calls behind that
lock      one builder a run: the lock, its holder and heartbeat, takeover
load      how busy the machine is"""
