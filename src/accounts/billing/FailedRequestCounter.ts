/**
 * Counts requests that failed with a 5xx status before their account was identified, for the console
 * (docs/operations/which-account.md). All other failures are recorded as usage. While PostgreSQL does not accept
 * writes, the counts wait in memory.
 */
import { Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { addForkedFinalizer, repeatInBackground } from "../../postgres/metrics/BackgroundFibers.ts"
import { describeFailure } from "../../postgres/FailureText.ts"

const writeInterval = Duration.seconds(1)
const writeTimeout = Duration.seconds(5)

/** For how many minutes the counts of failed requests are retained, in memory and in PostgreSQL. */
const keptMinutes = 60

interface FailedRequests {
  readonly minute: number
  readonly endpoint: string
  readonly status: number
  requests: number
}

/**
 * Builds the function that counts failed requests by minute, status and endpoint, for the operators' console. The
 * counts are written once a second, in the background. While they cannot be written, they stay in memory.
 */
export const makeFailedRequestCounter = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  /**
   * Counts that have not been written yet, keyed by minute, status and endpoint. While writes fail, only the last hour
   * is retained, so the map cannot grow without limit.
   */
  let waiting = new Map<string, FailedRequests>()
  let isFailing = false

  const add = ({ endpoint, minute, requests, status }: FailedRequests) => {
    const key = `${minute} ${status} ${endpoint}`
    const found = waiting.get(key)
    if (found === undefined) waiting.set(key, { minute, endpoint, status, requests })
    else found.requests += requests
  }

  /** Adds the given counts to those in PostgreSQL, and deletes counts that are more than `keptMinutes` old. */
  const write = (counts: ReadonlyArray<FailedRequests>) =>
    sql`
      with expired as (
        delete from failed_requests where minute < now() - make_interval(mins => ${keptMinutes}::int)
      )
      insert into failed_requests as existing (minute, endpoint, status_code, requests)
      select to_timestamp(minute * 60), endpoint, status, requests
      from json_to_recordset(${JSON.stringify(counts)}::text::json)
        as counted (minute bigint, endpoint text, status smallint, requests bigint)
      on conflict (minute, endpoint, status_code) do update set requests = existing.requests + excluded.requests
    `

  const logFirstFailure = Effect.fnUntraced(function* (error: unknown) {
    if (isFailing) return
    isFailing = true
    yield* Effect.logWarning(`Failed requests are not counted for the console: ${describeFailure(error)}`)
  })

  const writeWaiting = Effect.suspend(() => {
    if (waiting.size === 0) return Effect.void
    const taken = [...waiting.values()]
    // Requests that fail during the write are counted in a new map.
    waiting = new Map()
    const keepForNextAttempt = Effect.sync(() => {
      const oldest = Math.max(...taken.map(({ minute }) => minute)) - keptMinutes
      taken.filter(({ minute }) => minute >= oldest).forEach(add)
    })
    return Effect.matchEffect(Effect.timeout(write(taken), writeTimeout), {
      onSuccess: () => Effect.sync(() => void (isFailing = false)),
      onFailure: (error) => Effect.andThen(keepForNextAttempt, logFirstFailure(error)),
    })
  })
  yield* addForkedFinalizer(Effect.asVoid(writeWaiting))
  yield* repeatInBackground(writeWaiting, writeInterval)

  /** Counts a failed request that arrived at `time` (Unix time in milliseconds). */
  return (endpoint: string, status: number, time: number) =>
    add({ minute: Math.floor(time / 60_000), endpoint, status, requests: 1 })
})
