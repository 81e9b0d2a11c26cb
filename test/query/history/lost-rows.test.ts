/**
 * Tests that everything that reads the history keeps working if an operator deletes history rows by mistake
 * (operations/history).
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Logger, Metric, Redacted, Schema, Stream } from "effect"
import { FetchHttpClient } from "effect/http"
import { SqlClient } from "effect/sql"
import { makeClient } from "../../../src/client/Client.ts"
import { createClient } from "../../../src/client/PromiseClient.ts"
import { DatabaseReader } from "../../../src/postgres/DatabaseReader.ts"
import { ChangeFeedReader } from "../../../src/query/history/ChangeFeed.ts"
import { countNextFeedChanges } from "../../../src/query/history/CorrectionCounts.ts"
import { openEventStream, waitForCondition } from "../../support/EventStreams.ts"
import * as Service from "../../support/Service.ts"

const { valueAt } = Service

const logged: Array<string> = []

/**
 * Collects what is logged by the change feed reader that the test uses to count corrections. The service's own log is
 * discarded.
 */
const logger = Logger.make(({ logLevel, message }) => void logged.push(`${logLevel} ${String(message)}`))

/** Holds the lease of the job that counts changes as if for another process, so only the test counts changes. */
const holdLease = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`insert into leases (name, holder, until) values ('corrections', gen_random_uuid(), 'infinity')`,
)

const service = Layer.fresh(ChangeFeedReader.layer).pipe(
  Layer.provide(DatabaseReader.layer),
  Layer.provideMerge(
    Service.serviceLayerOver(Layer.effectDiscard(holdLease).pipe(Layer.provideMerge(Service.migratedDatabaseLayer))),
  ),
)

const Page = Schema.Struct({
  results: Schema.Array(Schema.Struct({
    cursor: Schema.String,
    kind: Schema.String,
    key: Schema.Struct({ id: Schema.String }),
    row: Schema.NullOr(Schema.Struct({ details: Schema.NullOr(Schema.String) })),
    before: Schema.NullOr(Schema.Struct({ details: Schema.NullOr(Schema.String) })),
    changed: Schema.Array(Schema.String),
  })),
  has_more: Schema.Boolean,
})

const readChanges = Effect.fnUntraced(function* (after: string) {
  const { ultimate } = yield* Service.TestKeys
  const { body, status, text } = yield* Service.requestJson(`/v1/changes?${after}`, { key: ultimate })
  assert.strictEqual(status, 200, text)
  const { has_more, results } = Schema.decodeUnknownSync(Page)(body)
  assert.isFalse(has_more)
  return results
})

