#!/usr/bin/env python3
"""Generates archives like the SEC's submissions.zip and companyfacts.zip, and a ticker list, to measure a first load.

    python3 bench/edgar_archives.py /tmp/edgar --companies 2000
    python3 -m http.server --directory /tmp/edgar 8765 &
    EDGAR_BASE_URL=http://127.0.0.1:8765 npm run tickerline -- ingest edgar --all --archives /tmp/edgar \\
      --only news,registrations,float_outstanding,historical_float_pro,screener --user-agent "Bench bench@acme.example"

At full size (10,400 companies), the archives have 900,000 entries and the facts need 5 GB of disk. Sizes follow the
SEC's: lists of 100 to 1,000 filings, a second page for the longest, and facts of 0.1 to 4 MB.
"""
import argparse
import datetime
import json
import os
import random
import zipfile

FORMS = (
    ["4"] * 42 + ["8-K"] * 18 + ["10-Q"] * 6 + ["10-K"] * 2 + ["SC 13G/A"] * 6 + ["SCHEDULE 13G"] * 2 + ["424B5"] * 3
    + ["S-3", "S-1", "S-8", "EFFECT", "DEF 14A", "144", "D", "3", "CORRESP", "UPLOAD", "RW"]
)
TODAY = datetime.date.today()


def letters(number):
    text = ""
    for _ in range(4):
        text = chr(65 + number % 26) + text
        number //= 26
    return text


def make_filings(cik, count, newest, rng):
    """Makes the parallel arrays of a list of filings, newest first, about 80 filings a year."""
    rows = []
    day = newest
    for index in range(count):
        form = rng.choice(FORMS)
        accession = f"{cik:010d}-{day.year % 100:02d}-{count - index:06d}"
        xml = form in ("3", "4") or form.startswith("SCHEDULE")
        report = form in ("10-Q", "10-K")
        time = f"{rng.randint(6, 21):02d}:{rng.randint(0, 59):02d}:{rng.randint(0, 59):02d}"
        rows.append({
            "accessionNumber": accession,
            "filingDate": day.isoformat(),
            "reportDate": (day - datetime.timedelta(days=40)).isoformat() if report else "",
            "acceptanceDateTime": f"{day.isoformat()}T{time}.000Z",
            "act": "34",
            "form": form,
            "fileNumber": f"333-{rng.randint(200000, 200000 + count // 20)}" if form[0] in "SER" or "424" in form else "001-1",
            "filmNumber": str(rng.randint(10**8, 10**9)),
            "items": rng.choice(["2.02,9.01", "5.02", "8.01", "1.01,3.02,9.01"]) if form == "8-K" else "",
            "core_type": form,
            "size": rng.randint(3000, 9_000_000),
            "isXBRL": int(report),
            "isInlineXBRL": int(report),
            "primaryDocument": "xslF345X05/form4.xml" if xml else f"d{rng.randint(1, 10**6)}.htm",
            "primaryDocDescription": form,
        })
        day -= datetime.timedelta(days=rng.choice([0, 1, 3, 5, 9, 10]))
    return {key: [row[key] for row in rows] for key in rows[0]}, day


def make_submissions(cik, name, ticker, rng):
    count = rng.choice([100, 200, 400, 700, 1000, 1000])
    recent, oldest = make_filings(cik, count, TODAY - datetime.timedelta(days=rng.randint(1, 20)), rng)
    pages = []
    if count == 1000 and rng.random() < 0.5:
        older, first = make_filings(cik, 1000, oldest, rng)
        page = f"CIK{cik:010d}-submissions-001.json"
        pages.append((page, older, {"name": page, "filingFrom": first.isoformat(), "filingTo": oldest.isoformat()}))
    return {
        "cik": f"{cik:010d}", "entityType": "operating", "sic": "7372", "sicDescription": "Services-Prepackaged Software",
        "name": name, "tickers": [ticker], "exchanges": ["Nasdaq"], "website": "", "formerNames": [],
        "filings": {"recent": recent, "files": [file for _, _, file in pages]},
    }, pages


def make_facts(cik, name, recent, rng):
    reports = [
        (form, accession, day)
        for form, accession, day in zip(recent["form"], recent["accessionNumber"], recent["filingDate"])
        if form in ("10-Q", "10-K")
    ]

    def facts(base):
        return [{
            "start": "2020-01-01", "end": (datetime.date.fromisoformat(day) - datetime.timedelta(days=40)).isoformat(),
            "val": base + rng.randint(0, base // 10), "accn": accession, "fy": int(day[:4]), "fp": "Q1", "form": form,
            "filed": day, "frame": "CY2020Q1I",
        } for form, accession, day in reversed(reports)]

    def concept(unit, base):
        return {"label": "Label of a concept", "description": "Amount of the concept. " * 8, "units": {unit: facts(base)}}

    size = rng.choice([30, 80, 150, 250, 400])
    return {"cik": cik, "entityName": name, "facts": {
        "dei": {
            "EntityCommonStockSharesOutstanding": concept("shares", 50_000_000),
            "EntityPublicFloat": concept("USD", 900_000_000),
        },
        "us-gaap": {f"ConceptNumber{index}WithALongName": concept("USD", 10**9) for index in range(size)},
    }}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--companies", type=int, default=10_400)
    parser.add_argument("--entries", type=int, help="entries of submissions.zip (default: 86 per company)")
    options = parser.parse_args()
    rng = random.Random(1)
    os.makedirs(f"{options.folder}/files", exist_ok=True)
    listed = []
    deflated = {"compression": zipfile.ZIP_DEFLATED, "compresslevel": 1}
    with zipfile.ZipFile(f"{options.folder}/submissions.zip", "w", **deflated) as lists, \
            zipfile.ZipFile(f"{options.folder}/companyfacts.zip", "w", **deflated) as facts:
        for number in range(options.companies):
            cik, name, ticker = 1_000_000 + number, f"Company {number} Inc.", letters(number)
            submissions, pages = make_submissions(cik, name, ticker, rng)
            lists.writestr(f"CIK{cik:010d}.json", json.dumps(submissions, separators=(",", ":")))
            for page, older, _ in pages:
                lists.writestr(page, json.dumps(older, separators=(",", ":")))
            text = json.dumps(make_facts(cik, name, submissions["filings"]["recent"], rng), separators=(",", ":"))
            facts.writestr(f"CIK{cik:010d}.json", text)
            listed.append([cik, name, ticker, "Nasdaq"])
        for number in range((options.entries or 86 * options.companies) - len(lists.namelist())):
            lists.writestr(f"CIK{1_500_000_000 + number:010d}.json", "{}")
    with open(f"{options.folder}/files/company_tickers_exchange.json", "w") as file:
        json.dump({"fields": ["cik", "name", "ticker", "exchange"], "data": listed}, file)


main()
