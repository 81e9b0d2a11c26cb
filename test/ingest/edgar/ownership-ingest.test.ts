/** Which filings of holders `/v1/ownership` shows after an ingest. */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import * as Stub from "../../support/EdgarStub.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import * as Service from "../../support/Service.ts"
import { holding, owner, trade, writeForm } from "./OwnershipForms.ts"

// @module-tag waiting

class DatabaseUrl extends Context.Service<DatabaseUrl, string>()("test/ingest/OwnershipIngestDatabaseUrl") {
  static readonly layer = Layer.effect(
    DatabaseUrl,
    Effect.map(Service.copyMigratedDatabase, (url) => Redacted.value(url)),
  )
}

const databaseLayer = Layer.unwrap(
  Effect.map(
    DatabaseUrl,
    (url) => databaseClientLayer({ url: Redacted.make(url), applicationName: "tickerline-test" }),
  ),
)

const { zivo } = Stub.stubCompanies

const filings = ["0001101026-26-000002", "0001101026-26-000001"].map((accession, index): Stub.ListedFiling => ({
  accession,
  form: index === 0 ? "4/A" : "4",
  filingDate: index === 0 ? "2026-06-12" : "2026-06-10",
  primaryDocument: "xslF345X05/form4.xml",
}))

/** Publishes a Form 4 and its amendment, ingests them, and returns a function that requests `/v1/ownership`. */
const ingest = Effect.fnUntraced(function* (amendment: ReadonlyArray<string>) {
  const stub = yield* Stub.startEdgarStub
  yield* Stub.removeRequestLimit
  stub.answers.set(Stub.tickerListPath, Stub.makeTickerList([zivo]))
  stub.answers.set(`/submissions/CIK${zivo.cik}.json`, Stub.makeSubmissions(zivo, filings))
  const original = trade({ held: "600", traded: "100", direction: "A", date: "2026-06-09" })
  for (const [index, shares] of [amendment, [original]].entries()) {
    const { accession, form } = filings[index] ?? assert.fail("there is no filing")
    const text = writeForm({ type: form, issuer: zivo.cik, owners: owner(""), period: "2026-06-09", shares })
    stub.answers.set(Stub.getFilingDocumentPath(zivo, accession, "form4.xml"), Stub.makeXmlAnswer(text))
  }
  const ended = yield* runCommandInProcess(
    ["ingest", "edgar", "--since", "2026-01-01", "--only", "ownership", "--tickers", "ZIVO"],
    { DATABASE_URL: yield* DatabaseUrl, EDGAR_BASE_URL: stub.url, EDGAR_USER_AGENT: "Acme Inc ops@acme.example" },
  )
  assert.strictEqual(ended.code, 0, ended.err)
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
  const withService = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.provide(effect, Layer.fresh(Layer.provideMerge(Service.serviceLayerOver(databaseLayer), DatabaseUrl.layer)))

  it.effect("stays the newest filing if its amendment only adds a holding (§2.7)", () =>
    withService(Effect.gen(function* () {
      const request = yield* ingest([holding({ held: "50", nature: "By Trust" })])
      for (const query of ["", "&per_holder=true"]) {
        assert.deepStrictEqual(yield* request(query), ["4", 600, "2026-06-09"], query)
      }
    })))

  it.effect("is replaced if its amendment corrects a transaction (§2.7)", () =>
    withService(Effect.gen(function* () {
      const request = yield* ingest([trade({ held: "610", traded: "110", direction: "A", date: "2026-06-08" })])
      for (const query of ["", "&per_holder=true"]) {
        assert.deepStrictEqual(yield* request(query), ["4/A", 610, "2026-06-08"], query)
      }
    })))
})
