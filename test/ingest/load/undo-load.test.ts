/** Tests `undo-load`, which restores a dataset's rows as of an earlier time (operations/history). */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import { undoLoad, type UndoPreview } from "../../../src/ingest/load/UndoLoad.ts"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import { readLoadableColumns } from "../../../src/ingest/load/LoadingTable.ts"
import { beginTransaction } from "../../support/HeldTransactions.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import * as Service from "../../support/Service.ts"
import { sampleUnlessThorough } from "../../support/Thoroughness.ts"

const { insertRows, readDatabaseClock } = Service

/** Runs a test with a separate copy of the sample market. `url` is the database URL. */
const withSamples = <A, E, R>(test: (url: string) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(
    Service.copySampleDatabase,
    (url) =>
      Effect.provide(test(Redacted.value(url)), databaseClientLayer({ url, applicationName: "tickerline-test" })),
  )

const undo = (
  dataset: string,
  to: string,
  confirm: (preview: UndoPreview) => Effect.Effect<boolean> = () => Effect.succeed(true),
) => undoLoad({ dataset, to, confirm, onCommit: Effect.void })

/** Reads the rows of a table as sorted text, without the id of the transaction that wrote them. */
const readRows = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  const columns = (yield* readLoadableColumns(`public.${table}`)).map(({ name }) => `"${name}"`).join(", ")
  const rows = yield* sql.unsafe<{ readonly text: string }>(
    `select row(${columns})::text as text from public.${table} order by 1`,
  )
  return rows.map(({ text }) => text)
})

const newsItem = (id: string) => {
  const [filed_at, time] = ["2026-03-02", "2026-03-02T10:00:00Z"]
  return { id, ticker: "UNDO", title: id, form_type: "8-K", filed_at, created_at: time, last_updated: time }
}

