/**
 * Runs a random workload of writes, loads, `as_of` requests and change feed consumers, while services, loads and
 * PostgreSQL are killed and a standby takes over. HistoryChecker then checks what the clients observed.
 * `test/faults/history.test.ts` is the shortest example of a run.
 */
import { PgConnection } from "@effect/sql-pg"
import { assert } from "@effect/vitest"
import { Cause, Data, Duration, Effect, Exit, Fiber, FileSystem, Redacted, Schedule, Schema, Scope } from "effect"
import { SqlError } from "effect/sql"
import { createHash } from "node:crypto"
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describeSqlError } from "../../src/postgres/FailureText.ts"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import * as CustomerUsage from "./CustomerUsage.ts"
import { DedicatedPostgres, type PostgresServer } from "./DedicatedPostgres.ts"
import {
  type ConsumerFilter,
  type ConsumerRecord,
  findHistoryViolations,
  findRowTokens,
  formatRowToken,
  matchesConsumerFilter,
  type ObservedChange,
  type PastResponse,
  type WrittenTransaction,
} from "./HistoryChecker.ts"
import { openEventStream } from "./EventStreams.ts"
import * as HistoryTables from "./RandomHistoryWrites.ts"
import { combinedOutput, endProcess, type RunningProcess, startCommandProcess } from "./Processes.ts"
import { type Choices, makeRandomChooser, type RandomChooser } from "./RandomChoices.ts"
import { requestOverWire, startServiceProcess, type WireResponse } from "./ServiceInstances.ts"
import { queryServer } from "./TwoStandbys.ts"
import { makeStandbyOf } from "./SynchronousStandby.ts"
import { startTcpProxy } from "./TcpProxy.ts"
import { paceWorkload } from "./Pauses.ts"

const { chooseInteger, chooseNumber, happensWithProbability } = HistoryTables

/** The size of a run and its faults. */
export interface HistoryOptions {
  readonly seed: number
  /** The number of service processes. */
  readonly services: number
  readonly writers: number
  readonly readers: number
  /** New rounds of faults start until this time has passed. There is always at least one round. */
  readonly duration: Duration.Duration
  /** The number of transactions that commit between two faults. */
  readonly transactionsPerFault: number
  readonly maxLoadedRows: number
  /** The maximum pause of a writer or reader between two transactions or requests, in milliseconds. */
  readonly pause: number
  /** The maximum pause between two loads, in milliseconds. */
  readonly loadPause: number
}

// ---------------------------------------------------------------------------------------------------------------------
// The record of what the workload wrote and read
// ---------------------------------------------------------------------------------------------------------------------

const formatMoment = (millis: number, microseconds = 0) =>
  new Date(millis).toISOString().replace("Z", `${String(microseconds).padStart(3, "0")}Z`)

const computeDigest = (text: string) => createHash("sha256").update(text).digest("base64url").slice(0, 22)

/**
 * Creates the record of a run: what the clients wrote and read, in memory for the check at the end, and the same as one
 * line of JSON per operation in a temporary file, for finding the cause of a failure. `counts` are numbers of
 * transactions, requests, consumer restarts, and pages of the feed, and `faults` counts the faults by name.
 */
const makeRecord = ({ seed }: HistoryOptions) => {
  const folder = mkdtempSync(join(tmpdir(), "tickerline-history-"))
  const file = join(folder, "operations.jsonl")
  const transactions: Array<WrittenTransaction> = []
  const responses: Array<PastResponse> = []
  const unexpected: Array<string> = []
  const counts = { committed: 0, refused: 0, restarts: 0, pages: 0 }
  const faults: Record<string, number> = {}
  let lastTransaction = 0
  const log = (operation: string, values: object) =>
    appendFileSync(file, `${JSON.stringify({ at: formatMoment(Date.now()), operation, ...values })}\n`)
  log("begin", { seed })
  return {
    file,
    folder,
    transactions,
    responses,
    unexpected,
    counts,
    faults,
    /** All service processes, including those that have been killed. */
    processes: new Array<RunningProcess>(),
    log,
    nextTransaction: () => lastTransaction += 1,
    addTransaction: (transaction: WrittenTransaction, values: object) => {
      transactions.push(transaction)
      if (transaction.outcome === "committed") counts.committed += 1
      log("transaction", { ...transaction, ...values })
    },
    addPastResponse: (response: PastResponse) => {
      responses.push(response)
      log("response", response)
    },
    addUnexpected: (what: string) => {
      unexpected.push(what)
      log("unexpected", { what })
    },
    addFault: (fault: string) => {
      faults[fault] = (faults[fault] ?? 0) + 1
      log("fault", { fault })
    },
  }
}

