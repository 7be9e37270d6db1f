"""The page that is written must be one that can be read again."""

from tests.interop.report import COLUMNS, Findings, findings_in, page


def test_a_page_says_what_was_found() -> None:
    found = Findings(
        versions={"franz-go": "1.2", "kcat": "1.7.1 (librdkafka 2.0.2)"},
        languages={"franz-go": "Go", "kcat": "C"},
        clients={
            (name, column): f"{name} {column}"
            for name in ("franz-go", "kcat")
            for column in COLUMNS
        },
        tools={"kafka-topics": "works", "kafka-configs": "fails"},
        scenarios={"members come and go": "works"},
    )
    text = page(found)
    assert "| kafka-configs | fails |" in text
    assert findings_in(text) == found
    assert findings_in("") == Findings()
