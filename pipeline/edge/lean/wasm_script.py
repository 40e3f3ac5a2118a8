"""lean.js, without its 100,000 functions for exports that nobody calls, and doing input and output itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pipeline.edge.lean.model import LeanStartError

HOST = Path(__file__).with_name("wasm_host.js")

ASSIGN = "function assignWasmExports(wasmExports){"
FIRST = "var _main,"  # opens the list of all names that exports are assigned to
TABLE = (
    '__indirect_function_table=Module["__indirect_function_table"]=wasmTable=wasmExports["__indirect_function_table"]'
)
ALWAYS = {"__main_argc_argv", "_emscripten_tls_init", "__wasm_call_ctors", "__indirect_function_table", "main"}
# exported for the loader, which finds them by name
ALWAYS |= {"__THREW__", "_mi_heap_default", "__threwValue"}

SYMBOL = "symbol=UTF8ToString(symbol);var result;var newSymIndex;var lib=LDSO.loadedLibsByHandle[handle];"
MOUNTS = (
    'FS.mount(NODEFS,{root:"/home"},"/home");FS.mount(NODEFS,{root:"/tmp"},"/tmp");var cwd=process.cwd();'
    'if(cwd.startsWith("/private/tmp/")){cwd=cwd.replace("/private/tmp/","/tmp/")}'
    'else if(cwd==="/private/tmp"){cwd="/tmp"}FS.chdir(cwd)'
)

# What stands in lean.js, exactly once, and what is to stand there.
REPLACED = (
    # the exports are known by their places in the table: no map of them by name is made
    (
        'mergeLibSymbols(wasmExports,"main");',
        'wasmImports["main"]=wasmImports["__main_argc_argv"]=wasmExports["__main_argc_argv"];',
    ),
    ("updateGOT(origExports);", ""),
    ("functionsInTableMap=new WeakMap;updateTableMap(0,wasmTable.length)", "functionsInTableMap=new WeakMap"),
    (
        SYMBOL + "newSymIndex=Object.keys(lib.exports).indexOf(symbol);if(newSymIndex==-1||lib.exports[symbol].stub){",
        "var place=hostSymbol(symbol);if(place)return place;" + SYMBOL + "{",
    ),
    # Lean recurses deeply
    (
        '{workerData:"em-pthread",name:"em-pthread"}',
        '{workerData:"em-pthread",name:"em-pthread",resourceLimits:{stackSizeMb:256}}',
    ),
    (
        "read(stream,buffer,offset,length,pos){if(!stream.tty||!stream.tty.ops.get_char){throw new FS.ErrnoError(60)}",
        "read(stream,buffer,offset,length,pos){return hostReadInput(buffer,offset,length);",
    ),
    (
        MOUNTS,
        "hostMount()",
    ),
    # the build counts what it runs, and would leave a file in the working directory
    ('{USER:"web_user"', '{LLVM_PROFILE_FILE:"/dev/null",USER:"web_user"'),
    (
        "catch(ex){__emscripten_thread_crashed();throw ex}",
        "catch(ex){hostLastWords(ex);__emscripten_thread_crashed();throw ex}",
    ),
)

# Functions of lean.js, and what they do first.
BEGUN = (
    ("___syscall_openat(dirfd,path,flags,varargs)", "var own=hostOpen(UTF8ToString(path),flags);if(own>=0)return own;"),
    ("_fd_read(fd,iov,iovcnt,pnum)", "if(fd>=HOST_FD)return hostRead(fd,iov,iovcnt,pnum);"),
    ("_fd_write(fd,iov,iovcnt,pnum)", "if(fd>=HOST_FD)return hostWrite(fd,iov,iovcnt,pnum);"),
    ("_fd_seek(fd,offset,whence,newOffset)", "if(fd>=HOST_FD)return hostSeek(fd,Number(offset),whence,newOffset);"),
    ("_fd_close(fd)", "if(fd>=HOST_FD)return hostClose(fd);"),
    ("___syscall_fstat64(fd,buf)", "if(fd>=HOST_FD)return hostStatOpen(fd,buf);"),
    ("___syscall_stat64(path,buf)", "var named=UTF8ToString(path);if(hostHas(named))return hostStat(named,buf);"),
    ("___syscall_ioctl(fd,op,varargs)", "if(fd>=HOST_FD)return -59;"),
    ("___syscall_fcntl64(fd,cmd,varargs)", "if(fd>=HOST_FD)return 0;"),
)


@dataclass(frozen=True)
class Script:
    """lean.js in three parts: before the names of exports, each of them with its assignment, and after."""

    before: str
    assignments: dict[str, str]
    after: str

    @property
    def used(self) -> dict[str, str]:
        """The assignments of names that the rest of the script mentions."""
        mentioned = set(re.findall(r"[A-Za-z_$][\w$]*", self.before)) | set(re.findall(r"[A-Za-z_$][\w$]*", self.after))
        return {name: text for name, text in sorted(self.assignments.items()) if name in mentioned}


def parsed(text: str) -> Script:
    at = _place(text, ASSIGN)
    start, body = text.rindex(FIRST, 0, at), at + len(ASSIGN)
    end = text.index("}", body)  # there are no braces in it
    assigned = re.compile(r'([A-Za-z_$][\w$]*)=(?:Module\["[^"]*"\]=)?wasmExports\["[^"]+"\].*')
    found = (assigned.fullmatch(part) for part in text[body:end].split(";"))
    return Script(text[:start], {match[1]: match[0] for match in found if match}, text[end + 1 :])


def needed(script: Script) -> frozenset[str]:
    """The exports that the script takes from the program by name."""
    texts = [*script.used.values(), script.before, script.after]
    found = {name for text in texts for name in re.findall(r'wasmExports\["([^"]+)"\]', text)}
    found |= {name for text in texts for name in re.findall(r"wasmExports\.(\w+)", text)}
    return frozenset(found | ALWAYS)


def rewritten(script: Script) -> str:
    names = [*script.used, "__indirect_function_table"]
    assignments = ";".join([*script.used.values(), TABLE])
    text = f"{script.before}var {','.join(names)};{ASSIGN}{assignments}}}{script.after}"
    for old, new in REPLACED:
        _place(text, old)
        text = text.replace(old, new)
    for function, first in BEGUN:
        head = f"function {function}{{"
        _place(text, head)
        text = text.replace(head, head + first)
    text = text.replace("process.stdin.fd", "0")  # asking for it would make a stream that reads ahead
    return HOST.read_text() + text.replace('console.log("[DEBUG', 'void("[DEBUG')


def _place(text: str, part: str) -> int:
    if text.count(part) != 1:
        raise LeanStartError(f"lean.js is not the one that is known: {text.count(part)} times {part[:80]!r}, not once")
    return text.index(part)
