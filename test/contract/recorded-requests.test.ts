/**
 * Replays recorded requests, and compares the status, headers, trailers and body of each response, and the recorded
 * usage, with the recording. The requests are derived from the contract of the last release. The service is started as
 * in production, so the response cache serves repeated requests.
 *
 * To replace the recording, run `RECORD=1 npm run test:all -- recorded-requests`, then review the differences.
 *
 * @module-tag slow
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { Effect, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { createHash } from "node:crypto"
import { BaseUrl } from "../../src/api/BaseUrl.ts"
import type { Tier } from "../../src/contract/rules/EndpointAnnotations.ts"
import * as CustomerUsage from "../support/CustomerUsage.ts"
import * as Service from "../support/Service.ts"
import { refuseJobLeases, startServiceInstance } from "../support/ServiceInstances.ts"
import * as Exchanges from "./Exchanges.ts"
import * as Recording from "./Recording.ts"
import { makeRequestList, readContract } from "./RequestList.ts"

/** The current time for all requests. It is before the sunset of all deprecated endpoints. */
const now = Date.parse("2026-11-20T17:00:00Z")

const isRecording = (process.env["RECORD"] ?? "") !== ""
const howToRecord = "RECORD=1 npm run test:all -- recorded-requests"

/** Generates the same random numbers in every run, because responses contain key hints. */
const predictableRandom = SecureRandom.SecureRandom.use((secure) =>
  Effect.sync(() => {
    let count = 0
    return SecureRandom.SecureRandom.of({
      ...secure,
      intBetween: (low, high) =>
        Effect.sync(() =>
          low + createHash("sha256").update(`test ${count++}`).digest().readUInt32BE() % (high - low + 1)
        ),
    })
  })
)

/** Settings for all instances. Accounts in the tier `pro` may send one request per minute. */
const settings = {
  RATE_LIMIT_BASIC: String(Exchanges.generousLimit),
  RATE_LIMIT_PRO: "1",
  RATE_LIMIT_ULTIMATE: String(Exchanges.generousLimit),
  USAGE_RETENTION: "36500 days",
}

const instances = {
  main: { settings, base: "" },
  account: { settings, base: "" },
  browser: {
    settings: { ...settings, CORS_ORIGINS: "https://app.example.com" },
    base: "https://api.example.com/market",
  },
}

/** Creates the accounts, each with one key of the same name. Returns the keys by name. */
const createKeys = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const create = (name: string, tier: Tier, more: CustomerUsage.CustomerOptions = {}) =>
    Effect.map(CustomerUsage.createCustomer(name, { tier, ...more }), ({ key }) => [name, key] as const)
  const keys = new Map(
    yield* Effect.all([
      create("basic", "basic"),
      create("ultimate", "ultimate"),
      create("scout", "ultimate"),
      ...[1, 2, 3].map((number) => create(`pro ${number}`, "pro")),
      create("limited to screener", "ultimate", { endpoints: ["/v1/screener", "/v1/account"] }),
      create("without credit", "ultimate", { balance: 0 }),
      create("with little credit", "ultimate", { balance: 700 }),
      create("expired", "basic", { expires: "2026-01-01" }),
      create("disabled", "basic"),
      create("revoked", "basic"),
      create("unknown", "basic"),
    ]),
  ).set("malformed", "tl_live_malformed")
  yield* sql`update api_keys set disabled_at = now() from accounts
    where accounts.account_id = api_keys.account_id and accounts.name = 'disabled'`
  yield* sql`update api_keys set revoked_at = now() from accounts
    where accounts.account_id = api_keys.account_id and accounts.name = 'revoked'`
  yield* sql`delete from api_keys using accounts
    where accounts.account_id = api_keys.account_id and accounts.name = 'unknown'`
  return keys
})

/** Sets all times in responses to fixed values, and prevents background jobs from running. */
const fixTimes = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const times = [
    sql`update accounts set created_at = '2026-03-02T15:00:00Z'`,
    sql`update api_keys set created_at = timestamptz '2026-03-02T15:00:00Z' + key_id * interval '1 second'`,
    // Parquet files contain the data version.
    sql`update dataset_versions set changed_at = '2026-03-01T15:00:00Z', mark = md5(dataset || changes)::uuid`,
    sql`update history.beginning set earliest = '2026-02-01T15:00:00Z'`,
    sql`update history.counting_place set since = '2026-02-01T15:00:00Z', counted_until = '2026-03-01T15:00:00Z'`,
    sql`insert into history.change_counts values ('news', '2026-03-01', 'corrected', 'within_day', 7)`,
    sql`insert into history.corrected_fields values ('news', '2026-03-01', 'title', 7)`,
    // Each transaction has the same id in every run, so values derived from the id are reproducible.
    sql`update history.transactions set mark = md5(id::text)::uuid,
      recorded_at = timestamptz '2026-03-01T12:00:00Z' + id * interval '1 second' where recorded_at is not null`,
    sql`create function fix_last_use() returns trigger language plpgsql as $$
      begin new.last_used_at := '2026-11-20T17:00:00Z'; return new; end $$`,
    sql`create trigger fix_last_use before update of last_used_at on api_keys
      for each row execute function fix_last_use()`,
    sql`create function fix_last_charge() returns trigger language plpgsql as $$
      begin new.last_charged_at := '2026-11-20T17:00:00Z'; return new; end $$`,
    sql`create trigger fix_last_charge before update of last_charged_at on accounts
      for each row execute function fix_last_charge()`,
    refuseJobLeases,
  ]
  yield* sql.withTransaction(Effect.forEach(times, (statement) => statement, { discard: true }))
})