type HistoryRecord = ReturnType<typeof makeRecord>

// ---------------------------------------------------------------------------------------------------------------------
// Writers
// ---------------------------------------------------------------------------------------------------------------------

const ReturnedRows = Schema.Array(Schema.Struct({ key: Schema.String, token: Schema.String }))
const decodeReturned = Schema.decodeUnknownEffect(ReturnedRows)

const describeCause = (cause: Cause.Cause<unknown>) => {
  const error = Cause.squash(cause)
  return SqlError.isSqlError(error) ? describeSqlError(error) : String(error)
}

/** Statements that a client might use to try to hide its changes from the history. */
const disturbances: Choices<string> = [
  "set constraints all immediate",
  "set constraints history.record_transaction immediate",
  "set constraints all deferred",
  "set tickerline.transaction = '1'",
  "set local tickerline.written = ''",
]

const isolations = ["read committed", "read committed", "repeatable read", "serializable"] as const

/** Runs one random transaction. Returns whether the connection is still usable. */
const runTransaction = Effect.fnUntraced(function* (
  connection: PgConnection.PgConnection,
  record: HistoryRecord,
  choose: RandomChooser,
  writer: number,
) {
  const id = record.nextTransaction()
  let rows = 0
  const makeToken = () => formatRowToken(id, rows += 1)
  const statements: Array<string> = []
  const query = (text: string) => {
    statements.push(text)
    return Effect.timeout(connection.query(text), "20 seconds")
  }
  let leaves = new Map<string, string>()
  const write = Effect.fnUntraced(function* ({ effect, table, text }: HistoryTables.HistoryStatement) {
    const { rows } = yield* query(text)
    for (const { key, token } of yield* decodeReturned(rows)) {
      if (effect === "writes") leaves.set(`${table} ${key}`, token)
      else leaves.delete(`${table} ${key}`)
    }
    if (effect === "truncates") {
      leaves = new Map(Array.from(leaves).filter(([name]) => !name.startsWith(`${table} `)))
    }
  })
  const body = Effect.gen(function* () {
    yield* query(`begin isolation level ${choose(isolations)}`)
    for (let count = choose([1, 1, 2, 3, 6]); count > 0; count -= 1) {
      const isTakenBack = happensWithProbability(choose, 0.1)
      const before = new Map(leaves)
      if (isTakenBack) yield* query("savepoint before")
      if (happensWithProbability(choose, 0.1)) yield* query(choose(disturbances))
      yield* write(HistoryTables.chooseStatement(choose, makeToken))
      if (isTakenBack) {
        yield* query("rollback to before")
        leaves = before
      }
      if (happensWithProbability(choose, 0.04)) yield* paceWorkload(chooseInteger(choose, 2_000))
    }
    yield* write(HistoryTables.makeMarkerStatement(writer, makeToken()))
  })
  const written = yield* Effect.exit(body)
  const earliest = Date.now()
  const add = (outcome: WrittenTransaction["outcome"], reason?: string) =>
    record.addTransaction({
      id,
      outcome,
      tokens: Array.from(leaves.values()),
      earliest: formatMoment(earliest),
      latest: formatMoment(Date.now() + 1),
    }, { writer, statements, reason })
  if (Exit.isFailure(written) || happensWithProbability(choose, 0.08)) {
    add("aborted", Exit.isFailure(written) ? describeCause(written.cause) : "rolled back")
    return Exit.isSuccess(yield* Effect.exit(query("rollback")))
  }
  const committed = yield* Effect.exit(query("commit"))
  if (Exit.isFailure(committed)) add("unknown", describeCause(committed.cause))
  else add(committed.value.command === "COMMIT" ? "committed" : "aborted")
  return Exit.isSuccess(committed)
})

/** Runs transactions until `isStopping` returns true. Opens a new connection whenever the previous one fails. */
const runWriter = (
  url: string,
  record: HistoryRecord,
  choose: RandomChooser,
  writer: number,
  pause: number,
  isStopping: () => boolean,
) => {
  const session = Effect.scoped(Effect.gen(function* () {
    const connection = yield* PgConnection.make({ url: Redacted.make(url), connectTimeout: "5 seconds" })
    yield* connection.query("set lock_timeout = '1s'")
    yield* connection.query("set deadlock_timeout = '100ms'")
    let isUsable = true
    while (isUsable && !isStopping()) {
      isUsable = yield* runTransaction(connection, record, choose, writer)
      yield* paceWorkload(chooseNumber(choose) * pause)
    }
  }))
  return Effect.exit(session).pipe(
    Effect.andThen(Effect.suspend(() => isStopping() ? Effect.void : paceWorkload("100 millis"))),
    Effect.repeat({ while: () => !isStopping() }),
  )
}

