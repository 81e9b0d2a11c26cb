/** Tests which ownership filings `/v1/ownership` returns after an ingest. */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as Stub from "../../support/EdgarStub.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import * as Service from "../../support/Service.ts"
import { holding, owner, trade, writeForm } from "./OwnershipForms.ts"
import { DatabaseUrl, withOwnService } from "../../support/OwnDatabases.ts"

// @module-tag waiting

const { zivo } = Stub.stubCompanies

const filings = ["0001101026-26-000002", "0001101026-26-000001"].map((accession, index): Stub.ListedFiling => ({
  accession,
  form: index === 0 ? "4/A" : "4",
  filingDate: index === 0 ? "2026-06-12" : "2026-06-10",
  primaryDocument: "xslF345X05/form4.xml",
}))

/** Publishes forms with the given lines, newest form first, and runs `ingest edgar`. */
const publishAndIngest = Effect.fnUntraced(function* (
  forms: ReadonlyArray<ReadonlyArray<string>>,
  since = "2026-01-01",
) {
  const stub = yield* Stub.startEdgarStub
  // A test that ingests again, with an earlier day, has removed the limit already.
  if (since === "2026-01-01") yield* Stub.removeRequestLimit
  const published = filings.slice(-forms.length)
  stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([zivo]))
  stub.responses.set(`/submissions/CIK${zivo.cik}.json`, Stub.makeSubmissions(zivo, published))
  for (const [index, shares] of forms.entries()) {
    const { accession, form } = published[index] ?? assert.fail("there is no filing")
    const text = writeForm({ type: form, issuer: zivo.cik, owners: owner(""), period: "2026-06-09", shares })
    stub.responses.set(Stub.getFilingDocumentPath(zivo, accession, "form4.xml"), Stub.makeXmlResponse(text))
  }
  const ended = yield* runCommandInProcess(
    ["ingest", "edgar", "--since", since, "--only", "ownership", "--tickers", "ZIVO"],
    { DATABASE_URL: yield* DatabaseUrl, EDGAR_BASE_URL: stub.url, EDGAR_USER_AGENT: "Acme Inc ops@acme.example" },
  )
  assert.strictEqual(ended.code, 0, ended.err)
  return ended
})

/** Publishes and ingests a Form 4 and its amendment. Returns a function that requests `/v1/ownership`. */
const ingest = Effect.fnUntraced(function* (amendment: ReadonlyArray<string>) {
  yield* publishAndIngest([amendment, [trade({ held: "600", traded: "100", direction: "A", date: "2026-06-09" })]])
  const { ultimate: key } = yield* Service.TestKeys
  return Effect.fnUntraced(function* (query: string) {
    const { body, text } = yield* Service.requestJson(`/v1/ownership?ticker=ZIVO${query}`, { key })
    return ["form_type", "owners", "reported_date"].map((field) =>
      field === "owners"
        ? Service.valueAt(body, "results", 0, "owners", 0, "common_shares_amount")
        : Service.valueAt(body, "results", 0, field)
    ).concat(text.includes('"count":1') ? [] : [text])
  })
})