type RequestLists = Effect.Success<ReturnType<typeof makeRequestList>>

const startInstance = (name: Recording.InstanceName) =>
  startServiceInstance(instances[name].settings).pipe(Effect.provideService(BaseUrl, instances[name].base))

/** Creates the request lists from the last release's contract, with sample rows from an instance. */
const makeNewLists = (keys: ReadonlyMap<string, string>) =>
  Effect.gen(function* () {
    const port = yield* startInstance("main")
    return yield* makeRequestList(yield* Exchanges.makeSampleReader(port, keys.get("scout") ?? ""))
  }).pipe(Effect.scoped)

/** Reads the request lists from the recording. */
const readRecordedLists = Effect.map(Recording.readRecording, (exchanges): RequestLists => {
  const select = (name: Recording.InstanceName) =>
    exchanges.flatMap(({ instance, request }) => instance === name ? [request] : [])
  return { main: select("main"), account: select("account"), browser: select("browser") }
})

/**
 * Finds usage rows without a request, requests with two rows, and accounts whose rows are not in request order. Rows of
 * different accounts are not compared, because requests in the same millisecond have no defined order.
 */
const listUsageProblems = (
  sent: ReadonlyArray<Exchanges.SentExchange>,
  rows: Effect.Success<typeof Exchanges.readUsage>,
) => {
  const order = sent.map(({ requestId }) => requestId)
  // Excludes the rows that count refused requests, because these are written separately.
  const billed = Map.groupBy(rows.filter(({ usage }) => usage.status_code !== 429), ({ usage }) => usage.account)
  const places = Array.from(
    billed.values(),
    (accountRows) => accountRows.map(({ request_id }) => order.indexOf(request_id)),
  )
  return [
    ...rows.filter(({ request_id }) => !order.includes(request_id)).map((row) =>
      `  usage without a request: ${JSON.stringify(row)}`
    ),
    ...places.flatMap((accountPlaces) =>
      accountPlaces.flatMap((at, index) =>
        index > 0 && at <= (accountPlaces[index - 1] ?? -1)
          ? [`  recorded twice or too late: ${JSON.stringify(sent[at]?.request)}`]
          : []
      )
    ),
  ]
}

/** Fails if there are any problems. Vitest shows a long text in full only if it is an error message. */
const failWith = (problems: ReadonlyArray<string>) =>
  problems.length === 0
    ? Effect.void
    : Effect.die(new Error(`${problems.length} differences:\n${problems.slice(0, 25).join("\n")}`))

const databaseLayer = Service.sampleDatabaseLayer.pipe(
  Layer.provideMerge(Layer.mergeAll(NodeCrypto.layer, NodeServices.layer)),
  Layer.provideMerge(Layer.effectDiscard(TestClock.setTime(now))),
)

layer(databaseLayer, { timeout: "180 seconds" })("A recorded request", (it) => {
  it.effect("gets the same status, headers and body, and is recorded in the same way (§9.2)", () =>
    Effect.gen(function* () {
      const keys = yield* Effect.provideServiceEffect(createKeys, SecureRandom.SecureRandom, predictableRandom)
      yield* fixTimes
      const lists = isRecording ? yield* makeNewLists(keys) : yield* readRecordedLists
      const sent = yield* Effect.forEach(Recording.instanceNames, (instance) =>
        Effect.gen(function* () {
          const port = yield* startInstance(instance)
          const sent = yield* Exchanges.sendRequests(port, keys, lists[instance], instance)
          return sent.map((one) => ({ ...one, instance }))
        }).pipe(Effect.scoped))
      const all = sent.flat()
      // Each instance stored its usage before it stopped.
      const rows = yield* Exchanges.readUsage
      const usageById = new Map(rows.map(({ request_id, usage }) => [request_id, usage]))
      const describe = (request: Recording.RecordedRequest, problems: ReadonlyArray<string>) =>
        problems.length === 0 ? [] : [[Exchanges.describeRequest(request), ...problems].join("\n")]
      yield* failWith([
        ...all.flatMap(({ problems, request }) => describe(request, problems)),
        ...listUsageProblems(all, rows),
      ])
      const exchanges = all.map(({ instance, request, requestId, response }): Recording.Exchange => (
        { instance, request, response, usage: usageById.get(requestId) ?? null }
      ))
      if (isRecording) return Recording.writeRecording(exchanges)
      const recorded = yield* Recording.readRecording
      yield* failWith(
        exchanges.flatMap((exchange, index) =>
          describe(exchange.request, Recording.listDifferences(recorded[index], exchange))
        ),
      )
    }))
})

describe("The recorded requests", () => {
  it.effect("contain every endpoint and parameter of the released contract (§9.2)", () =>
    Effect.gen(function* () {
      const { paths } = yield* readContract
      const exchanges = yield* Recording.readRecording
      const targets = exchanges.map(({ request: { target } }) => new URL(target, "http://localhost"))
      for (const [path, { get: { parameters = [] } }] of Object.entries(paths)) {
        const found = targets.filter(({ pathname }) => pathname === path)
        assert.isNotEmpty(found, path)
        const sent = new Set(found.flatMap(({ searchParams }) => [...searchParams.keys()]))
        // `/estimate` documents the parameters of the estimated endpoint as a single parameter named `parameters`.
        const documented = parameters.flatMap(({ name }) => name === "parameters" ? [] : [name])
        assert.includeMembers([...sent], documented, `${path}; ${howToRecord}`)
      }
    }))
})
