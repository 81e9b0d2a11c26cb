/** Tests that correction counts match the change feed for any batch size (decision 0118). */
import { assert, describe, it, layer } from "@effect/vitest"
import { Array, Effect, Fiber, Layer, Logger, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { DatabaseReader } from "../../../src/postgres/DatabaseReader.ts"
import { ChangeFeedReader } from "../../../src/query/history/ChangeFeed.ts"
import { countNextFeedChanges } from "../../../src/query/history/CorrectionCounts.ts"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import { changeFeedDatasets, changeKinds } from "../../../src/contract/endpoints/changes.ts"
import { classifyCorrectionDelay, CorrectionsResponse } from "../../../src/contract/endpoints/corrections.ts"
import { skipHistory } from "../../support/GeneratedRows.ts"
import { makeRandomChooser, type RandomChooser } from "../../support/RandomChoices.ts"
import * as Service from "../../support/Service.ts"
import { formatReportedSharesInsert, makeReportedShares, reportedSharesKey } from "../../support/ReportedShares.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

/** Holds the job's lease as if for another process, so only the tests count changes. */
const holdLease = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`insert into leases (name, holder, until) values ('corrections', gen_random_uuid(), 'infinity')`,
)

const database = Layer.effectDiscard(holdLease).pipe(Layer.provideMerge(Service.migratedDatabaseLayer))

const service = ChangeFeedReader.layer.pipe(
  Layer.provide(DatabaseReader.layer),
  Layer.provideMerge(Service.serviceLayerOver(database)),
)

// ---------------------------------------------------------------------------------------------------------------------
// Reading the change feed, and counting its corrections
// ---------------------------------------------------------------------------------------------------------------------

const Page = Schema.Struct({
  results: Schema.Array(Schema.Struct({
    recorded_at: Schema.String,
    dataset: Schema.Literals(changeFeedDatasets),
    kind: Schema.Literals(changeKinds),
    key: Schema.Json,
    changed: Schema.Array(Schema.String),
  })),
  cursor: Schema.String,
  has_more: Schema.Boolean,
})
type Change = (typeof Page.Type)["results"][number]

const readFeed = Effect.gen(function* () {
  const { ultimate } = yield* Service.TestKeys
  const changes: Array<Change> = []
  let after = ""
  while (true) {
    const { body, status, text } = yield* Service.requestJson(`/v1/changes?limit=1000${after}`, { key: ultimate })
    assert.strictEqual(status, 200, text)
    const page = Schema.decodeUnknownSync(Page)(body)
    changes.push(...page.results)
    if (!page.has_more) return changes
    after = `&after=${page.cursor}`
  }
})

const secondsBetween = (earlier: string, later: string) => (Date.parse(later) - Date.parse(earlier)) / 1000

/**
 * Counts changes in the most straightforward way, as a reference for `readCounts`. Uses the same names for the counts.
 */
const summarize = (changes: ReadonlyArray<Change>) => {
  /** The time at which each row's current version was recorded. */
  const recordedAt = new Map<string, string>()
  const counts = new Map<string, number>()
  const add = (...key: ReadonlyArray<string>) => counts.set(key.join(" "), (counts.get(key.join(" ")) ?? 0) + 1)
  for (const { changed, dataset, key, kind, recorded_at } of changes) {
    const row = `${dataset} ${JSON.stringify(key)}`
    const recorded = recordedAt.get(row)
    const delay = classifyCorrectionDelay(recorded === undefined ? null : secondsBetween(recorded, recorded_at))
    add(dataset, recorded_at.slice(0, 10), kind, kind === "corrected" ? delay : "")
    for (const field of changed) add(dataset, `${recorded_at.slice(0, 7)}-01`, field)
    if (kind === "removed") recordedAt.delete(row)
    else recordedAt.set(row, recorded_at)
  }
  return Object.fromEntries(counts)
}

/** Reads all counts, keyed by name, for example `news 2026-01-02 corrected within_day` or `news 2026-01-01 title`. */
const readCounts = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly name: string; readonly number: number }>`
    select concat_ws(' ', dataset, day, kind, delay) as name, changes::int as number from history.change_counts
    union all
    select concat_ws(' ', dataset, month, field), corrections::int from history.corrected_fields
  `
  return Object.fromEntries(rows.map(({ name, number }) => [name, number]))
})

const countAll = Effect.repeat(countNextFeedChanges(), { while: (hasMore) => hasMore }).pipe(
  Effect.provide(Logger.layer([])),
)

