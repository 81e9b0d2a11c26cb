/**
 * D17: how often each dataset was changed, as the triggers of `dataset_versions` count it. It is asked for four times a
 * second over a connection of its own, which neither a burst of slow queries nor a pooler between can keep from it, and
 * believed for less than a second: where the answer stays away, nothing is known, and nothing is answered from memory.
 */
import { PgClient } from "@effect/sql-pg"
import { Context, Duration, Effect, Layer, Metric, Schema, Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlSchema } from "effect/sql"
import { Direct } from "../db/Session.ts"
import { atZero, counter, gauge } from "../observability/Measures.ts"

/** D17 allows a second from the commit to the first request that must see it. */
const believed = Duration.toMillis(Duration.millis(900))
const every = Duration.millis(250)
const patience = Duration.millis(700)

const unknown = Metric.counter("tickerline_cache_versions_unknown_total", {
  description: "Times that the versions of the datasets could not be read; answers then come from the database.",
  incremental: true,
})

const Version = Schema.Struct({
  dataset: Schema.String,
  version: Schema.String,
  changes: Schema.Number,
  /** Seconds since 1970; none where it was never changed. */
  changed_at: Schema.NullOr(Schema.Number),
})

/** The versions of some tables. */
export interface Watched {
  /** Another text after every committed write to one of them; undefined while that is not known for certain. */
  readonly current: () => string | undefined
}

/** A table that nobody counts, because its trigger is gone, has no version. That it is another table counts as well. */
const reader = Effect.gen(function* () {
  const { config } = yield* Direct
  const sql = yield* PgClient.make({ ...config, maxConnections: 1, minConnections: 0 })
  return SqlSchema.findAll({
    Request: Schema.Void,
    Result: Version,
    execute: () =>
      sql`
        select relname as dataset, pg_class.oid || '.' || coalesce(sum(changes), 0) as version,
          coalesce(sum(changes), 0)::float8 as changes, extract(epoch from max(changed_at))::float8 as changed_at
        from pg_trigger join pg_class on pg_class.oid = tgrelid left join dataset_versions on dataset = relname
        where tgfoid = 'public.note_change'::regproc and tgenabled in ('O', 'A')
          and relnamespace = 'public'::regnamespace
        group by pg_class.oid, relname
      `,
  })
})

export class Versions extends Context.Service<Versions, {
  readonly of: (tables: ReadonlyArray<string>) => Watched
  /** Whether any version is known for certain just now. */
  readonly isKnown: () => boolean
}>()("tickerline/cache/Versions") {
  static readonly layer = Layer.effect(
    Versions,
    Effect.gen(function* () {
      const read = yield* reader
      yield* atZero(unknown)
      const scope = yield* Effect.scope
      let known: ReadonlyMap<string, typeof Version.Type> = new Map()
      // Of the clock that nobody sets back.
      let asOf = -Infinity
      let away = false

      const measured = new Set<string>()
      const measure = Effect.fnUntraced(function* (dataset: string) {
        measured.add(dataset)
        yield* counter({
          name: "tickerline_dataset_changes_total",
          description: "Committed changes of a dataset since it was made.",
          attributes: { dataset },
          read: () => known.get(dataset)?.changes ?? 0,
        })
        yield* gauge({
          name: "tickerline_dataset_changed_timestamp_seconds",
          description: "When a dataset was changed last, in seconds since 1970; 0: never.",
          attributes: { dataset },
          read: () => known.get(dataset)?.changed_at ?? 0,
        })
      }, Scope.provide(scope))

      const look = Effect.gen(function* () {
        const began = performance.now()
        const rows = yield* read()
        known = new Map(rows.map((row) => [row.dataset, row]))
        yield* Effect.forEach(Array.from(known.keys()).filter((dataset) => !measured.has(dataset)), measure)
        asOf = began
        away = false
      })

      const failed = Effect.fnUntraced(function* (error: { readonly message: string }) {
        yield* Metric.update(unknown, 1)
        if (!away) yield* Effect.logWarning(`The versions of the datasets cannot be read: ${error.message}`)
        away = true
      })

      const tryToLook = Effect.catch(Effect.timeout(look, patience), failed)
      yield* tryToLook
      // Of no request, and four times a second: of no use among traces.
      yield* Effect.forkScoped(Effect.withTracerEnabled(Effect.forever(Effect.delay(tryToLook, every)), false))

      const isKnown = () => performance.now() - asOf <= believed

      /** Joined once for each reading. */
      const of = (tables: ReadonlyArray<string>): Watched => {
        let joined: string | undefined
        let from: typeof known | undefined
        const current = () => {
          if (!isKnown()) return undefined
          if (from !== known) {
            const versions = tables.map((table) => known.get(table)?.version)
            joined = versions.includes(undefined) ? undefined : versions.join(" ")
            from = known
          }
          return joined
        }
        return { current }
      }
      return Versions.of({ of, isKnown })
    }),
  ).pipe(Layer.provide(Reactivity.layer))
}