layer(Layer.mergeAll(NodeServices.layer, NodeCrypto.layer), { excludeTestServices: true })("undo-load", (it) => {
  it.effect.each(sampleUnlessThorough(loadableDatasets, 6, 1))(
    "restores the rows that $table had at each earlier moment (operations/history)",
    ({ key, table }) =>
      withSamples(() =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const columns = yield* readLoadableColumns(`public.${table}`)
          const cleared = columns.find(({ is_nullable, name }) => is_nullable && !key.includes(name))
          /** The times to which the table is reset, each with the rows at that time. */
          const states = [{ moment: yield* readDatabaseClock, rows: yield* readRows(table) }]
          const remember = Effect.gen(function* () {
            states.push({ moment: yield* readDatabaseClock, rows: yield* readRows(table) })
          })
          if (cleared !== undefined) yield* sql.unsafe(`update ${table} set "${cleared.name}" = null`)
          yield* remember
          const deletedRows = 20
          yield* sql.unsafe(`delete from ${table} where ctid in (select ctid from ${table} limit ${deletedRows})`)
          yield* remember
          yield* sql.unsafe(`truncate ${table}`)
          for (const { moment, rows } of states) {
            yield* undo(table, moment)
            assert.deepStrictEqual(yield* readRows(table), rows, moment)
          }
        })
      ),
  )

  it.effect("leaves out a transaction that was running at the moment, and is itself recorded as a change (operations/history)", () =>
    withSamples(() =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { commit } = yield* beginTransaction(insertRows("news", newsItem("undo-late")))
        yield* insertRows("news", newsItem("undo-early"))
        const moment = yield* readDatabaseClock
        yield* commit
        yield* sql`update news set title = 'bad' where id = 'undo-early'`
        const { preview } = yield* undo("news", moment)
        assert.deepInclude(preview.counts, { added: 0, updated: 1, removed: 1 })
        assert.deepStrictEqual(preview.examples, { added: [], updated: ["(undo-early)"], removed: ["(undo-late)"] })
        const left = yield* sql`select id, title from news where ticker = 'UNDO'`
        assert.deepStrictEqual(left, [{ id: "undo-early", title: "undo-early" }])
        const [newest] = yield* sql`
          select changes from history.transactions where recorded_at is not null order by recorded_at desc limit 1
        `
        assert.deepStrictEqual(newest, { changes: { news: { corrected: 1, removed: 1 } } })
        const [audited] = yield* sql`select after from audit order by audit_id desc limit 1`
        assert.deepStrictEqual(audited, { after: { news: { corrected: 1, removed: 1 }, undone_to: moment } })
        const { isChanged } = yield* undo("news", moment, () => Effect.die("asked although nothing would change"))
        assert.isFalse(isChanged)
      })
    ))

  it.effect("refuses ambiguous and invalid moments, and those outside the history (operations/history)", () =>
    withSamples(() =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const before = yield* readRows("news")
        yield* sql`update history.beginning set earliest = now() - interval '1 hour'`
        const refuse = (to: string, dataset = "news") =>
          Effect.map(Effect.flip(undo(dataset, to)), ({ message }) => message)
        assert.match(yield* refuse("2026-11-01T01:30:00"), /is not a moment.*with an offset/)
        assert.match(yield* refuse("2026-02-30"), /is not a moment/)
        assert.match(yield* refuse("yesterday"), /is not a moment/)
        assert.match(yield* refuse("2999-01-01"), /is in the future/)
        assert.match(yield* refuse("2001-01-01"), /is too early: the history begins at \d{4}-/)
        assert.match(yield* refuse("2001-01-01", "nws"), /no dataset nws. Did you mean news/)
        assert.deepStrictEqual(yield* readRows("news"), before)
      })
    ))

  it.effect("refuses rows that violate a later constraint, and a table that others have changed since the preview (operations/history)", () =>
    withSamples(() =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* insertRows("news", newsItem("undo-rule"))
        const moment = yield* readDatabaseClock
        yield* sql`update news set title = 'allowed' where id = 'undo-rule'`
        const context = yield* Effect.context<SqlClient.SqlClient>()
        const addRow = Effect.provideContext(Effect.orDie(insertRows("news", newsItem("undo-other"))), context)
        // Runs a change in a separate fiber, because the confirmation itself runs in the transaction of the undo.
        const runOutside = <A, E>(change: Effect.Effect<A, E>) => Effect.promise(() => Effect.runPromise(change))
        const correct = Effect.orDie(sql`update news set title = 'corrected' where id = 'undo-rule'`)
        // The undo would restore the same row, but the row no longer has the values shown in the preview.
        const corrected = yield* Effect.flip(undo("news", moment, () => Effect.as(runOutside(correct), true)))
        assert.match(corrected.message, /Other programs have changed news in the meantime/)
        const changed = yield* Effect.flip(undo("news", moment, () => Effect.as(runOutside(addRow), true)))
        assert.match(changed.message, /Other programs have changed news in the meantime/)
        yield* sql`alter table news add constraint news_later_rule check (title <> 'undo-rule')`
        const forbidden = yield* Effect.flip(undo("news", moment))
        assert.match(forbidden.message, /violate a rule.*news_later_rule/)
        const left = yield* sql`select id, title from news where ticker = 'UNDO' order by id`
        assert.deepStrictEqual(left, [{ id: "undo-other", title: "undo-other" }, {
          id: "undo-rule",
          title: "corrected",
        }])
      })
    ))

  it.effect("shows what would change, and changes it only with --yes or a confirmation (operations/command-line)", () =>
    withSamples((DATABASE_URL) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const sampleNews = yield* readRows("news")
        yield* sql`delete from news`
        const run = (...args: ReadonlyArray<string>) =>
          runCommandInProcess(["undo-load", "--dataset", "news", ...args], { DATABASE_URL })
        const list = yield* run()
        const [, before = ""] = /--to (\S+) {2}0 added, 0 corrected, \d+ removed/.exec(list.out) ?? []
        const asked = yield* run("--to", before)
        assert.deepInclude(asked, { code: 1 })
        assert.match(
          asked.out,
          /^news, to its rows at .*:\n {2}\d+ rows added again: \(.*, …\n {2}0 rows changed back\n/,
        )
        assert.match(asked.err, /Nothing was changed. To change news, add --yes/)
        assert.deepStrictEqual(yield* readRows("news"), [])
        const done = yield* run("--to", before, "--yes")
        assert.deepInclude(done, { code: 0 })
        assert.match(done.out, /news has its rows at .* again/)
        assert.deepStrictEqual(yield* readRows("news"), sampleNews)
        assert.match((yield* run("--to", before)).out, /already has its rows/)
      })
    ))
})
