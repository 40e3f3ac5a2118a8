// Put before lean.js: what the trimmed toolchain does on the host itself, in whichever thread asks.

// Where an exported function is in the table, or a constant in memory: two hashes of its name, and the place.
var hostSymbols;
function hostSymbol(name) {
  if (!hostSymbols) {
    var file = require("fs").readFileSync(__dirname + "/lean.sym");
    hostSymbols = new Uint32Array(file.buffer, file.byteOffset, file.length >> 2);
  }
  var bytes = (growMemViews(), HEAPU8), first = 0x811c9dc5, second = 0x1234567, byte;
  while ((byte = bytes[name++])) {
    first = Math.imul(first ^ byte, 0x01000193) >>> 0;
    second = Math.imul(second ^ byte, 0x5bd1e995) >>> 0;
    second = (second ^ (second >>> 15)) >>> 0;
  }
  var mask = hostSymbols.length / 3 - 1;
  for (var slot = first & mask; hostSymbols[slot * 3 + 2] !== 0; slot = (slot + 1) & mask)
    if (hostSymbols[slot * 3] === first && hostSymbols[slot * 3 + 1] === second) return hostSymbols[slot * 3 + 2];
  return 0;
}

// Every folder below / is seen under its own name, but for those that the program has of its own.
function hostMount() {
  var fs = require("fs");
  for (var name of fs.readdirSync("/")) {
    var folder = "/" + name;
    if (["/dev", "/proc", "/sys"].includes(folder) || !hostIsFolder(folder)) continue;
    if (!FS.analyzePath(folder).exists) FS.mkdir(folder);
    FS.mount(NODEFS, { root: fs.realpathSync(folder) }, folder);
  }
  FS.chdir(process.cwd());
}
function hostIsFolder(path) {
  try { return require("fs").statSync(path).isDirectory(); } catch (e) { return false; }
}
function hostHas(path) {
  return path.startsWith("/") && !/^\/(dev|proc|sys)(\/|$)/.test(path);
}

// Files opened here have numbers from HOST_FD on; the first three are the process's own.
var HOST_FD = 1 << 20;
var hostPositions = new Map();
function hostOpen(path, flags) {
  if (path === "/dev/stdin") return HOST_FD;
  if (path === "/dev/stdout") return HOST_FD + 1;
  if ((flags & 3) !== 0 || !hostHas(path) || !/\.(olean|ir)$/.test(path)) return -1;
  try {
    var fd = HOST_FD + require("fs").openSync(path, "r");
    hostPositions.set(fd, 0);
    return fd;
  } catch (e) { return -1; }
}
function hostClose(fd) {
  if (hostPositions.delete(fd)) require("fs").closeSync(fd - HOST_FD);
  return 0;
}

// One blocking read: as much as there is, at least a byte unless it is the end.
function hostReadInput(buffer, offset, length) {
  var fs = require("fs"), piece = Buffer.allocUnsafe(Math.min(length, 1 << 16));
  for (;;) {
    try {
      var read = fs.readSync(0, piece, 0, piece.length);
      for (var i = 0; i < read; i++) buffer[offset + i] = piece[i];
      return read;
    } catch (e) {
      if (e.code === "EOF") return 0;
      if (e.code !== "EAGAIN") throw e;
      hostPause();
    }
  }
}
function hostPause() {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
}
function hostReadFile(fd, buffer) {
  var fs = require("fs"), position = hostPositions.get(fd), read = 0, more;
  while (read < buffer.length) {
    more = fs.readSync(fd - HOST_FD, buffer, read, buffer.length - read, position + read);
    if (more <= 0) break;
    read += more;
  }
  hostPositions.set(fd, position + read);
  return read;
}
function hostRead(fd, vectors, count, total) {
  var sum = 0;
  for (; count > 0; count--, vectors += 8) {
    var pointer = (growMemViews(), HEAPU32)[vectors >> 2], length = HEAPU32[(vectors + 4) >> 2];
    if (!length) continue;
    var input = fd === HOST_FD;
    var read = input ? hostReadInput(HEAPU8, pointer, length) : hostReadFile(fd, Buffer.from(HEAPU8.buffer, pointer, length));
    sum += read;
    if (input || read < length) break;
  }
  HEAPU32[total >> 2] = sum;
  return 0;
}
function hostWrite(fd, vectors, count, total) {
  var fs = require("fs"), sum = 0;
  for (; count > 0; count--, vectors += 8) {
    var pointer = (growMemViews(), HEAPU32)[vectors >> 2], length = HEAPU32[(vectors + 4) >> 2];
    var bytes = Buffer.from(HEAPU8.slice(pointer, pointer + length)), written = 0;
    while (written < length) {
      try {
        written += fs.writeSync(fd - HOST_FD, bytes, written, length - written);
      } catch (e) {
        if (e.code !== "EAGAIN") throw e;
        hostPause();
      }
    }
    sum += length;
  }
  HEAPU32[total >> 2] = sum;
  return 0;
}
function hostSeek(fd, offset, whence, result) {
  if (!hostPositions.has(fd)) return 70;
  if (whence === 1) offset += hostPositions.get(fd);
  if (whence === 2) offset += require("fs").fstatSync(fd - HOST_FD).size;
  hostPositions.set(fd, offset);
  (growMemViews(), HEAP64)[result >> 3] = BigInt(offset);
  return 0;
}
function hostStatOpen(fd, buffer) {
  SYSCALLS.writeStat(buffer, require("fs").fstatSync(fd - HOST_FD));
  return 0;
}
function hostStat(path, buffer) {
  var found = require("fs").statSync(path, { throwIfNoEntry: false });
  if (!found) return -44;
  SYSCALLS.writeStat(buffer, found);
  return 0;
}

// A C++ exception that nobody caught is a number for JavaScript; its message is behind it.
function hostLastWords(thrown) {
  if (typeof thrown !== "number") return;
  updateMemoryViews();
  require("fs").writeSync(2, "uncaught exception of Lean: " + UTF8ToString(HEAPU32[(thrown + 4) >> 2]) + "\n");
}
