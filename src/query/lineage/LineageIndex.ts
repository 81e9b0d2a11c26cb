/**
 * Keeps all confirmed ticker changes in memory while the version of `ticker_changes` does not change, so that resolving
 * a lineage needs no statement (decision 0141). If the table is too large to keep in memory, `LineageEvents.ts` reads
 * each lineage from the table.
 */
import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { compileStatement } from "../../postgres/CompiledStatement.ts"
import { DatabaseReader } from "../../postgres/DatabaseReader.ts"
import { decodePositionalRows } from "../../postgres/DecodeRows.ts"
import { DatasetVersions, HalfCacheBytesConfig } from "../../postgres/versions/DatasetVersions.ts"
import { forkUntraced } from "../../postgres/metrics/BackgroundFibers.ts"
import { registerGauge } from "../../postgres/metrics/CallbackMetrics.ts"
import { makeMonotonicClock } from "../../postgres/metrics/MonotonicTime.ts"
import { TickerChangeEvent } from "./LineageRules.ts"
import { TickerChangeIndex } from "./TickerChangeIndex.ts"

/**
 * The memory used by one change in a chain, excluding the company name, in bytes. This limits how many changes are
 * read.
 */
const minChangeBytes = 150

/** How many changes each row of the result contains. Decoding a row blocks the event loop for less than 5 ms. */
const changesPerRow = 250

/** The pause after a read is this multiple of the time that the read took. */
const pauseFactor = 10

/** How long to wait before counting the rows again after the table was too large, in milliseconds. */
const pauseIfTooLargeMillis = 60_000

const source = { partition: "lineage", from: "primary" } as const

/**
 * Creates an effect that reads all confirmed ticker changes into an index in memory. It returns undefined if they need
 * more than `maxBytes` of memory: according to an estimate from their number and their company names before they are
 * read, or to the size of the index while it is filled.
 */
export const makeTickerChangeReader = Effect.fnUntraced(function* (maxBytes: number) {
  const sql = yield* SqlClient.SqlClient
  const reader = yield* DatabaseReader
  const maxChanges = Math.floor(maxBytes / minChangeBytes)
  const limit = sql.literal(String(maxChanges + 1))

  const compileCount = compileStatement<void>({
    isPrepared: false,
    build: () =>
      sql`
        select count(*)::int4, coalesce(sum(octet_length(company_name)), 0)::float8
        from (select company_name from ticker_changes where status = 'confirmed' limit ${limit}) as change
      `,
  })
  const decodeCount = decodePositionalRows(Schema.Struct({ count: Schema.Number, nameBytes: Schema.Number }))

  // Returns one row for every `changesPerRow` changes, with their number and a JSON array of them. One row per change
  // would use several times as much memory. The limit is one more than `maxChanges`, so that a table that has grown too
  // large since the count is noticed.
  const compileRead = compileStatement<void>({
    isPrepared: false,
    build: () =>
      sql`
        select count(*)::int4,
          json_agg(json_build_array(old_ticker, new_ticker, effective_date, cik, company_name))::text
        from (
          select old_ticker, new_ticker, effective_date, cik, nullif(company_name, '') as company_name,
            (row_number() over () - 1) / ${sql.literal(String(changesPerRow))} as batch
          from ticker_changes where status = 'confirmed' limit ${limit}
        ) as change
        group by batch
      `,
  })
  const decodeRows = decodePositionalRows(Schema.Struct({ count: Schema.Number, changes: Schema.String }))
  const { cik, company_name, effective_date, new_ticker, old_ticker } = TickerChangeEvent.fields
  const decodeChanges = Schema.decodeEffect(
    Schema.fromJsonString(Schema.Array(Schema.Tuple([old_ticker, new_ticker, effective_date, cik, company_name]))),
  )

  return Effect.gen(function* () {
    const [counted] = yield* decodeCount(reader.read(compileCount(), source))
    // If the table is too large, its rows are not read at all.
    if (counted === undefined || counted.count * minChangeBytes + counted.nameBytes > maxBytes) return undefined
    const rows = yield* decodeRows(reader.read(compileRead(), source))
    const count = rows.reduce((sum, row) => sum + row.count, 0)
    if (count > maxChanges) return undefined
    const index = new TickerChangeIndex(count)
    const isTooLarge = () => index.bytes > maxBytes
    for (const row of rows) {
      const changes = yield* Effect.orDie(decodeChanges(row.changes))
      for (const [old_ticker, new_ticker, effective_date, cik, company_name] of changes) {
        index.add({ old_ticker, new_ticker, effective_date, cik, company_name })
      }
      if (isTooLarge()) return undefined
      // Lets other requests run after each row, which contains many changes.
      yield* Effect.yieldNow
    }
    return isTooLarge() ? undefined : index
  })
})

