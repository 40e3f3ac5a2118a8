"""Running commands on this machine and keeping them apart: processes, cages, locks, load.

Not pure.  Imports core, store and errors.  guard and worker are run as scripts, found beside the modules that start
them, and import nothing of ours.

process   commands: started, watched, ended
redaction logs without secrets
failures  failures in words, and whose they are
guard     the script that outlives a build to end what it left behind
worker    the script that calls functions of the user's files
job       the job of a stage; the workers and shared resources of a build
cage      what a command may see, change and reach: bubblewrap, or Landlock
visibility what a command in a cage sees
cage_words cages in words: before anything runs, and which limit was in the way
grades    grades of cages, which of them this machine has, and the cure for one it has not
limits    limits on a command, by the kernel or by watching its tree
usage     limits of each process, what a tree of them uses, how busy the machine is
patience  what is out: pauses that grow, one caller that tries, an end
kernel    the system calls of cages: Landlock, seccomp, capabilities
lock      one builder a run: the lock, its holder and heartbeat, takeover; the machine for oneself
suspects  commands that their build may have died of: they run alone, then not at all"""
