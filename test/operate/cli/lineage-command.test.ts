/**
 * Tests `tickerline lineage review|confirm|reject`, with which a person decides on estimated ticker changes (D19 to
 * D22).
 */
import { assert, layer } from "@effect/vitest"
import { Context, DateTime, Effect, FileSystem, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import * as Service from "../../support/Service.ts"

const { insertRows, requestJson, valueAt } = Service

/** Provides the URL of a migrated database. */
class DatabaseUrl extends Context.Service<DatabaseUrl, string>()("test/lineage-command/DatabaseUrl") {
  static readonly layer = Layer.effect(
    DatabaseUrl,
    Effect.map(Service.copyMigratedDatabase, (url) => Redacted.value(url)),
  )
}

const TestLayer = Service.serviceLayerOver(
  Layer.unwrap(
    Effect.map(
      DatabaseUrl,
      (url) => databaseClientLayer({ url: Redacted.make(url), applicationName: "tickerline-test" }),
    ),
  ),
).pipe(Layer.provideMerge(DatabaseUrl.layer))

/** Runs `tickerline lineage` with space-separated arguments. */
const run = Effect.fnUntraced(function* (line: string, environment: Readonly<Record<string, string>> = {}) {
  return yield* runCommandInProcess(["lineage", ...line.split(" ")], {
    DATABASE_URL: yield* DatabaseUrl,
    ...environment,
  })
})

/** Runs a command that must succeed. Returns its output. */
const succeed = Effect.fnUntraced(function* (line: string) {
  const { code, err, out } = yield* run(line)
  assert.deepStrictEqual([code, err], [0, ""])
  return out
})

/** Runs a command that must fail without changing anything. Returns its message. */
const fail = Effect.fnUntraced(function* (line: string, expectedCode = 1) {
  const before = yield* statuses
  const { code, err, out } = yield* run(line)
  assert.deepStrictEqual([code, out], [expectedCode, ""], err)
  assert.notMatch(err, /\n\s+at |\[object|undefined/)
  assert.deepStrictEqual(yield* statuses, before)
  return err
})

/** Reads all ticker changes, each formatted as `OLD NEW DATE STATUS`. */
const statuses = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.map(
    sql<{ readonly change: string }>`
      select concat_ws(' ', old_ticker, new_ticker, effective_date, status) as change from ticker_changes order by change
    `,
    (rows) => rows.map(({ change }) => change),
  ))

/** Returns a `ticker_changes` row, with the status `estimated` unless `more` overrides it. */
const change = (old_ticker: string, new_ticker: string, effective_date: string, more: object = {}) => ({
  old_ticker,
  new_ticker,
  effective_date,
  status: "estimated",
  cik: "0000000001",
  company_name: "Zyx Corp.",
  recorded_at: "2026-06-20 12:00:00Z",
  ...more,
})

const confirmed = { status: "confirmed" }

/** Replaces all ticker changes with the given rows. */
const store = Effect.fnUntraced(function* (...rows: ReadonlyArray<object>) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`truncate ticker_changes`
  yield* insertRows("ticker_changes", ...rows.map((row) => ({ ...row })))
})

const links = [
  "https://filings.example/list#2026-06-14/0000000001",
  "https://filings.example/list#2026-06-15/0000000001",
]