const requestCounts = Effect.gen(function* () {
  const { body, headers, status, text } = yield* Service.requestJson("/v1/corrections", { key: null })
  assert.strictEqual(status, 200, text)
  return { headers, text, counts: Schema.decodeUnknownSync(CorrectionsResponse)(body) }
})

/** Requests the documentation page about corrections. Returns its main element without the `<wbr>` tags. */
const requestPage = Effect.map(Service.requestJson("/v1/docs/corrections", { key: null }), ({ status, text }) => {
  assert.strictEqual(status, 200)
  return text.replaceAll("<wbr>", "").slice(text.indexOf("<main"))
})

// ---------------------------------------------------------------------------------------------------------------------
// Random changes
// ---------------------------------------------------------------------------------------------------------------------

/** Returns a random statement. Statements for different days change different rows. */
const chooseStatement = (choose: RandomChooser, day: number) => {
  const [ticker, number] = [choose(["AAA", "BBB", "CCC"]), choose([1, 2, 3])]
  return choose([
    `${formatReportedSharesInsert(`values ('${ticker}', '2026-01-0${day}', ${number + 5})`)}
      on conflict (${reportedSharesKey}) do update set outstanding_shares = excluded.outstanding_shares`,
    `update historical_float_pro set outstanding_shares = ${number} where filed_at = '2026-01-0${day}'`,
    `delete from historical_float_pro where ticker = '${ticker}' and filed_at = '2026-01-0${day}'`,
    `insert into split_status (id, ticker, action_type, executed, filed_at, form_type, last_updated)
      values ('${day}', '${ticker}', 'split_announced', ${number === 1}, '2026-01-01', '8-K', '2026-01-01')
      on conflict (id) do update set ticker = excluded.ticker, executed = excluded.executed`,
    `delete from split_status where id = '${day}'`,
  ])
}

/** Runs `number` random transactions sequentially. */
const writeTransactions = Effect.fnUntraced(function* (seed: number, number: number) {
  const sql = yield* SqlClient.SqlClient
  const choose = makeRandomChooser(seed)
  for (let at = 0; at < number; at++) {
    const first = choose([0, 1, 2, 3])
    // Each statement of a transaction changes a different row. If a row were changed and then reset to its previous
    // values, it would be recorded again, but the feed would contain no change.
    const statements = Array.makeBy(choose([1, 1, 2, 4]), (index) => chooseStatement(choose, (first + index) % 4 + 1))
    // Concurrent writers may deadlock, in which case one of them writes nothing.
    yield* Effect.ignore(
      sql.withTransaction(Effect.forEach(statements, (statement) => sql.unsafe(statement), { discard: true })),
    )
  }
})

/** Shifts everything recorded so far into the past by the interval. */
const moveBack = Effect.fnUntraced(function* (interval: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`update history.beginning set earliest = earliest - ${interval}::text::interval`
  // Updates the oldest transactions first, so no two transactions ever have the same time.
  yield* sql`
    do $$ declare old record; begin
      for old in select id from history.transactions order by recorded_at loop
        update history.transactions set recorded_at = recorded_at - interval ${sql.literal(`'${interval}'`)}
        where id = old.id;
      end loop;
    end $$
  `
})

/** Deletes all counts, so counting restarts with the first change. */
const resetCounts = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.andThen(
    sql`truncate history.change_counts, history.corrected_fields`,
    sql`update history.counting_place set cursor = null, counted_until = null`,
  ))

