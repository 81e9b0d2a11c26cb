/** Every list of the contract, read page by page while the account's requests are recorded: D8 (pages), D29 (usage). */
import { assert, layer } from "@effect/vitest"
import { Effect, Predicate } from "effect"
import * as CustomerUsage from "../../support/CustomerUsage.ts"
import * as DocumentedEndpoints from "../../support/DocumentedEndpoints.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"

const { requestJson, valueAt } = Service

const lists = DocumentedEndpoints.documentedEndpoints.filter(({ parameters }) =>
  parameters.some(({ name }) => name === "page")
)

/** Fields that requests of the account change in rows that are listed already. */
const changingFields = new Set(["requests", "errors", "bytes", "cost_microdollars", "last_used_at"])

const identify = (row: unknown) =>
  JSON.stringify(
    Predicate.isObject(row) ? Object.entries(row).filter(([name]) => !changingFields.has(name)) : row,
  )

layer(Service.sampleServiceLayer, { excludeTestServices: true, timeout: "120 seconds" })("Every list", (it) => {
  const assertPagesFit = Effect.fnUntraced(function* (endpoint: DocumentedEndpoints.DocumentedEndpoint) {
    const { account_id, key } = yield* CustomerUsage.createCustomer(`reads ${endpoint.path}`, { tier: "ultimate" })
    for (let keys = 0; keys < 3; keys++) yield* Service.ensureAccountWithKey(`reads ${endpoint.path}`, "ultimate")
    const paths = ["/v1/gap-stats", "/v1/news", "/v1/screener"]
    for (const path of paths) yield* requestJson(`${path}?limit=1`, { key })
    yield* CustomerUsage.waitForRecordedRequests(account_id, paths.length)
    const target = DocumentedEndpoints.buildUrl(endpoint.path, DocumentedEndpoints.makeRequiredQuery(endpoint))
    const listed = yield* requestJson(`${target}${target.includes("?") ? "&" : "?"}limit=100`, { key })
    assert.strictEqual(listed.status, 200, listed.text)
    const existing = ListClients.getResultRows(listed.body).map(identify)
    const seen: Array<string> = []
    let path: string | undefined = `${target}${target.includes("?") ? "&" : "?"}limit=1`
    for (let page = 1; path !== undefined && page <= 4; page++) {
      // The requests before, of which the last was that for the page before or for the list.
      yield* CustomerUsage.waitForRecordedRequests(account_id, paths.length + page)
      const { body, headers, status, text }: Effect.Success<ReturnType<typeof requestJson>> = yield* requestJson(
        path,
        { key },
      )
      assert.strictEqual(status, 200, text)
      assert.strictEqual(valueAt(body, "page"), page)
      seen.push(...ListClients.getResultRows(body).map(identify))
      path = ListClients.getNextPageUrl(headers)
    }
    const known = seen.filter((row) => existing.includes(row))
    assert.deepStrictEqual(known, existing.slice(0, known.length), endpoint.path)
    assert.isAtLeast(known.length, Math.min(existing.length, 3), endpoint.path)
  })

  it.effect("has each row once, in order, on its pages, although reading it is recorded (D8, D29)", () =>
    Effect.forEach(lists, assertPagesFit, { concurrency: "unbounded" }))
})