/**
 * Runs the `load` command with random files. Kills loads early until one has been interrupted, and kills random loads
 * afterwards.
 */
const runLoader = Effect.fnUntraced(function* (
  url: string,
  record: HistoryRecord,
  choose: RandomChooser,
  { loadPause, maxLoadedRows }: HistoryOptions,
  isStopping: () => boolean,
) {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-loads-" })
  let hasKilled = false
  while (!isStopping() || !hasKilled) {
    const id = record.nextTransaction()
    const { content, dataset, tokens } = HistoryTables.chooseLoadFile(choose, id, maxLoadedRows)
    const file = `${folder}/${id}.csv`
    yield* fs.writeFileString(file, content)
    const earliest = formatMoment(Date.now())
    const append = choose([["--append"], ["--yes"]])
    const loading = yield* startCommandProcess(["load", dataset, file, ...append], { DATABASE_URL: url })
    if (!hasKilled || happensWithProbability(choose, 0.3)) {
      const millis = hasKilled ? 300 + chooseInteger(choose, 1_200) : 200 + chooseInteger(choose, 200)
      yield* Effect.raceFirst(Effect.promise(() => loading.ended), paceWorkload(millis))
      if (loading.child.exitCode === null) {
        record.addFault("load killed")
        hasKilled = true
      }
      yield* endProcess(loading, "SIGKILL")
    }
    const { code, err } = yield* Effect.promise(() => loading.ended)
    yield* fs.remove(file)
    const outcome = code === 0 ? "committed" : "unknown"
    const latest = formatMoment(Date.now() + 1)
    record.addTransaction({ id, outcome, tokens, earliest, latest }, { load: dataset, append, code, err })
    yield* paceWorkload(chooseNumber(choose) * loadPause)
  }
}, Effect.scoped)

// ---------------------------------------------------------------------------------------------------------------------
// Readers and consumers
// ---------------------------------------------------------------------------------------------------------------------

interface Client {
  /** The ports of the service processes. */
  readonly ports: ReadonlyArray<number>
  readonly key: string
  /**
   * Sends a request to a randomly chosen service. Returns undefined if there is no response, or if it is a 503 or 429.
   */
  readonly request: (choose: RandomChooser, target: string) => Effect.Effect<WireResponse | undefined>
}

/** Requests that return all rows of a dataset, each with the dataset's name. */
const completeTargets: Readonly<Record<string, string>> = {
  "/v1/news?format=ndjson&limit=all": "news",
  "/v1/research-reports?format=csv&limit=all": "research_reports",
  [`/v1/split-status?format=ndjson&limit=all&ticker=${HistoryTables.historySymbols.join(",")}`]: "split_status",
}

/** Chooses the path and query of a request that a reader repeats with `as_of`: lists, pages, exports and lineages. */
const chooseTarget = (choose: RandomChooser) => {
  const symbol = choose(HistoryTables.historySymbols)
  const page = `limit=${choose([3, 10, 100])}&page=${choose([1, 1, 2])}`
  return choose([
    "/v1/news?format=ndjson&limit=all",
    ...Object.keys(completeTargets),
    `/v1/news?${page}`,
    `/v1/news?ticker=${symbol}&follow_lineage=true&${page}`,
    `/v1/news-basic?ticker=${symbol}&provenance=true&format=csv`,
    `/v1/research-reports?ticker=${symbol}&${page}`,
    `/v1/split-status?ticker=${symbol}&${page}`,
    `/v1/split-status?ticker=${symbol}&follow_lineage=true`,
    `/v1/ticker-changes?ticker=${symbol}`,
    `/v1/historical-tickers?ticker=${symbol}`,
    `/v1/screener?ticker=${symbol}&follow_lineage=true`,
  ])
}

const stableStatuses = new Set([200, 404, 409])

/** Requests a target with `as_of`. Returns undefined if there is no response, or if it is a 503 or 429. */
const requestPast = Effect.fnUntraced(function* (
  { request }: Client,
  record: HistoryRecord,
  choose: RandomChooser,
  target: string,
  moment: string,
) {
  const response = yield* request(choose, `${target}&as_of=${encodeURIComponent(moment)}`)
  if (response === undefined) return undefined
  const { headers, status } = response
  if (!stableStatuses.has(status)) record.addUnexpected(`0114: ${target} at ${moment}: ${status} ${response.text}`)
  const text = response.text.replace(/"request_id":"[^"]*"/, "")
  const dataset = status === 200 ? completeTargets[target] : undefined
  // Removes each service's address from the links, so that responses from different services can be compared.
  const links = headers["link"]?.replaceAll(/http:\/\/[^/]*/g, "")
  const digest = computeDigest(`${headers["x-row-count"]} ${links} ${text}`)
  const past = { target, moment, status, etag: headers["etag"], digest, tokens: findRowTokens(text), dataset }
  return past satisfies PastResponse
})