/** The confirmed ticker changes in memory. */
export class LineageIndex extends Context.Service<LineageIndex, {
  /**
   * Returns the confirmed changes. Returns undefined if they are not in memory or may be outdated, or if there is a
   * `timestamp`, which is in the past: only the current changes are in memory.
   */
  readonly getChanges: (timestamp: string | undefined) => TickerChangeIndex | undefined
}>()("tickerline/query/LineageIndex") {
  static readonly layer = Layer.effect(
    LineageIndex,
    Effect.gen(function* () {
      const now = yield* makeMonotonicClock
      const versions = yield* DatasetVersions
      const getVersion = versions.watchTables(["ticker_changes"])
      const maxBytes = yield* HalfCacheBytesConfig
      const readChanges = yield* makeTickerChangeReader(maxBytes)
      /**
       * The version of the table, and its changes. `changes` is undefined if the table was too large at this version.
       */
      let cached: { readonly version: string; readonly changes: TickerChangeIndex | undefined } | undefined
      let nextReadAt = Number.NEGATIVE_INFINITY

      const getChanges = (timestamp: string | undefined) =>
        timestamp === undefined && cached?.changes !== undefined && cached.version === getVersion()
          ? cached.changes
          : undefined

      const readVersion = Effect.fnUntraced(function* (version: string) {
        const startedAt = now()
        // Drops the outdated changes before the new ones are read, so that memory never holds both.
        cached = undefined
        const changes = yield* readChanges
        nextReadAt = now() + (changes === undefined ? pauseIfTooLargeMillis : pauseFactor * (now() - startedAt))
        // During the read, requests may have read a later change directly from the table. Wait for a poll that would
        // notice such a change. Otherwise responses could go back to the state before the change.
        yield* versions.nextPoll
        cached = { version, changes }
      })

      const readIfChanged = Effect.suspend(() => {
        const version = getVersion()
        if (version === undefined || version === cached?.version || now() < nextReadAt) return Effect.void
        const startedAt = now()
        return Effect.catchCause(readVersion(version), (cause) => {
          nextReadAt = now() + pauseFactor * (now() - startedAt)
          return Effect.logWarning("The ticker changes cannot be kept in memory", cause)
        })
      })

      yield* registerGauge({
        name: "tickerline_lineage_index_used",
        description: "1 if all ticker changes are in memory and current, so that lineages need no statement, else 0.",
        read: () => getChanges(undefined) === undefined ? 0 : 1,
      })
      yield* registerGauge({
        name: "tickerline_lineage_index_events",
        description: "Confirmed ticker changes in memory.",
        read: () => cached?.changes?.size ?? 0,
      })
      yield* registerGauge({
        name: "tickerline_lineage_index_bytes",
        description: "Memory used by the ticker changes in memory.",
        read: () => cached?.changes?.bytes ?? 0,
      })
      yield* forkUntraced(
        Effect.andThen(readIfChanged, Effect.forever(Effect.andThen(versions.nextPoll, readIfChanged))),
      )
      return LineageIndex.of({ getChanges })
    }),
  )
}