layer(service, { excludeTestServices: true, timeout: "120 seconds" })("The correction counts", (it) => {
  it.effect("are zero at first, with the time since which changes are counted (§4.5)", () =>
    Effect.gen(function* () {
      yield* countAll
      const { counts } = yield* requestCounts
      assert.strictEqual(counts.count, changeFeedDatasets.length)
      assert.deepStrictEqual(counts.results.map(({ dataset }) => dataset), [...changeFeedDatasets])
      assert.isNull(counts.counted_until)
      assert.isTrue(counts.results.every(({ fields, total }) => fields.length === 0 && total.corrected === 0))
      const page = yield* requestPage
      assert.include(page, "None has been recorded yet.")
      assert.include(page, `<time datetime="${counts.since}">`)
    }))

  it.effect("equal those of the change feed for batches of any size, even if two processes count at once (decision 0118)", () =>
    Effect.gen(function* () {
      const intervals = ["30 minutes", "20 hours", "6 days", "29 days", "45 days"]
      for (const [index, interval] of intervals.entries()) {
        yield* writeTransactions(index, 30)
        yield* moveBack(interval)
      }
      for (const seed of [1, 2, 3]) {
        yield* resetCounts
        const writer = yield* Effect.forkChild(writeTransactions(seed + 10, getInputCount(40)))
        const choose = makeRandomChooser(seed)
        const count = Effect.suspend(() => countNextFeedChanges(choose([1, 2, 3, 7, 50])))
        while (writer.pollUnsafe() === undefined) yield* Effect.all([count, count], { concurrency: 2 })
        yield* Fiber.join(writer)
        yield* Effect.repeat(count, { while: (hasMore) => hasMore })
        yield* countAll
        const expected = summarize(yield* readFeed)
        assert.deepStrictEqual(yield* readCounts, expected)
        for (const delay of ["within_hour", "within_day", "within_week", "within_30_days", "later"]) {
          assert.isTrue(Object.keys(expected).some((key) => key.endsWith(` corrected ${delay}`)), delay)
        }
      }
    }))
})

layer(Layer.fresh(service), { excludeTestServices: true, timeout: "120 seconds" })("The corrections", (it) => {
  it.effect("are shown per dataset with their delays, fields and a link to the changes (§4.5)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const reports = Array.makeBy(4, (index) => makeReportedShares(`T${index}`, "2026-01-02", "1"))
      yield* Service.insertRows("historical_float_pro", ...reports)
      yield* moveBack("40 days")
      yield* sql`update historical_float_pro set outstanding_shares = 2 where ticker in ('T0', 'T1', 'T2')`
      yield* moveBack("35 days")
      yield* sql`update historical_float_pro set outstanding_shares = 3 where ticker = 'T0'`
      yield* sql`update historical_float_pro set outstanding_shares = 4 where ticker = 'T0'`
      yield* sql`delete from historical_float_pro where ticker = 'T3'`
      // Simulates a row that was inserted before the history began.
      const old = { ticker: "OLD", float: "7", is_adr: false, last_updated: "2026-01-01 00:00:00" }
      yield* skipHistory("float_outstanding", Service.insertRows("float_outstanding", old))
      yield* sql`update float_outstanding set "float" = 8`
      yield* sql`update float_outstanding set "float" = 9, is_adr = true`
      yield* countAll
      const { counts, headers, text } = yield* requestCounts
      const find = (name: string) => counts.results.find(({ dataset }) => dataset === name)
      const none = { within_hour: 0, within_day: 0, within_week: 0, within_30_days: 0, later: 0, unknown: 0 }
      assert.deepStrictEqual(find("historical_float_pro"), {
        dataset: "historical_float_pro",
        last_30_days: { added: 0, corrected: 2, removed: 1, delays: { ...none, within_hour: 1, later: 1 } },
        total: { added: 4, corrected: 5, removed: 1, delays: { ...none, within_hour: 1, later: 4 } },
        fields: [{ field: "outstanding_shares", corrections: 5 }],
      })
      assert.deepStrictEqual(find("float_outstanding")?.total.delays, { ...none, within_hour: 1, unknown: 1 })
      assert.deepStrictEqual(find("float_outstanding")?.fields, [
        { field: "float", corrections: 2 },
        { field: "is_adr", corrections: 1 },
      ])
      assert.deepStrictEqual(find("news")?.fields, [])
      const again = yield* Service.requestJson("/v1/corrections", {
        key: null,
        headers: { "If-None-Match": headers["etag"] ?? "" },
      })
      assert.strictEqual(again.status, 304, text)
      const page = yield* requestPage
      assert.include(page, `<h2 id="historical_float_pro">`)
      assert.include(page, "Rows added: 4. Corrected: 5. Removed: 1.")
      assert.include(page, `<code>/v1/changes?dataset=historical_float_pro&amp;kind=corrected</code>`)
      assert.match(page, /Later<\/th><td[^>]*>1<\/td><td[^>]*>4<\/td><td[^>]*>80 %<\/td>/)
      assert.include(page, `<time datetime="${counts.counted_until ?? ""}">`)
      const reference = yield* Service.requestJson("/v1/docs/reference/float-outstanding", { key: null })
      assert.include(reference.text, `href="/v1/docs/corrections#float_outstanding"`)
    }))
})