const addSplit = Effect.fnUntraced(function* (id: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    insert into split_status (id, ticker, action_type, executed, details, filed_at, form_type, last_updated)
    values (${id}, 'LOST', 'split_announced', false, 'first', '2026-01-02', '8-K', '2026-01-02 10:00:00')
  `
})

const correctSplit = (id: string, details: string) =>
  SqlClient.SqlClient.use((sql) => sql`update split_status set details = ${details} where id = ${id}`)

const countLostRows = Effect.map(
  Metric.snapshot,
  (metrics) =>
    metrics.flatMap(({ id, state }) =>
      id === "tickerline_changes_without_row_total" ? [Number(valueAt(state, "count"))] : []
    )[0],
)

layer(service, { excludeTestServices: true, timeout: "120 seconds" })("A lost row", (it) => {
  it.effect("is null in its change, and pages, streams, clients and counts continue (guides/changes)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ultimate } = yield* Service.TestKeys
      const port = yield* Service.servicePort
      assert.strictEqual(yield* countLostRows, 0)
      yield* addSplit("deleted")
      yield* correctSplit("deleted", "second")
      yield* correctSplit("deleted", "third")
      yield* sql`delete from split_status where id = 'deleted'`
      yield* sql`delete from history.split_status where id = 'deleted' and details <> 'second'`
      yield* addSplit("untracked")
      yield* sql`alter table split_status disable trigger history_update`
      yield* correctSplit("untracked", "second")
      yield* sql`alter table split_status enable always trigger history_update`
      yield* addSplit("later")

      const changes = yield* readChanges("")
      /**
       * For each change: the ID, the kind, the row's `details` after and before the change, and the number of changed
       * columns.
       */
      const summaries = changes.map(({ before, changed, key, kind, row }) => [
        key.id,
        kind,
        row === null ? null : row.details,
        before === null ? null : before.details,
        changed.length,
      ])
      assert.deepStrictEqual(summaries, [
        ["deleted", "added", null, null, 0],
        ["deleted", "corrected", "second", null, 0],
        ["deleted", "corrected", null, "second", 0],
        ["deleted", "removed", null, null, 0],
        ["untracked", "added", null, null, 0],
        ["untracked", "added", "second", null, 0],
        ["later", "added", "first", null, 0],
      ])
      // Each change lacks a row that the history should contain, except the second change of "untracked" and the only
      // change of "later".
      assert.strictEqual(yield* countLostRows, changes.length - 2)

      const cursors = changes.map(({ cursor }) => cursor)
      const stream = yield* openEventStream(port, "", { key: ultimate })
      yield* waitForCondition("the changes", () => stream.changes.length === cursors.length)
      assert.deepStrictEqual(stream.changes.map(({ id }) => id), cursors)

      const baseUrl = `http://127.0.0.1:${port}`
      const effectClient = yield* Effect.provide(
        makeClient({ baseUrl, apiKey: Redacted.make(ultimate) }),
        FetchHttpClient.layer,
      )
      for (const via of ["stream", "polling"] as const) {
        const followed = yield* effectClient.changes.follow({}, { via }).pipe(
          Stream.take(cursors.length),
          Stream.runCollect,
        )
        assert.deepStrictEqual(followed.map(({ cursor }) => cursor), cursors)
        const received: Array<string> = []
        yield* Effect.promise(async () => {
          for await (const { cursor } of createClient({ baseUrl, apiKey: ultimate }).changes.follow({}, { via })) {
            received.push(cursor)
            if (received.length === cursors.length) break
          }
        })
        assert.deepStrictEqual(received, cursors)
      }

      yield* Effect.repeat(countNextFeedChanges(2), { while: (hasMore) => hasMore }).pipe(
        Effect.provide(Logger.layer([logger])),
      )
      const counts = yield* sql`
        select kind, delay, changes::int as number from history.change_counts order by kind, delay
      `
      assert.deepStrictEqual(counts, [
        { kind: "added", delay: "", number: 4 },
        { kind: "corrected", delay: "unknown", number: 1 },
        { kind: "corrected", delay: "within_hour", number: 1 },
        { kind: "removed", delay: "", number: 1 },
      ])
      assert.strictEqual(logged.length, 1, logged.join("\n"))
      assert.match(logged[0] ?? "", /^Error The history lacks a row of split_status.*tickerline -- doctor/)
    }).pipe(Effect.scoped))

  it.effect("keeps a live stream open, which then sends the next changes (guides/changes)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ultimate } = yield* Service.TestKeys
      const stream = yield* openEventStream(yield* Service.servicePort, "after=now", { key: ultimate })
      yield* addSplit("live")
      yield* waitForCondition("the first change", () => stream.changes.length === 1)
      yield* sql.withTransaction(Effect.gen(function* () {
        yield* sql`delete from split_status where id = 'live'`
        yield* sql`delete from history.split_status where id = 'live'`
        yield* sql`set constraints all immediate`
        yield* addSplit("next")
        yield* sql`insert into history.changes (transaction, position, month, dataset, kind, ticker, key)
          select id, 99, month, 'split_status', 'removed', 'LOST', '{"id": "live"}' from history.transactions
          where recorded_at is null`
      }))
      yield* waitForCondition("the next change", () => stream.changes.some(({ data }) => data.includes('"next"')))
    }).pipe(Effect.scoped))

  it.effect("in history.days does not stop any page (decision 0121)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ultimate } = yield* Service.TestKeys
      const read = Service.requestJson("/v1/changes?dataset=ticker_changes,historical_tickers", { key: ultimate })
      yield* sql`insert into historical_tickers (ticker, former_ticker, date) values ('LOST', 'DAY', '2026-01-02')`
      const before = yield* read
      assert.include(before.text, '"DAY"')
      yield* sql`delete from history.days`
      assert.strictEqual((yield* read).text, before.text)
    }))

  it.effect("is absent from requests with as_of (operations/history)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ultimate } = yield* Service.TestKeys
      yield* addSplit("past")
      const moment = yield* Service.readDatabaseClock
      yield* sql`delete from split_status where id = 'past'`
      const ids = Effect.map(
        Service.requestJson(`/v1/split-status?ticker=LOST&limit=100&as_of=${encodeURIComponent(moment)}`, {
          key: ultimate,
        }),
        ({ status, text }) => `${status} ${text.includes('"past"')}`,
      )
      assert.strictEqual(yield* ids, "200 true")
      yield* sql`delete from history.split_status where id = 'past'`
      assert.strictEqual(yield* ids, "200 false")
    }))
})
