"""Running commands on this machine and keeping them apart: processes, locks, confinement, load.

Not pure.  Imports core, store and errors.  guard and worker are run as scripts, found beside the modules that start
them, and import nothing of ours.

process   commands: started, logged with secrets blotted out, ended (no limits but time are set)
failures  failures in words, and whose they are
guard     the script that outlives a build to end what it left behind
worker    the script that calls functions of the user's files
job       the job of a stage; the workers and shared resources of a build
confine   keeps a command from writing to a project and reading what is sealed
patience  what is out: pauses that grow, one caller that tries, an end
landlock  the system calls of confinement
lock      one builder a run: the lock, its holder and heartbeat, takeover
exclusive the machine for oneself, for commands that time things
load      how many CPUs we may use, and how busy they are"""