/**
 * Requests random targets with random `as_of` times: seconds ago, at or just before a change, or the time of an earlier
 * request.
 */
const runReader = Effect.fnUntraced(function* (
  client: Client,
  record: HistoryRecord,
  choose: RandomChooser,
  pause: number,
  recentMoments: ReadonlyArray<string>,
  isStopping: () => boolean,
) {
  const first = Date.now()
  while (!isStopping()) {
    const known = record.responses[chooseInteger(choose, record.responses.length)]
    const recent = recentMoments[recentMoments.length - 1 - chooseInteger(choose, Math.min(50, recentMoments.length))]
    // Uses a time at least 20 ms ago, because the service's clock may be a few milliseconds behind this process's
    // clock.
    const ago = formatMoment(
      Math.max(first, Date.now() - 20 - chooseInteger(choose, 1_500)),
      chooseInteger(choose, 1_000),
    )
    const [target, moment] = choose<readonly [string, string]>([
      [chooseTarget(choose), ago],
      [chooseTarget(choose), ago],
      [chooseTarget(choose), recent ?? ago],
      [chooseTarget(choose), recent === undefined ? ago : getPreviousMoment(recent)],
      [chooseTarget(choose), known?.moment ?? ago],
      known === undefined ? [chooseTarget(choose), ago] : [known.target, known.moment],
    ])
    const response = yield* requestPast(client, record, choose, target, moment)
    if (response !== undefined) record.addPastResponse(response)
    yield* paceWorkload(response === undefined ? 200 : chooseNumber(choose) * pause)
  }
})

/** Returns the timestamp one microsecond earlier. */
const getPreviousMoment = (moment: string) => {
  const microseconds = BigInt(Date.parse(`${moment.slice(0, 19)}Z`)) * 1_000n + BigInt(moment.slice(20, 26)) - 1n
  return formatMoment(Number(microseconds / 1_000n), Number(microseconds % 1_000n))
}

const Values = Schema.Record(Schema.String, Schema.Unknown)
const FeedChange = Schema.Struct({
  cursor: Schema.String,
  recorded_at: Schema.String,
  dataset: Schema.String,
  kind: Schema.String,
  key: Values,
  row: Schema.NullOr(Values),
  before: Schema.NullOr(Values),
  changed: Schema.Array(Schema.String),
})
const FeedPage = Schema.Struct({
  results: Schema.Array(FeedChange),
  cursor: Schema.String,
  has_more: Schema.Boolean,
})
const decodePage = Schema.decodeUnknownSync(Schema.fromJsonString(FeedPage))

const symbolColumns = ["ticker", "old_ticker", "new_ticker"]

/**
 * Converts a change of the feed to the form that is checked. `recorded_at` has microseconds, which `Date.parse`
 * ignores: they are the digits 23 to 25 of the text. The column that has a row's token is different in each dataset.
 */
const toObservedChange = (change: typeof FeedChange.Type): ObservedChange => {
  const { before, cursor, dataset, key, kind, recorded_at, row } = change
  const column = HistoryTables.historyTables.find(({ name }) => name === dataset)?.token ?? ""
  const tokenOf = (values: typeof row) => values === null ? undefined : String(values[column])
  const symbols = [row, before].flatMap((values) => symbolColumns.flatMap((name) => values?.[name] ?? []))
  return {
    identity: `${cursor} ${computeDigest(JSON.stringify(change))}`,
    moment: formatMoment(Date.parse(recorded_at), Number(recorded_at.slice(23, 26))),
    dataset,
    kind,
    key: Object.values(key).filter((cell) => cell !== null).join(" "),
    symbols: Array.from(new Set(symbols.map(String))),
    token: tokenOf(row),
    before: tokenOf(before),
  }
}

const formatFilter = (filter: ConsumerFilter) =>
  Object.entries(filter).map(([name, values]: [string, ReadonlyArray<string>]) => `${name}=${values.join(",")}`)

const makeFeedTarget = (filter: ConsumerFilter, limit: number, cursor: string | undefined) =>
  `/v1/changes?${
    [...formatFilter(filter), `limit=${limit}`, ...(cursor === undefined ? [] : [`after=${cursor}`])].join("&")
  }`