layer(TestLayer, { excludeTestServices: true, timeout: "120 seconds" })("lineage", (it) => {
  it.effect("review lists the estimated changes by date, with evidence and effect (D19)", () =>
    Effect.gen(function* () {
      yield* store(
        change("AAA", "BBB", "2020-01-02", confirmed),
        change("BBB", "CCC", "2026-06-15", { source: "AAA until 2026-06-14\u001b[2J", source_links: links }),
        change("AAA", "DDD", "2026-05-01", { cik: null, company_name: null }),
        change("XXX", "YYY", "2026-05-01", { status: "blocked" }),
      )
      const { code, err, out } = yield* run("review")
      assert.deepStrictEqual([code, err], [0, "2 estimated changes to confirm or reject\n"])
      assert.strictEqual(
        out,
        [
          "AAA to DDD on 2026-05-01, no CIK",
          "  Recorded on 2026-06-20. If confirmed, requests for AAA, BBB, DDD get 409: competing_destinations, broken_chain.",
          "  tickerline lineage confirm AAA DDD 2026-05-01",
          "",
          "BBB to CCC on 2026-06-15, CIK 0000000001, Zyx Corp.",
          "  AAA until 2026-06-14\\u001b[2J",
          ...links.map((link) => `  ${link}`),
          "  Recorded on 2026-06-20. If confirmed, the chain is AAA to BBB to CCC.",
          "  tickerline lineage confirm BBB CCC 2026-06-15 --cik 0000000001",
          "",
          "",
        ].join("\n"),
      )
    }))

  it.effect("review reports if there is nothing to review (D19)", () =>
    Effect.gen(function* () {
      yield* store(change("AAA", "BBB", "2020-01-02", confirmed))
      assert.strictEqual(yield* succeed("review"), "There are no estimated ticker changes.\n")
    }))

  it.effect("confirm shows a change to clients, and reject hides it (D19)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* store(
        change("AAA", "BBB", "2020-01-02", confirmed),
        change("BBB", "CCC", "2024-06-15"),
        change("CCC", "DDD", "2024-07-15"),
      )
      assert.strictEqual(
        yield* succeed("confirm bbb CCC 2024-06-15 --cik 1"),
        "The change from BBB to CCC on 2024-06-15, CIK 0000000001, Zyx Corp. is confirmed.\n" +
          "From 2024-06-15 on, the chain is AAA to BBB to CCC.\n",
      )
      assert.strictEqual(
        yield* succeed("reject CCC DDD 2024-07-15"),
        "The change from CCC to DDD on 2024-07-15, CIK 0000000001, Zyx Corp. is rejected. " +
          "Imports do not propose it again.\n",
      )
      const { body } = yield* requestJson("/v1/ticker-changes?ticker=AAA")
      assert.strictEqual(valueAt(body, "results", 0, "current_ticker"), "CCC")
      assert.deepStrictEqual(yield* statuses, [
        "AAA BBB 2020-01-02 confirmed",
        "BBB CCC 2024-06-15 confirmed",
        "CCC DDD 2024-07-15 blocked",
      ])
      const [renewed] = yield* sql<{ readonly count: number }>`
        select count(*)::int from ticker_changes where recorded_at > '2026-06-20 12:00:00Z'
      `
      assert.strictEqual(renewed?.count, 2)
    }))

  it.effect("confirm refuses a change that makes symbols ambiguous unless forced, and names the reasons (D21)", () =>
    Effect.gen(function* () {
      yield* store(
        change("FB", "META", "2022-06-09", { company_name: "Meta" }),
        change("META", "METV", "2022-01-31", { ...confirmed, cik: "0000000002", company_name: "A fund" }),
      )
      const listed = [
        "  META to METV on 2022-01-31, CIK 0000000002, A fund, multiple_cik_lineages",
        "  FB to META on 2022-06-09, CIK 0000000001, Meta, multiple_cik_lineages, broken_chain",
        "Clients can choose a company with cik=0000000002 or cik=0000000001.",
      ]
      const effect = "requests for FB, META, METV get 409: multiple_cik_lineages, broken_chain."
      assert.strictEqual(
        yield* fail("confirm FB META 2022-06-09"),
        [
          "tickerline: The change from FB to META on 2022-06-09, CIK 0000000001, Meta was not confirmed. " +
          `If confirmed, ${effect}`,
          ...listed,
          "Correct the other changes first, or add --force if all of them are right.",
          "",
        ].join("\n"),
      )
      assert.strictEqual(
        yield* succeed("confirm FB META 2022-06-09 --force"),
        [
          "The change from FB to META on 2022-06-09, CIK 0000000001, Meta is confirmed.",
          `From 2022-06-09 on, ${effect}`,
          ...listed,
          "",
        ].join("\n"),
      )
      const { body, status } = yield* requestJson("/v1/ticker-changes?ticker=FB")
      assert.strictEqual(status, 409)
      assert.deepStrictEqual(valueAt(body, "error", "details", "reasons"), ["multiple_cik_lineages", "broken_chain"])
    }))

  it.effect("confirm checks even a change in the future, together with all changes up to its date (D19, D21)", () =>
    Effect.gen(function* () {
      const [soon, later] = [30, 60].map((days) => DateTime.formatIsoDate(DateTime.add(DateTime.nowUnsafe(), { days })))
      yield* store(
        change("AAA", "BBB", String(soon), { ...confirmed, cik: null }),
        change("AAA", "CCC", String(later)),
        change("BBB", "DDD", String(later)),
      )
      assert.match(yield* fail(`confirm AAA CCC ${later}`), /get 409: competing_destinations, broken_chain\./)
      assert.include(yield* succeed(`confirm BBB DDD ${later}`), `From ${later} on, the chain is AAA to BBB to DDD.\n`)
    }))

  it.effect("confirm and reject explain why there is nothing to decide, and change nothing (D22)", () =>
    Effect.gen(function* () {
      yield* store(
        change("AAA", "BBB", "2024-01-02", { status: "blocked" }),
        change("CCC", "DDD", "2024-01-02"),
        change("CCC", "DDD", "2024-01-02", { cik: "0000000002" }),
        change("CCC", "DDD", "2024-01-02", { cik: null }),
      )
      for (const verb of ["confirm", "reject"]) {
        assert.match(
          yield* fail(`${verb} AAA BBB 2024-01-02`),
          /AAA to BBB on 2024-01-02 is not estimated any more; its status is blocked\. .*load ticker-changes FILE --append/,
        )
        assert.match(yield* fail(`${verb} AAA BBB 2024-01-03`), /There is no change from AAA to BBB .*lineage review/)
        assert.match(yield* fail(`${verb} CCC DDD 2024-01-02 --cik 3`), /There is no change/)
        assert.match(yield* fail(`${verb} CCC DDD 2024-01-02`), /Choose one with --cik: 0000000001, 0000000002, none\./)
        assert.match(yield* fail(`${verb} A,B BBB 2024-01-02`, 2), /old/)
        assert.match(yield* fail(`${verb} AAA BBB 2024-02-30`, 2), /calendar/)
        assert.match(yield* fail(`${verb} AAA BBB 2024-01-02 --cik x`, 2), /CIK of one to ten digits/)
        assert.match(yield* fail(`${verb} AAA BBB`, 2), /date/)
      }
      yield* succeed("reject CCC DDD 2024-01-02 --cik 2")
      yield* succeed("reject CCC DDD 2024-01-02 --cik 1")
      yield* succeed("reject CCC DDD 2024-01-02")
    }))

  it.effect("confirm and reject decide a change only once, even if two people decide at the same time (D22)", () =>
    Effect.gen(function* () {
      yield* store(change("AAA", "BBB", "2024-01-02"))
      const ended = yield* Effect.forEach(["confirm", "reject"], (verb) => run(`${verb} AAA BBB 2024-01-02`), {
        concurrency: 2,
      })
      assert.deepStrictEqual(ended.map(({ code }) => code).toSorted(), [0, 1])
      assert.match(ended.map(({ err }) => err).join(""), /has just been changed|is not estimated any more/)
    }))

  it.effect("confirm and reject are final, even if an import proposes the change again (D22)", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-lineage-" })}/changes.ndjson`
      const [first, second] = [change("AAA", "BBB", "2024-01-02"), change("CCC", "DDD", "2024-01-02")]
      yield* fs.writeFileString(file, [first, second].map((row) => `${JSON.stringify(row)}\n`).join(""))
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const load = Effect.map(
        runCommandInProcess(["load", "ticker-changes", file, "--append", "--keep-omitted"], environment),
        ({ err, out }) => `${err}${out}`,
      )
      yield* store()
      assert.match(yield* load, /2 rows merged: 2 added, 0 updated, 0 unchanged/)
      yield* succeed("confirm AAA BBB 2024-01-02")
      yield* succeed("reject CCC DDD 2024-01-02")
      assert.match(yield* load, /2 rows merged: 0 added, 0 updated, 0 unchanged, 2 kept/)
      assert.deepStrictEqual(yield* statuses, ["AAA BBB 2024-01-02 confirmed", "CCC DDD 2024-01-02 blocked"])
    }))
})
