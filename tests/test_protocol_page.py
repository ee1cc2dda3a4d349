"""Check ``docs/protocol.md``: cited sections exist, its examples run, its documents are valid."""

from __future__ import annotations

import doctest
import json
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import canonicalize

import pytest

from odps_nb.schema import TableSchema, TypeCode
from odps_nb.terms import BlobReference, PartitionSpec, RowRangeSplit, TableName
from odps_nb.wire import calls, control
from odps_nb.wire.calls import encode_error_json, encode_error_xml
from odps_nb.wire.type_text import parse_columns

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "protocol.md"
TEXT = PAGE.read_text("utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"^<!-- ([^\n]+) -->\n```(json|xml)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

# -- citations --------------------------------------------------------------------------------

READ = ("odps_nb", "tests", "docs", "fuzz", "tools", "benchmarks", "*.md")
NUMBER = r"\d+(?:\.\d+)*"
LIST = rf"{NUMBER}(?:(?:, | and | to ){NUMBER})*"
CITATION = re.compile(rf"`docs/protocol\.md`{{1,2}} sections? ({LIST})")
SECTION = re.compile(rf"\b[Ss]ections? ({LIST})")
ELSEWHERE = re.compile(rf"\bRFC \d+ sections? {LIST}")
MENTION = re.compile(r"(?:\]\()?(?<![\w-])(?:[\w./-]*/)?protocol\.md")
THE_PAGE = {"docs/protocol.md", "](docs/protocol.md", "](protocol.md", "](../protocol.md"}


def _pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every file that may cite, with line breaks removed."""
    for place in READ:
        found = ROOT.glob(place) if "*" in place else (ROOT / place).rglob("*")
        for path in sorted(found):
            if path.suffix in (".py", ".md") and path not in (PAGE, Path(__file__)):
                text = path.read_text("utf-8")
                yield str(path.relative_to(ROOT)), re.sub(r"\s*\n\s*(?:# )?", " ", text)


def _sections(text: str) -> dict[str, str]:
    """Return the title of each numbered section of the page."""
    return dict(re.findall(rf"^#{{2,3}} ({NUMBER})\.? (.+)$", text, re.MULTILINE))


def _cited(numbers: str) -> Iterator[str]:
    """Yield each section in a list, including those between the ends of ``3.8 to 3.10``."""
    for part in re.split(", | and ", numbers):
        first, _, last = part.partition(" to ")
        yield first
        if last:
            chapter, number = first.split(".")
            assert last.split(".")[0] == chapter, f"{part} contains sections of two chapters"
            yield from (f"{chapter}.{n}" for n in range(int(number) + 1, int(last[2:]) + 1))


def _wrong(text: str, sections: dict[str, str]) -> list[str]:
    """Return citations of sections that do not exist, or that have another form."""
    wrong = [
        f"section {number}"
        for numbers in CITATION.findall(text)
        for number in _cited(numbers)
        if number not in sections
    ]
    rest = ELSEWHERE.sub("", CITATION.sub("", text))
    wrong += [found[0] for found in SECTION.finditer(rest)]
    wrong += [found[0] for found in MENTION.finditer(rest) if found[0] not in THE_PAGE]
    return wrong


@pytest.mark.nightly
def test_every_citation_names_an_existing_section():
    sections = _sections(TEXT)
    wrong = {name: found for name, text in _pages() if (found := _wrong(text, sections))}
    assert not wrong


def test_cited_pages_are_in_the_repository():
    named = {page for _, text in _pages() for page in re.findall(r"``([\w./-]+\.md)``", text)}
    assert "docs/protocol.md" in named
    assert not [page for page in named if not (ROOT / page).exists()]


def test_the_citation_check_finds_citations():
    assert sum(len(CITATION.findall(text)) for _, text in _pages()) > 100


def test_sections_of_the_page_cite_each_other():
    sections = _sections(TEXT)
    joined = re.sub(r"\s*\n\s*", " ", TEXT)
    cited = {n for numbers in SECTION.findall(joined) for n in _cited(numbers)}
    assert cited <= sections.keys()
    numbers = [number for number in sections if "." not in number]
    assert numbers == [str(n) for n in range(1, len(numbers) + 1)]


@pytest.mark.parametrize(
    "text",
    [
        "see ``docs/protocol.md`` section 3.99",
        "see ``docs/protocol.md`` sections 3.1, 3.2 and 14",
        "see ``docs/protocol.md`` sections 3.8 to 3.99",
        "see ``protocol.md`` section 3.1",
        "see ``docs/protocol.md`` 3.1 and section 3.2",
        "as it is written (section 3.1)",
        "see /elsewhere/docs/protocol.md",
    ],
)
def test_a_wrong_citation_is_detected(text):
    assert _wrong(text, _sections(TEXT))


# -- examples ---------------------------------------------------------------------------------


def test_python_examples_run_unchanged():
    globs: dict[str, object] = {}
    runner = doctest.DocTestRunner(
        optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL, verbose=False
    )
    for found in BLOCK.finditer(TEXT):
        if found[1] == "python":
            line = TEXT.count("\n", 0, found.start()) + 1
            test = doctest.DocTestParser().get_doctest(found[2], globs, PAGE.name, PAGE.name, line)
            assert test.examples, f"the block has no example, line {line}"
            runner.run(test, clear_globs=False)
            globs = test.globs
    assert runner.summarize().failed == 0


TABLE = TableName(project="p1", table="t")
COLUMNS = TableSchema(columns=parse_columns("id bigint"))
DOCUMENTS = {
    "read session": calls.CreateReadSession(table=TABLE).encode().body,
    "read session, answer": calls.ReadSessionAnswer(
        session_id="s-1",
        splits_count=1,
        schema=COLUMNS,
        expires_at=1795212245.0,
        estimated_size=100,
        estimated_rows=3,
    ).encode()[0],
    "rows": calls.ReadRows(table=TABLE, session_id="s-1", split=RowRangeSplit(0, 9)).encode().body,
    "preview": calls.Preview(
        table=TABLE,
        limit=2,
        partition=PartitionSpec((("region", "east"), ("dt", "20250701"))),
        columns=("id",),
    )
    .encode()
    .body,
    "write session": calls.CreateWriteSession(
        table=TABLE, partition=PartitionSpec((("p1", "aaa"), ("p2", "bbb"))), overwrite=True
    )
    .encode()
    .body,
    "write session, state": calls.WriteSessionStateAnswer(
        streams={"s1": 2, "s3": 2},
        min_uncommitted_staging_id="staging-000000000007",
        status="NORMAL",
    ).encode()[0],
    "commit": calls.CommitWriteSession(
        table=TABLE, session_id="w-1", streams=(("s1", 2), ("s3", 2))
    )
    .encode()
    .body,
    "rows written": calls.WriteRowsAnswer(row_offset=3, staging_id="staging-000000000005").encode()[
        0
    ],
    "instance": calls.InstanceSessionAnswer(
        download_id="d-1", record_count=3, owner="someone"
    ).encode()[0],
    "instance rows": calls.ReadInstance(project="p1", instance_id="i", session_id="d-1")
    .encode()
    .body,
    "blob written": calls.WriteBlobAnswer(
        references=(BlobReference.from_text("/wByZWYw"),),
        size=11,
        md5="5eb63bbbe01eeed093cb22bb8f5acdc3",
    ).encode()[0],
    "error": encode_error_json("InvalidArgument", "there is no column 'x'", "0AF1"),
    "error, REST": encode_error_xml("NoSuchObject", "ODPS-0130131:[1,1] Table not found", "0AF1"),
    "tenant": control.TenantInfo(
        name="local", tenant_id="1", parameters={"odps.namespace.schema": "false"}
    ).encode()[0],
    "table": control.TableInfo(
        name=TABLE, schema=COLUMNS, table_id="7", owner="someone", created_at=1700000000
    ).encode()[0],
    "job": control.SubmitSql(
        project="p1",
        sql="select 1",
        settings={"odps.sql.type.system.odps2": "true"},
        unique_id="5f2c8a4e-0d6b-4c7e-9a3f-2b1c0d9e8f7a",
    )
    .encode()
    .body,
    "cost": control.SqlCost(input_bytes=142500, complexity=1.5, udfs=0).encode().encode(),
    "result": control.InstanceResult(
        status="Terminated",
        tasks=(control.TaskResult(status="Success", text='"_c0"\n1\n', format="csv"),),
    ).encode()[0],
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_wire_package_parses_documents_on_the_page(name):
    ((kind, shown),) = [(kind, text) for one, kind, text in NAMED.findall(TEXT) if one == name]
    spelled = DOCUMENTS[name].decode()
    if kind == "json":
        assert json.loads(shown) == json.loads(spelled)
    else:
        assert canonicalize(shown, strip_text=True) == canonicalize(spelled, strip_text=True)


def test_every_document_on_the_page_is_checked():
    shown = [found for found in BLOCK.finditer(TEXT) if found[1] in ("json", "xml")]
    assert len(shown) == len(DOCUMENTS)
    assert {found[1] for found in BLOCK.finditer(TEXT)} == {"json", "python", "text", "xml"}


# -- tables -----------------------------------------------------------------------------------


def _section(number: str) -> str:
    return re.split(r"^#{2,3} ", TEXT.partition(f"### {number} ")[2], maxsplit=1, flags=re.M)[0]


def test_type_numbers_on_the_page_equal_those_in_the_code():
    rows = [row for row in _section("3.11").splitlines() if re.match(r"\| \d", row)]
    shown = dict(pair for row in rows for pair in re.findall(r"(\d+) \| (\w+)", row))
    assert shown == {str(code.value): code.name for code in TypeCode if code >= 0}


def test_error_codes_on_the_page_equal_those_of_the_embedded_service():
    shown = {code for code in re.findall(r"`([\w-]+)`", _section("8.2")) if code != "Code"}
    used = {
        code
        for path in (ROOT / "odps_nb" / "local").rglob("*.py")
        for code in re.findall(r'\bcode(?:: str )?=\s?"([\w-]+)"', path.read_text("utf-8"))
    }
    faults = (ROOT / "odps_nb" / "local" / "errors.py").read_text("utf-8")
    used |= set(re.findall(r'\bconflict\([^"]*?"(\w+)"\)', faults))
    signed = {
        "Unauthorized",
        "SignatureNotMatch",
        "RequestTimeTooSkewed",
    }  # codes that `wire.signing` raises
    assert shown == used | signed