const followerFilters: ReadonlyArray<ConsumerFilter> = [{}, { dataset: ["news"], ticker: ["TA", "TB"] }]

const consumerFilters: ReadonlyArray<ConsumerFilter> = [
  {},
  {},
  { dataset: ["news", "ticker_changes"] },
  { kind: ["corrected", "removed"] },
  { ticker: ["TA", "OB"] },
  { ticker: ["TC"], dataset: ["split_status"], kind: ["added", "removed"] },
]

/**
 * Creates the memory of a consumer: how far it has read the feed, and all changes that it has received since each of
 * its restarts (`segments`). `receive` adds changes and moves the position. `store` keeps the position, as a real
 * consumer does in its database, and `restart` goes back to the position that was stored last.
 */
const makeReceipts = (record: HistoryRecord, name: string, filter: ConsumerFilter) => {
  const segments: Array<{ readonly from: number; readonly identities: Array<string> }> = []
  let position: { readonly cursor: string | undefined; readonly count: number } = { cursor: undefined, count: 0 }
  let stored = position
  const restart = () => {
    position = stored
    record.counts.restarts += 1
    if (segments.at(-1)?.identities.length === 0) segments.pop()
    segments.push({ from: position.count, identities: [] })
  }
  restart()
  return {
    consumer: { name, filter, segments } satisfies ConsumerRecord,
    getPosition: () => position,
    receive: (changes: ReadonlyArray<ObservedChange>, cursor: string) => {
      segments.at(-1)?.identities.push(...changes.map(({ identity }) => identity))
      position = { cursor, count: position.count + changes.length }
      record.log("received", { consumer: name, changes: changes.length, cursor })
    },
    store: () => {
      stored = position
    },
    restart,
  }
}

/** Polls the feed from its start until `isStopping` returns true and all changes have been received. */
const runConsumer = Effect.fnUntraced(function* (
  { request }: Client,
  record: HistoryRecord,
  choose: RandomChooser,
  name: string,
  filter: ConsumerFilter,
  isStopping: () => boolean,
  onChange: (change: ObservedChange) => void,
) {
  const { consumer, getPosition, receive, restart, store } = makeReceipts(record, name, filter)
  while (true) {
    const isLast = isStopping()
    const target = makeFeedTarget(filter, choose([1, 3, 10, 100, 1000]), getPosition().cursor)
    const response = yield* request(choose, target)
    if (response?.status !== 200) {
      if (response !== undefined) record.addUnexpected(`0115: ${target}: ${response.status} ${response.text}`)
      restart()
      yield* paceWorkload("200 millis")
      continue
    }
    const { cursor, has_more, results } = decodePage(response.text)
    const changes = results.map(toObservedChange)
    changes.forEach(onChange)
    receive(changes, cursor)
    record.counts.pages += 1
    if (isLast && !has_more && changes.length === 0) return consumer
    if (happensWithProbability(choose, 0.6)) store()
    if (!isLast && happensWithProbability(choose, 0.02)) restart()
    if (!has_more) yield* paceWorkload(isLast ? 10 : 100 + chooseInteger(choose, 500))
  }
})

const decodeChange = Schema.decodeUnknownSync(Schema.fromJsonString(FeedChange))

/**
 * Follows the stream until it has received the expected number of changes. That number is known only after all writes.
 */
const runFollower = Effect.fnUntraced(function* (
  { key, ports }: Client,
  record: HistoryRecord,
  choose: RandomChooser,
  name: string,
  filter: ConsumerFilter,
  getExpectedCount: () => number | undefined,
) {
  const { consumer, getPosition, receive, restart, store } = makeReceipts(record, name, filter)
  const isComplete = () => getPosition().count >= (getExpectedCount() ?? Infinity)
  const follow = Effect.scoped(Effect.gen(function* () {
    const { cursor } = getPosition()
    const headers = cursor === undefined ? {} : { "Last-Event-ID": cursor }
    const port = ports[chooseInteger(choose, ports.length)] ?? 0
    const stream = yield* openEventStream(port, formatFilter(filter).join("&"), { key, headers })
    if (stream.status !== 200) {
      if (![0, 429, 503].includes(stream.status)) record.addUnexpected(`0117: ${name}: ${stream.status} ${stream.text}`)
      return
    }
    let taken = 0
    while (!isComplete()) {
      const isClosed = stream.isClosed
      const events = stream.events.slice(taken)
      taken += events.length
      for (const { data, event, id } of events) {
        if (event === "change") receive([toObservedChange(decodeChange(data))], id)
        else if (event !== "end" || !/"(server_stopping|slow_client)"/.test(data)) {
          record.addUnexpected(`0117: ${name}: ${event} ${data}`)
        }
      }
      if (stream.lastId !== "" && stream.lastId !== getPosition().cursor) receive([], stream.lastId)
      if (happensWithProbability(choose, 0.6)) store()
      if (isClosed || (getExpectedCount() === undefined && happensWithProbability(choose, 0.01))) return
      yield* paceWorkload("50 millis")
    }
  }))
  yield* Effect.exit(follow).pipe(
    Effect.andThen(Effect.suspend(() => isComplete() ? Effect.void : paceWorkload("200 millis"))),
    Effect.tap(() => Effect.sync(() => isComplete() || restart())),
    Effect.repeat({ until: isComplete }),
  )
  return consumer
})