layer(NodeServices.layer, { excludeTestServices: true })("An amended Form 4", (it) => {
  it.effect("stays the newest filing if its amendment only adds a holding (§2.7)", () =>
    withOwnService(Effect.gen(function* () {
      const request = yield* ingest([holding({ held: "50", nature: "By Trust" })])
      for (const query of ["", "&per_holder=true"]) {
        assert.deepStrictEqual(yield* request(query), ["4", 600, "2026-06-09"], query)
      }
    })))

  it.effect("is replaced by a whole holder if an operator confirms a value of such an amendment (§2.7)", () =>
    withOwnService(Effect.gen(function* () {
      const DATABASE_URL = yield* DatabaseUrl
      const request = yield* ingest([holding({ held: "50", nature: "By Trust" })])
      const run = (...args: ReadonlyArray<string>) =>
        runCommandInProcess(["ingest", "doubts", ...args], { DATABASE_URL })
      const doubts: ReadonlyArray<Readonly<Record<string, unknown>>> = JSON.parse((yield* run("--json")).out)
      const id = String(doubts.find(({ column }) => column === "common_shares_amount")?.["id"])
      const confirmed = yield* run("confirm", id)
      assert.match(confirmed.out, /the whole holder is shown\. Decided with it: .*owner_name/, confirmed.err)
      const { ultimate: key } = yield* Service.TestKeys
      const { text } = yield* Service.requestJson("/v1/ownership?ticker=ZIVO", { key })
      assert.include(text, '"owner_name":"Doe Jane"')
      assert.include(text, '"common_shares_amount":50')
      assert.deepStrictEqual(JSON.parse((yield* run("--json")).out), [])
      const decided: typeof doubts = JSON.parse((yield* run("--json", "--decided")).out)
      const idOf = (name: string) => String(decided.find(({ column }) => column === name)?.["id"])
      yield* run("correct", idOf("event_date"), "--null")
      const undated = yield* Service.requestJson("/v1/ownership?ticker=ZIVO", { key })
      assert.include(undated.text, '"common_shares_amount":50')
      assert.include(undated.text, '"event_date":null')
      const unpadded = yield* run("correct", idOf("owner_cik"), "7")
      assert.include(unpadded.err, "has ten digits")
      const hidden = yield* run("correct", idOf("owner_name"), "--null")
      assert.include(hidden.out, "the whole holder is hidden")
      assert.deepStrictEqual(yield* request(""), ["4", 600, "2026-06-09"])
    })))

  it.effect("is replaced if its amendment corrects a transaction (§2.7)", () =>
    withOwnService(Effect.gen(function* () {
      const request = yield* ingest([trade({ held: "610", traded: "110", direction: "A", date: "2026-06-08" })])
      for (const query of ["", "&per_holder=true"]) {
        assert.deepStrictEqual(yield* request(query), ["4/A", 610, "2026-06-08"], query)
      }
    })))
})

layer(NodeServices.layer, { excludeTestServices: true })("A Form 4 that is read again", (it) => {
  it.effect("replaces its former rows, but not those of another source or filing (D38, decision 0106)", () =>
    withOwnService(Effect.gen(function* () {
      const line = (held: string) => [trade({ held, traded: "100", direction: "A", date: "2026-06-09" })]
      yield* publishAndIngest([line("700"), line("600")])
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into ownership (ticker, filed_at, form_type, accession_number, document_url, owner_name, last_updated)
        select ticker, filed_at, form_type, accession_number, document_url, 'Other Source', last_updated from ownership
      `
      // Each run starts a year earlier, so that all filings are read again.
      yield* publishAndIngest([line("701"), line("600")], "2025-01-01")
      const rows = yield* sql<{ readonly row: string }>`
        select concat_ws(' ', form_type, owner_name, common_shares_amount) as row from ownership order by row
      `
      assert.deepStrictEqual(rows.map(({ row }) => row), [
        "4 Doe Jane 600",
        "4 Other Source",
        "4/A Doe Jane 701",
        "4/A Other Source",
      ])
    })))
})

layer(NodeServices.layer, { excludeTestServices: true })("A Form 4 with a date that cannot be right", (it) => {
  it.effect("is listed with its document, and shows what an operator corrects (decision 0103)", () =>
    withOwnService(Effect.gen(function* () {
      const DATABASE_URL = yield* DatabaseUrl
      const run = (...args: ReadonlyArray<string>) =>
        runCommandInProcess(["ingest", "doubts", ...args], { DATABASE_URL })
      const line = trade({ held: "600", traded: "100", direction: "A", date: "2035-01-10" })
      const { out } = yield* publishAndIngest([[line]])
      assert.match(out, /1 value in doubt/)
      const { ultimate: key } = yield* Service.TestKeys
      const readDate = Effect.map(
        Service.requestJson("/v1/ownership?ticker=ZIVO", { key }),
        ({ body }) => Service.valueAt(body, "results", 0, "reported_date"),
      )
      assert.strictEqual(yield* readDate, "2026-06-09")
      const doubts: ReadonlyArray<Readonly<Record<string, unknown>>> = JSON.parse(
        (yield* run("--json", "--ticker", "ZIVO")).out,
      )
      assert.strictEqual(doubts.length, 1)
      const { column, dataset, document, id, published, read, reason } = doubts[0] ?? {}
      assert.deepStrictEqual([dataset, column, read, published, reason], [
        "ownership",
        "reported_date",
        "2035-01-10",
        "2026-06-09",
        "is after the filing",
      ])
      assert.include(String(document), "000110102626000001")
      const refused = yield* run("confirm", String(id))
      assert.strictEqual(refused.code, 1)
      assert.strictEqual((yield* run("correct", String(id), "2026-06-08")).code, 0)
      assert.strictEqual(yield* readDate, "2026-06-08")
      assert.deepStrictEqual(JSON.parse((yield* run("--json")).out), [])
    })))
})
