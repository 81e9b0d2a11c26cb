/**
 * Creates accounts for a test and reads the recorded usage of their requests.
 *
 * ```ts
 * layer(serviceWithSettings({}), { excludeTestServices: true })("Usage", (it) => {
 *   it.effect("is recorded (D29)", () =>
 *     Effect.gen(function* () {
 *       const { account_id, key } = yield* createCustomer("acme", { tier: "pro", balance: 1_000_000 })
 *       yield* requestJson("/v1/news", { key })
 *       yield* waitForRecordedRequests(account_id, 1)
 *     }))
 * })
 * ```
 */
import { assert } from "@effect/vitest"
import { Clock, ConfigProvider, Data, Effect, Layer, Schedule, Struct } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import type * as Keys from "../../src/accounts/keys/ApiKeyManagement.ts"
import { UsageColumns } from "../../src/accounts/billing/UsageColumns.ts"
import type { UsageRecord } from "../../src/accounts/billing/UsageRecord.ts"
import { makeUsageWriter } from "../../src/accounts/billing/UsageWriter.ts"
import type { Tier } from "../../src/contract/rules/EndpointAnnotations.ts"
import * as ListClients from "./ListClients.ts"
import * as Service from "./Service.ts"

const { requestJson, valueAt } = Service

/** Provides additional settings for the service. Limits that are not set stay high. */
export const settingsLayer = (values: Readonly<Record<string, string>>) =>
  ConfigProvider.layerAdd(ConfigProvider.fromUnknown(values), { asPrimary: true })

/** Provides the service with additional settings. */
export const serviceWithSettings = (values: Readonly<Record<string, string>>) =>
  Service.layer.pipe(Layer.provide(settingsLayer(values)))

/** Builds a usage record without writing it. Omitted fields have default values. */
export const makeUsageRecord = (more: Partial<UsageRecord> = {}): UsageRecord => ({
  requested_at: Date.parse("2026-06-01T12:00:00.000Z"),
  account_id: 1,
  key_id: 1,
  request_id: "request",
  endpoint: "/v1/screener",
  status_code: 200,
  records_returned: 1,
  bytes: 100,
  cost_microdollars: 7,
  price_per_gb_microdollars: 70_000_000,
  duration_ms: 1,
  cached: false,
  deprecated: false,
  via: null,
  reservation_id: null,
  ...more,
})

/** Converts records to the columns of a batch. */
export const makeUsageColumns = (records: ReadonlyArray<UsageRecord>) => {
  const columns = new UsageColumns()
  for (const record of records) assert.isTrue(columns.add(record), "a batch has room for all records")
  return columns
}

/** The service's usage writer. `makeBatch` builds a batch from records. */
export const makeRecordWriter = Effect.map(makeUsageWriter, ({ makeBatch, write }) => ({
  makeBatch: (records: ReadonlyArray<UsageRecord>) => makeBatch(makeUsageColumns(records)),
  write,
}))

/** Inserts a row into the `usage` table, which counts requests rejected with 429. */
export const insertUsageRow = Effect.fnUntraced(function* (record: UsageRecord, request_count = 1) {
  const sql = yield* SqlClient.SqlClient
  const columns = Struct.omit(record, ["price_per_gb_microdollars", "requested_at", "reservation_id"])
  const requested_at = new Date(record.requested_at).toISOString()
  yield* sql`select create_usage_partition(${requested_at}::text::timestamptz)`
  yield* sql`
    insert into usage ${sql.insert({ ...columns, requested_at, usage_id: SecureRandom.uuidV7Unsafe(), request_count })}
  `
})

class NotRecorded extends Data.TaggedError("NotRecorded")<{ readonly message: string }> {}

/** Looks up the account ID and key ID of an API key. */
export const findAccountAndKeyIds = Effect.fnUntraced(function* (key: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly account_id: string; readonly key_id: string }>`
    select account_id::text, key_id::text from api_keys
    where key_hash = decode(${createHash("sha256").update(key).digest("hex")}, 'hex')
  `
  if (row === undefined) return yield* new NotRecorded({ message: "the key is not stored" })
  return { account_id: Number(row.account_id), key_id: Number(row.key_id) }
})

/** The options for a new customer. */
export interface CustomerOptions extends Partial<Keys.NewApiKey> {
  readonly tier?: Tier
  /** The prepaid balance in microdollars. If it is omitted, the account is postpaid. */
  readonly balance?: number
}

/** Creates an account with an API key. */
export const createCustomer = Effect.fnUntraced(
  function* (name: string, { balance, tier = "basic", ...more }: CustomerOptions = {}) {
    const sql = yield* SqlClient.SqlClient
    const key = yield* Service.ensureAccountWithKey(name, tier, more)
    const ids = yield* findAccountAndKeyIds(key)
    if (balance !== undefined) {
      yield* sql`
      update accounts set balance_microdollars = ${String(balance)}::text::bigint where account_id = ${ids.account_id}
    `
    }
    return { ...ids, key }
  },
)

const requireMachineClock = Clock.clockWith((clock) =>
  "adjust" in clock
    ? Effect.die(new Error("Nothing advances a test clock while retryUntil waits: use it.live or excludeTestServices"))
    : Effect.void
)

/**
 * Repeats an effect every 20 ms until `holds` returns true. Dies with the last result after 2,000 attempts. Dies
 * immediately under a test clock, which would make the test wait forever.
 */
export const retryUntil = <A, E, R>(effect: Effect.Effect<A, E, R>, holds: (found: A) => boolean) =>
  Effect.andThen(
    requireMachineClock,
    Effect.repeat(effect, { until: holds, schedule: Schedule.spaced("20 millis"), times: 2_000 }),
  ).pipe(
    Effect.tap((found) =>
      holds(found) ? Effect.void : Effect.die(new Error(`The condition was never met: ${JSON.stringify(found)}`))
    ),
  )

/** Counts the account's recorded requests. */
export const countRecordedRequests = Effect.fnUntraced(function* (account_id: number) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly rows: string }>`
    select count(*)::text as rows from usage_requests where account_id = ${account_id}
  `
  return Number(row?.rows)
})

/** Waits until at least `rows` of the account's requests have been recorded. */
export const waitForRecordedRequests = (account_id: number, rows: number) =>
  retryUntil(countRecordedRequests(account_id), (found) => found >= rows)

/**
 * Follows the `Link` headers and returns the rows of all pages. Asserts that every page except the last is full.
 * `between` runs after each page except the last.
 */
export const readAllPages = Effect.fnUntraced(function* <E = never, R = never>(
  first: string,
  key: string,
  limit: number,
  between: Effect.Effect<unknown, E, R> = Effect.void,
) {
  const seen: Array<unknown> = []
  let path: string | undefined = `${first}${first.includes("?") ? "&" : "?"}limit=${limit}`
  while (path !== undefined) {
    const { body, headers, status, text }: Effect.Success<ReturnType<typeof requestJson>> = yield* requestJson(path, {
      key,
    })
    assert.strictEqual(status, 200, text)
    const rows = ListClients.getResultRows(body)
    path = ListClients.getNextPageUrl(headers)
    assert.strictEqual(valueAt(body, "has_more"), path !== undefined)
    assert.strictEqual(valueAt(body, "count"), rows.length)
    seen.push(...rows)
    if (path === undefined) break
    assert.strictEqual(rows.length, limit)
    yield* between
  }
  return seen
})