const readFeed = Effect.fnUntraced(function* ({ request }: Client, choose: RandomChooser) {
  const changes: Array<ObservedChange> = []
  let cursor: string | undefined
  while (true) {
    const response = yield* request(choose, makeFeedTarget({}, 1000, cursor))
    assert.strictEqual(response?.status, 200, response?.text)
    const page = decodePage(response?.text ?? "")
    changes.push(...page.results.map(toObservedChange))
    cursor = page.cursor
    if (!page.has_more) return changes
  }
})

// ---------------------------------------------------------------------------------------------------------------------
// Servers and faults
// ---------------------------------------------------------------------------------------------------------------------

type Standby = Effect.Success<ReturnType<typeof makeStandbyOf>>

/**
 * Provides a primary and a standby behind one address (`url`), which is that of a proxy. `restart` stops the primary
 * and starts it again. `failOver` kills the primary, promotes the standby, and directs the proxy to it. Then there is
 * no standby until `addStandby` creates one.
 */
const makeServers = Effect.fnUntraced(function* (record: HistoryRecord) {
  const fs = yield* FileSystem.FileSystem
  let primary: PostgresServer = yield* DedicatedPostgres
  let standby: Standby | undefined
  const proxy = yield* startTcpProxy(primary.port)
  const url = new URL(primary.url)
  url.port = String(proxy.port)

  const addStandby = Effect.gen(function* () {
    standby = yield* makeStandbyOf(primary)
    yield* standby.synchronous
    record.log("standby", { port: standby.port })
  })
  /**
   * Waits until the standby has all visible commits. A restarted primary shows commits before the standby has received
   * them.
   */
  const waitForStandby = Effect.suspend(() => standby?.waitUntilComplete ?? Effect.void)

  const restart = Effect.fnUntraced(function* (signal: "SIGINT" | "SIGKILL", choose: RandomChooser) {
    yield* primary.stop(signal)
    yield* paceWorkload(chooseInteger(choose, 1_500))
    yield* primary.start
    yield* waitForStandby
  })
  const failOver = Effect.fnUntraced(function* (choose: RandomChooser) {
    const [failed, next] = [primary, standby]
    if (next === undefined) return
    yield* failed.stop("SIGKILL")
    yield* paceWorkload(chooseInteger(choose, 1_000))
    // A real load balancer may switch to the standby before or after it is promoted, so the test does one or the other
    // at random.
    const isEarly = happensWithProbability(choose, 0.5)
    if (isEarly) yield* proxy.lead(next.port)
    yield* paceWorkload(chooseInteger(choose, 500))
    yield* next.promote
    yield* proxy.lead(next.port)
    primary = next
    standby = undefined
    yield* Effect.orDie(fs.remove(failed.cluster.dataDirectory, { recursive: true }))
  })
  return { url: url.href, getPrimary: () => primary, addStandby, restart, failOver }
})

/**
 * Starts `count` service processes on the database at `url`. Returns a client, which sends each request with the API
 * key to a random process, and `killOne`, which kills the process with this index and starts another on the same port.
 */
