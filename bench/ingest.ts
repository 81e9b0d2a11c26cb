/**
 * `npm run ingest` converts 2 GB of ownership filings to rows, and prints the throughput and the memory usage over
 * time. The filings are generated in this process from recorded SEC responses, which the tests use too.
 */
import { Result } from "effect"
import { globSync, readFileSync } from "node:fs"
import process from "node:process"
import { fileURLToPath } from "node:url"
import { makeOwnershipRows } from "../src/ingest/edgar/read/OwnershipRows.ts"
import { readMemory } from "./processStats.ts"

const totalBytes = 2_000_000_000
const bytesPerReport = 200_000_000

const recordings = fileURLToPath(new URL("../test/ingest/edgar/recordings/", import.meta.url))

/** Returns the text of the first element whose name is one of `elements`, a list separated by `|`. */
const findText = (xml: string, elements: string) => new RegExp(`<(?:${elements})>([^<]*)`).exec(xml)?.[1]?.trim() ?? ""

const documents = globSync(`${recordings}{ownership,schedule13}/*.xml`).toSorted().map((file) => {
  const xml = readFileSync(file, "utf8")
  const marker = "<issuerName>"
  const end = xml.indexOf(marker) + marker.length
  return {
    before: xml.slice(0, end),
    after: xml.slice(end),
    form: findText(xml, "documentType|submissionType"),
    issuerCik: findText(xml, "issuerCik|issuerCIK"),
  }
})

/**
 * Yields the documents in turn, endlessly. A different number is inserted into each document, so that no two texts are
 * equal.
 */
const generateFilings = function* () {
  for (let number = 0;; number += 1) {
    const document = documents[number % documents.length]
    if (document === undefined) return
    const { after, before, form, issuerCik } = document
    yield {
      bytes: Buffer.from(`${before}${number} ${after}`),
      form,
      issuerCik,
      number,
    }
  }
}

const decoder = new TextDecoder("utf-8", { fatal: true })

const count = { filings: 0, bytes: 0, rows: 0, rejected: 0 }

const start = { time: performance.now(), cpu: process.cpuUsage() }

/** Prints the throughput since the start. */
const report = () => {
  const seconds = (performance.now() - start.time) / 1000
  const { system, user } = process.cpuUsage(start.cpu)
  const cpuSeconds = (system + user) / 1e6
  const { most, now } = readMemory(process.pid)
  console.log(
    `${(count.bytes / 1e9).toFixed(1)} GB  ${count.filings} filings  ${count.rows} rows  ${count.rejected} rejected  ` +
      `${Math.round(count.filings / seconds)} per second  ${Math.round(count.filings / cpuSeconds)} per CPU second  ` +
      `${Math.round(now)} MiB, at most ${Math.round(most)}`,
  )
}

for (const { bytes, form, issuerCik, number } of generateFilings()) {
  const accession = `0000000000-26-${String(number % 1_000_000).padStart(6, "0")}`
  const read = makeOwnershipRows({
    issuer: {
      cik: issuerCik,
      ticker: "ACME",
      tickers: ["ACME"],
      name: "Acme Inc",
      exchange: null,
    },
    filing: {
      accession,
      form,
      filingDate: "2026-09-10",
      acceptedAt: null,
      documentUrl: `https://www.sec.gov/Archives/edgar/data/1/${accession.replaceAll("-", "")}/primary_doc.xml`,
    },
    text: decoder.decode(bytes),
  })
  const reported = Math.floor(count.bytes / bytesPerReport)
  count.filings += 1
  count.bytes += bytes.length
  if (Result.isSuccess(read)) count.rows += read.success.rows.length
  else count.rejected += 1
  if (Math.floor(count.bytes / bytesPerReport) > reported) report()
  if (count.bytes >= totalBytes) break
}