layer(Layer.fresh(service), { excludeTestServices: true, timeout: "120 seconds" })("Changes of rows", (it) => {
  it.effect("are counted as endpoints show them, in batches of any size (D36)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const change = (old_ticker: string, status: string) => ({
        old_ticker,
        new_ticker: "SHOWN",
        effective_date: "2026-01-02",
        status,
      })
      const statuses = [change("A", "estimated"), change("B", "confirmed"), change("C", "blocked")]
      yield* Service.insertRows("ticker_changes", ...statuses)
      yield* sql`update ticker_changes set status = 'confirmed' where old_ticker = 'A'`
      yield* sql`update ticker_changes set company_name = 'Company', source = 'Source'`
      yield* sql`update ticker_changes set source = 'Another source'`
      yield* sql`update ticker_changes set status = 'reverted' where old_ticker = 'B'`
      yield* sql`delete from ticker_changes`
      yield* Service.insertRows("daily_prices", { ticker: "A", date: "2026-01-02", close: "1" })
      for (const limit of [1, 2, 100]) {
        yield* resetCounts
        yield* Effect.repeat(countNextFeedChanges(limit), { while: (hasMore) => hasMore })
        const counts = Object.entries(yield* readCounts).map((
          [name, number],
        ) => [name.replace(/\d{4}-\S+ /, ""), number])
        assert.deepStrictEqual(Object.fromEntries(counts), {
          "ticker_changes added ": 2,
          "ticker_changes corrected within_hour": 2,
          "ticker_changes removed ": 2,
          "ticker_changes company_name": 2,
        }, String(limit))
      }
    }))
})

layer(Layer.fresh(service), { excludeTestServices: true, timeout: "120 seconds" })("The retention", (it) => {
  /** Moves everything recorded so far into an earlier month, then drops that month. */
  const dropAll = Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* moveBack("400 days")
    yield* sql`
      with tables as (select 'changes' as whole union all select dataset from history.datasets)
      select create_month_partition(('history.' || whole)::regclass, '2020-03-01') from tables
    `
    yield* sql`update history.transactions set month = '2020-03-01'`
    yield* sql`update history.changes set month = '2020-03-01'`
    for (const { table } of loadableDatasets) {
      yield* sql.unsafe(`update history.${table} set replaced_month = '2020-03-01'`)
    }
    const drop = sql<{ readonly month: string }>`
      select month::text as month from history.drop_before(now() - interval '31 days') as month
    `
    assert.deepStrictEqual(yield* drop, [])
    yield* sql`update history.beginning set moved_at = moved_at - interval '5 minutes'`
    assert.deepStrictEqual(yield* drop, [{ month: "2020-03-01" }])
  })

  it.effect("does not change the counts, and counting continues even if it was far behind (decision 0118)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const correct = (value: number) => sql`update historical_float_pro set outstanding_shares = ${value}`
      yield* Service.insertRows("historical_float_pro", makeReportedShares("KEPT", "2026-01-02", "1"))
      yield* correct(2)
      yield* countAll
      const before = yield* readCounts
      assert.deepStrictEqual(Object.values(before), [1, 1, 1])
      yield* dropAll
      yield* countAll
      assert.deepStrictEqual(yield* readCounts, before)
      yield* correct(3)
      yield* countAll
      const after = yield* readCounts
      const changed = Object.entries(after).filter(([name, number]) => before[name] !== number)
      // The transaction that recorded the row has been dropped, so the row must be older than the history.
      assert.isTrue(changed.some(([name, number]) => name.endsWith("corrected later") && number === 1), String(changed))
      yield* correct(4)
      yield* correct(5)
      yield* dropAll
      yield* correct(6)
      yield* countAll
      const last = yield* readCounts
      const sumCorrections = (counts: Readonly<Record<string, number>>) =>
        Object.entries(counts).reduce(
          (total, [name, number]) => name.includes(" corrected ") ? total + number : total,
          0,
        )
      assert.strictEqual(
        sumCorrections(last),
        sumCorrections(after) + 1,
        "the changes that were dropped before they were counted are missing",
      )
    }))
})

describe("The delay of a correction", () => {
  it("is classified by upper limits, or as unknown (decision 0118)", () => {
    const [hour, day] = [3_600, 86_400]
    const cases = [
      [0, "within_hour"],
      [hour, "within_hour"],
      [hour + 0.001, "within_day"],
      [day, "within_day"],
      [7 * day, "within_week"],
      [30 * day, "within_30_days"],
      [30 * day + 1, "later"],
      [null, "unknown"],
    ] as const
    for (const [seconds, delay] of cases) assert.strictEqual(classifyCorrectionDelay(seconds), delay)
  })
})