const makeServices = Effect.fnUntraced(function* (url: string, key: string, count: number, record: HistoryRecord) {
  const scope = yield* Effect.scope
  const environment = { CACHE_MEGABYTES: "16", RATE_LIMIT_ULTIMATE: "1000000000" }
  const start = (port: number) =>
    Scope.provide(scope)(startServiceProcess(url, { ...environment, PORT: String(port) })).pipe(
      Effect.tap(({ running }) => Effect.sync(() => record.processes.push(running))),
    )
  const ports = yield* Effect.forEach(Array.from({ length: count }), () => chooseFreePort)
  const services = yield* Effect.forEach(ports, start, { concurrency: "unbounded" })

  const killOne = Effect.fnUntraced(function* (at: number) {
    const service = services[at]
    if (service === undefined) return
    yield* endProcess(service.running, "SIGKILL")
    services[at] = yield* start(service.port)
  })
  const client: Client = {
    ports,
    key,
    request: (choose, target) =>
      Effect.suspend(() => requestOverWire(ports[chooseInteger(choose, ports.length)] ?? 0, target, key)).pipe(
        Effect.timeout("30 seconds"),
        // Readers may export lists concurrently, so requests can exceed the account's limit for concurrent exports and
        // get a 429.
        Effect.map((response) => [429, 503].includes(response.status) ? undefined : response),
        Effect.orElseSucceed(() => undefined),
        Effect.tap((response) =>
          Effect.sync(() => {
            if (response === undefined) record.counts.refused += 1
          })
        ),
      ),
  }
  return { client, killOne }
})

// ---------------------------------------------------------------------------------------------------------------------
// Running the workload, and reporting failures
// ---------------------------------------------------------------------------------------------------------------------

class NoAnswer extends Data.TaggedError("NoAnswer")<{ readonly message: string }> {}

/** Prints how to investigate a failure, and saves the services' output to files. */
const reportFailure = (seed: number, { file, folder, processes }: HistoryRecord) =>
  Effect.sync(() => {
    processes.forEach((running, index) => writeFileSync(join(folder, `service-${index}.log`), combinedOutput(running)))
    console.error(`HISTORY_SEED=${seed} repeats the random choices. Operations: ${file}`)
  })

const observe = Effect.fnUntraced(function* (options: HistoryOptions, record: HistoryRecord) {
  const { duration, readers, seed, services: serviceCount, transactionsPerFault, writers } = options
  let actors = 0
  const nextChooser = () => makeRandomChooser(seed + 7_919 * (actors += 1))
  const choose = nextChooser()
  const { key } = yield* CustomerUsage.createCustomer("history", { tier: "ultimate" })
  const servers = yield* makeServers(record)
  yield* servers.addStandby
  const services = yield* makeServices(servers.url, key, serviceCount, record)

  const flags = { writing: true, reading: true, consuming: true }
  const recentMoments: Array<string> = []
  const many = <A, E, R>(count: number, make: (index: number) => Effect.Effect<A, E, R>) =>
    Effect.forEach(Array.from({ length: count }, (_, index) => index), (index) => Effect.forkScoped(make(index)))
  const writing = yield* many(
    writers,
    (writer) => runWriter(servers.url, record, nextChooser(), writer, options.pause, () => !flags.writing),
  )
  const loading = yield* Effect.forkScoped(
    runLoader(servers.url, record, nextChooser(), options, () => !flags.writing),
  )
  const reading = yield* many(
    readers,
    () => runReader(services.client, record, nextChooser(), options.pause, recentMoments, () => !flags.reading),
  )
  const consuming = yield* many(consumerFilters.length, (index) => {
    const filter = consumerFilters[index] ?? {}
    const name = `consumer ${index + 1} ${JSON.stringify(filter)}`
    const onChange = index > 0 ? () => {} : ({ moment }: ObservedChange) => {
      if (moment > (recentMoments.at(-1) ?? "")) recentMoments.push(moment)
    }
    return runConsumer(services.client, record, nextChooser(), name, filter, () => !flags.consuming, onChange)
  })

  let allChangesFilter: ReadonlyArray<ObservedChange> | undefined
  const following = yield* many(followerFilters.length, (index) => {
    const filter = followerFilters[index] ?? {}
    const name = `follower ${index + 1} ${JSON.stringify(filter)}`
    const getExpectedCount = () => allChangesFilter?.filter((change) => matchesConsumerFilter(filter, change)).length
    return runFollower(services.client, record, nextChooser(), name, filter, getExpectedCount)
  })

  const progress = Effect.suspend(() => {
    const { committed, pages } = record.counts
    const [responses, count] = [record.responses.length, transactionsPerFault]
    const isReached = () =>
      record.counts.committed >= committed + count && record.responses.length >= responses + count / 2 &&
      record.counts.pages >= pages + count / 2
    return Effect.repeat(Effect.sync(isReached), { until: (is) => is, schedule: Schedule.spaced("50 millis") }).pipe(
      Effect.timeout("2 minutes"),
    )
  })
  const faults = {
    "service killed": Effect.suspend(() => services.killOne(chooseInteger(choose, serviceCount))),
    "PostgreSQL killed": servers.restart("SIGKILL", choose),
    "PostgreSQL restarted": servers.restart("SIGINT", choose),
    failover: servers.failOver(choose),
  } as const
  type Fault = keyof typeof faults
  /**
   * Injects the faults of a round and waits for progress between them. Each round has one failover, which turns the
   * standby into the primary.
   */
  const runRound = Effect.fnUntraced(function* (round: ReadonlyArray<Fault>) {
    for (const fault of round) {
      yield* progress
      yield* paceWorkload(chooseInteger(choose, 500))
      record.addFault(fault)
      yield* faults[fault]
    }
    yield* progress
  })
  const orders: readonly [ReadonlyArray<Fault>, ...ReadonlyArray<ReadonlyArray<Fault>>] = [
    ["service killed", "PostgreSQL killed", "failover"],
    ["PostgreSQL killed", "failover", "service killed"],
    ["failover", "service killed", "PostgreSQL killed"],
    ["PostgreSQL killed", "service killed", "PostgreSQL restarted", "failover"],
    ["failover", "PostgreSQL killed", "PostgreSQL killed", "service killed"],
  ]
  const end = Date.now() + Duration.toMillis(duration)
  yield* runRound(choose(orders))
  while (Date.now() < end) {
    yield* servers.addStandby
    yield* runRound(choose(orders))
  }

  flags.writing = false
  yield* Effect.forEach([...writing, loading], (fiber) => Fiber.join(fiber))
  flags.reading = false
  yield* Effect.forEach(reading, (fiber) => Fiber.join(fiber))
  flags.consuming = false
  const consumers = yield* Effect.forEach(consuming, (fiber) => Fiber.join(fiber))
  allChangesFilter = yield* readFeed(services.client, choose)
  const followers = yield* Effect.timeoutOrElse(Effect.forEach(following, (fiber) => Fiber.join(fiber)), {
    duration: "1 minute",
    orElse: () =>
      Effect.sync((): ReadonlyArray<ConsumerRecord> => {
        record.addUnexpected("0117: A follower of the stream did not receive all changes within a minute")
        return []
      }),
  })

  // Restarts the services, so that none of the responses below come from a cache.
  yield* Effect.forEach(Array.from({ length: serviceCount }), (_, at) => services.killOne(at))
  const requests = new Map(record.responses.map((response) => [`${response.target} ${response.moment}`, response]))
  yield* Effect.forEach(
    requests.values(),
    ({ moment, target }) =>
      requestPast(services.client, record, choose, target, moment).pipe(
        Effect.filterOrFail(
          (response) => response !== undefined,
          () => new NoAnswer({ message: `${target} at ${moment} has no response after the run` }),
        ),
        Effect.map(record.addPastResponse),
      ),
    // Runs sequentially, because an account may have only two exports in progress.
    { discard: true },
  )
  const changes = yield* readFeed(services.client, choose)
  const tables = yield* Effect.forEach(HistoryTables.historyTables, (table) =>
    Effect.map(
      Effect.flatMap(
        queryServer(servers.getPrimary().url, HistoryTables.makeTokenQuery(table)),
        ({ rows }) => decodeReturned(rows),
      ),
      (rows) => [table.name, new Map(rows.map(({ key, token }) => [key, token]))] as const,
    ))
  const { responses, transactions } = record
  const received = [...consumers, ...followers]
  return {
    history: { transactions, changes, consumers: received, responses, tables: new Map(tables) },
    requests: requests.size,
  }
})

/** Runs the workload. Fails if the observations violate a guarantee. Returns the number of operations and faults. */
export const runHistoryWorkload = Effect.fnUntraced(function* (options: HistoryOptions) {
  const record = makeRecord(options)
  return yield* Effect.gen(function* () {
    const { history, requests } = yield* observe(options, record)
    const violations = [...record.unexpected, ...findHistoryViolations(history)]
    violations.forEach((violation) => record.log("violation", { violation }))
    assert.deepStrictEqual(violations.slice(0, 10), [], `${violations.length} violations`)
    yield* Effect.sync(() => rmSync(record.folder, { recursive: true }))
    const outcomes = (outcome: WrittenTransaction["outcome"]) =>
      history.transactions.filter((transaction) => transaction.outcome === outcome).length
    return {
      seed: options.seed,
      committed: outcomes("committed"),
      aborted: outcomes("aborted"),
      unknown: outcomes("unknown"),
      changes: history.changes.length,
      pastResponses: requests,
      pastRequests: history.responses.length,
      pages: record.counts.pages,
      consumerRestarts: record.counts.restarts,
      refused: record.counts.refused,
      faults: record.faults,
    }
  }).pipe(Effect.onError(() => reportFailure(options.seed, record)))
})
