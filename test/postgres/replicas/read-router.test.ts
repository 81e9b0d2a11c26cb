/**
 * Tests that reads from replicas are as fresh as reads from the primary (D17: caching), and that replica failures do
 * not affect clients.
 */
import { NodeCrypto } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import {
  Config,
  ConfigProvider,
  Context,
  Effect,
  Fiber,
  Layer,
  Logger,
  Metric,
  Random,
  Redacted,
  Schedule,
  type Scope,
} from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { inject } from "vitest"
import { DatasetVersions } from "../../../src/postgres/versions/DatasetVersions.ts"
import { DatabaseReader } from "../../../src/postgres/DatabaseReader.ts"
import { ReadRouter } from "../../../src/postgres/replicas/ReadRouter.ts"
import { grantRolePrivileges } from "../../../src/postgres/migrations/ServiceRole.ts"
import { checkReplicas } from "../../../src/operate/cli/doctor/DatabaseChecks.ts"
import { ExportCursors } from "../../../src/query/lists/ExportCursors.ts"
import { formatSettingProblems, toSettingProblems } from "../../../src/operate/cli/Settings.ts"
import { endpointsByDataset } from "../../../src/api/catalogue/DatasetEndpoints.ts"
import { makeAdmittedRequest } from "../../support/ApiRequests.ts"
import { documentedEndpoints, freeEndpointPaths, valueAt } from "../../support/DocumentedEndpoints.ts"
import * as ListDownloads from "../../support/ListDownloads.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"
import { DedicatedPostgres, sampleDedicatedLayer } from "../../support/DedicatedPostgres.ts"
import { startTcpProxy } from "../../support/TcpProxy.ts"
import * as Replicated from "../../support/ReplicaInstance.ts"
import * as Service from "../../support/Service.ts"
import { type Standby, StandbyPair } from "../../support/TwoStandbys.ts"
import * as SteadyClients from "../../support/SteadyClients.ts"
import { holdFault, paceWorkload, waitAtMost } from "../../support/Pauses.ts"

// @module-tag slow

const { startReplicaReader, repeatUntilTrue } = Replicated
const { requestOverWire } = ServiceInstances

const database = Service.TestKeys.layer.pipe(
  Layer.provideMerge(StandbyPair.layer),
  Layer.provideMerge(sampleDedicatedLayer),
  Layer.provideMerge(NodeCrypto.layer),
)

/** Waits long enough for about four polls of each replica. */
const waitForPolls = holdFault("1 second")

const parsePrice = (text: string) => Number(/"price":(\d+)/.exec(text)?.[1])

const addPricedRow = Effect.fnUntraced(function* (ticker: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`delete from screener where ticker = ${ticker}`
  yield* sql`
    insert into screener (ticker, price, is_adr, num_gaps, num_runners, pending_s1, last_updated)
    values (${ticker}, 1, false, 0, 0, false, now())
  `
  const set = (price: number) =>
    sql`update screener set price = ${String(price)}::text::numeric where ticker = ${ticker}`
  return { set, path: `/v1/screener?ticker=${ticker}` }
})

/** The paths of all dataset endpoints, including their required parameters. */
const datasetPaths = endpointsByDataset.flatMap(({ endpoints }) => endpoints).map((path) =>
  documentedEndpoints.find((one) => one.path === path)?.parameters.some(({ required }) => required) === true
    ? `${path}?ticker=OSTK`
    : path
)

/** Builds the services that read from the database, connected to both standbys, without the HTTP server. */
const readServices = Effect.gen(function* () {
  const { urls } = yield* StandbyPair
  const services = yield* Layer.build(Layer.fresh(
    Layer.mergeAll(DatabaseReader.layer, ExportCursors.layer, DatasetVersions.layer).pipe(
      Layer.provideMerge(ReadRouter.layer),
      Layer.provide(ConfigProvider.layerAdd(ConfigProvider.fromUnknown({ DATABASE_READ_URLS: urls }))),
      Layer.provide(Logger.layer([])),
    ),
  )).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))
  const versions = Context.get(services, DatasetVersions)
  const tables = ["screener"]
  const wanted = yield* repeatUntilTrue(
    Effect.sync(() => ({ tables, version: versions.watchTables(tables)() ?? "" })),
    (wanted) => Context.get(services, ReadRouter).chooseReplica(wanted) !== undefined,
  )
  return {
    wanted,
    cursors: Context.get(services, ExportCursors),
    read: (statement: Statement.Statement<object>, isTraced = false) => {
      const [text, parameters] = statement.compile()
      return Context.get(services, DatabaseReader).read(
        { text, parameters, isPrepared: true },
        { partition: "test", from: wanted },
      ).pipe(Effect.withTracerEnabled(isTraced))
    },
  }
})

/** Locks the table the way a migration does. A standby that replays the lock cancels its own queries on that table. */
const lockTable = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql.withTransaction(Effect.asVoid(sql`lock table screener in access exclusive mode`)),
)

/** Counts a standby's active statements that contain `words`. */
const countStatements = (standby: Standby, words: string) =>
  Effect.map(
    standby.query(
      `select from pg_stat_activity where state = 'active' and query like '%${words}%' and pid <> pg_backend_pid()`,
    ),
    ({ rowCount }) => rowCount,
  )

layer(database, { excludeTestServices: true, timeout: "180 seconds" })("Replicas", (it) => {
  it.effect("serve datasets in turn, but never accounts, keys, usage or balances (operations/replicas)", () =>
    Effect.gen(function* () {
      const { first, second } = yield* StandbyPair
      const { ultimate } = yield* Service.TestKeys
      const { bothUsed, port, reads, total } = yield* startReplicaReader({ CACHE_MEGABYTES: "0" })
      yield* bothUsed
      for (const path of datasetPaths) {
        const sentReads = Effect.gen(function* () {
          const before = yield* total
          assert.strictEqual((yield* requestOverWire(port, path, ultimate)).status, 200, path)
          return (yield* total) - before
        })
        assert.isAbove(yield* repeatUntilTrue(sentReads, (sent) => sent > 0), 0, path)
      }
      const estimated = Effect.gen(function* () {
        const before = yield* total
        assert.strictEqual((yield* requestOverWire(port, "/estimate?endpoint=/v1/news", ultimate)).status, 200)
        return (yield* total) - before
      })
      yield* repeatUntilTrue(estimated, (sent) => sent === 2)
      assert.isAbove(yield* reads(first), 5)
      assert.isAbove(yield* reads(second), 5)
      const before = yield* total
      for (const path of freeEndpointPaths.filter((path) => path !== "/estimate")) {
        assert.strictEqual((yield* requestOverWire(port, path, ultimate)).status, 200, path)
      }
      for (const path of ["/v1/usage?format=csv&limit=all", "/health/ready", "/endpoints"]) {
        assert.strictEqual((yield* requestOverWire(port, path, ultimate)).status, 200, path)
      }
      assert.strictEqual(yield* total, before)
    }).pipe(Effect.scoped))

  it.effect("that stop replaying serve unchanged tables only, however large their lag is (operations/replicas)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const standbys = yield* StandbyPair
      const { ultimate } = yield* Service.TestKeys
      const { bothUsed, lag, port, total } = yield* startReplicaReader({ CACHE_MEGABYTES: "0" })
      const { path, set } = yield* addPricedRow("PAUSE")
      yield* standbys.waitUntilCaughtUp
      yield* bothUsed
      yield* Effect.all([standbys.first.pause, standbys.second.pause])
      yield* set(1)
      yield* waitForPolls
      const before = yield* total
      for (let round = 0; round < 5; round++) {
        assert.strictEqual(parsePrice((yield* requestOverWire(port, path, ultimate)).text), 1)
      }
      assert.strictEqual(yield* total, before, "a changed table is read from the primary")
      assert.isAbove(yield* repeatUntilTrue(lag(standbys.first), (lag) => lag > 1.5), 1.5)
      const unchanged = Effect.andThen(requestOverWire(port, "/v1/news", ultimate), total)
      const late = yield* repeatUntilTrue(unchanged, (now) => now > before)
      assert.isAbove(late, before, "an unchanged table is read from a replica, whatever its lag")
      yield* Effect.all([standbys.first.resume, standbys.second.resume])
      yield* standbys.waitUntilCaughtUp
      yield* repeatUntilTrue(Effect.andThen(requestOverWire(port, path, ultimate), total), (now) => now > late)
      yield* sql`delete from screener where ticker = 'PAUSE'`
    }).pipe(Effect.scoped))

  it.effect("have no lag while the primary is idle (operations/replicas)", () =>
    Effect.gen(function* () {
      const { waitUntilCaughtUp, first } = yield* StandbyPair
      const { bothUsed, lag, used } = yield* startReplicaReader()
      yield* waitUntilCaughtUp
      yield* bothUsed
      yield* holdFault("2 seconds")
      yield* repeatUntilTrue(Effect.all([used(first), lag(first)]), ([used, lag]) => used === 1 && lag === 0)
    }).pipe(Effect.scoped))

  it.effect("return no data older than a second, in cached pages and exports, during random writes and replay pauses (D17)", () =>
    Effect.gen(function* () {
      const { first, second } = yield* StandbyPair
      const { ultimate } = yield* Service.TestKeys
      const { port, total } = yield* startReplicaReader()
      const { path, set } = yield* addPricedRow("RANDOM")
      const commits = [{ price: 1, at: performance.now() }]
      const write = Effect.gen(function* () {
        const price = commits.length + 1
        yield* set(price)
        commits.push({ price, at: performance.now() })
        yield* paceWorkload(yield* Random.nextIntBetween(0, 900))
      })
      const hold = Effect.gen(function* () {
        const one = (yield* Random.nextBoolean) ? first : second
        yield* one.pause
        yield* holdFault(yield* Random.nextIntBetween(50, 1500))
        yield* one.resume
      }).pipe(Effect.scoped)
      let requests = 0
      const readPath = Effect.fnUntraced(function* (target: string) {
        const began = performance.now()
        const { text } = yield* requestOverWire(port, target, ultimate)
        const least = commits.findLast(({ at }) => at <= began - 1000)?.price ?? 0
        requests += 1
        assert.isAtLeast(parsePrice(text), least, text)
      })
      const readPage = readPath(path)
      const readPageOrExport = Effect.flatMap(
        Random.nextIntBetween(0, 7),
        (chance) => readPath(chance === 0 ? `${path}&limit=all&format=ndjson` : path),
      )
      const end = performance.now() + 8_000
      const hasReadEnough = () => requests > 200 && performance.now() > end
      const meanwhile = [yield* Effect.forkChild(Effect.forever(write)), yield* Effect.forkChild(Effect.forever(hold))]
      yield* Effect.all(
        // Only one reader exports, because an account may have at most two exports in progress, and the previous one
        // may not have ended yet.
        [readPageOrExport, readPage, readPage].map((read) =>
          Effect.repeat(read, { until: hasReadEnough, schedule: Schedule.spaced("25 millis") })
        ),
        { concurrency: "unbounded" },
      )
      yield* Effect.forEach(meanwhile, Fiber.interrupt)
      yield* Effect.all([first.resume, second.resume])
      assert.isAbove(yield* total, 0)
    }).pipe(Effect.scoped))

  it.effect("that lag return the same past as the primary (decision 0114)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { first, second, waitUntilCaughtUp } = yield* StandbyPair
      const { ultimate } = yield* Service.TestKeys
      const { bothUsed, port, total } = yield* startReplicaReader({ CACHE_MEGABYTES: "0" })
      const withoutReplicas = yield* ServiceInstances.startServiceInstance({ CACHE_MEGABYTES: "0" })
      const { path, set } = yield* addPricedRow("PAST")
      const targets = [path, `${path}&limit=all&format=ndjson`, "/v1/news?limit=3"]
      const ask = (port: number, target: string, moment: string) =>
        Effect.map(
          requestOverWire(port, `${target}&as_of=${moment}`, ultimate),
          ({ headers, status, text }) => ({ status, etag: headers["etag"], text }),
        )
      const responses: Array<{ readonly target: string; readonly moment: string; readonly response: unknown }> = []
      const askAgain = (port: number) =>
        Effect.forEach(responses, ({ response, moment, target }) =>
          Effect.map(ask(port, target, moment), (again) =>
            assert.deepStrictEqual(again, response, `${target} ${moment}`)))
      yield* waitUntilCaughtUp
      yield* bothUsed
      const lags: ReadonlyArray<Effect.Effect<void, never, Scope.Scope>> = [
        Effect.void,
        first.pause,
        Effect.void,
        second.pause,
        Effect.void,
      ]
      for (const [index, lag] of lags.entries()) {
        yield* lag
        yield* set(index + 1)
        const moment = yield* Service.readDatabaseClock
        for (const target of targets) {
          const response = yield* ask(port, target, moment)
          assert.strictEqual(response.status, 200, response.text)
          if (target.startsWith(path)) {
            assert.strictEqual(parsePrice(response.text), index + 1)
          }
          responses.push({ target, moment, response })
        }
        yield* askAgain(port)
      }
      yield* askAgain(withoutReplicas)
      yield* Effect.all([first.resume, second.resume])
      yield* waitUntilCaughtUp
      const before = yield* total
      yield* repeatUntilTrue(Effect.andThen(askAgain(port), total), (now) =>
        now >= before + responses.length)
      yield* sql`delete from screener where ticker = 'PAST'`
    }).pipe(Effect.scoped))

  it.effect("may be killed and restarted under load without an effect on clients (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const { bothUsed, port, total, used } = yield* startReplicaReader({ CACHE_MEGABYTES: "0" })
      const { first } = yield* StandbyPair
      const { ultimate } = yield* Service.TestKeys
      yield* bothUsed
      const { more, stop } = yield* SteadyClients.startSteadyClients({ port, key: ultimate })
      yield* more()
      assert.isAbove(yield* total, 0)
      yield* first.stop("SIGKILL")
      yield* repeatUntilTrue(used(first), (used) => used === 0)
      yield* more()
      yield* first.start()
      yield* repeatUntilTrue(used(first), (used) => used === 1)
      yield* more()
      const { responses } = yield* stop
      assert.deepStrictEqual(Object.keys(responses).filter((name) => name.startsWith("5")), [])
    }).pipe(Effect.scoped))

  it.effect("may stop responding under load: waiting reads move to the primary (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const { first, second } = yield* StandbyPair
      const { ultimate } = yield* Service.TestKeys
      const between = yield* startTcpProxy(Number(new URL(first.url).port))
      const through = { name: `127.0.0.1:${between.port}/postgres` }
      const urls = `${first.url.replace(/:\d+\//, `:${between.port}/`)},${second.url}`
      const { port, used } = yield* startReplicaReader({ CACHE_MEGABYTES: "0", DATABASE_READ_URLS: urls })
      yield* repeatUntilTrue(used(through), (used) => used === 1)
      const { more, stop } = yield* SteadyClients.startSteadyClients({ port, key: ultimate, pause: 100 })
      yield* more()
      yield* between.stall
      yield* repeatUntilTrue(used(through), (used) => used === 0)
      yield* more(450)
      const { responses } = yield* stop
      yield* between.resume
      assert.deepStrictEqual(Object.keys(responses).filter((name) => name.startsWith("5")), [])
    }).pipe(Effect.scoped))

  it.effect("may stop responding to more reads than it has connections: the primary serves all of them (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const { first } = yield* StandbyPair
      const { ultimate } = yield* Service.TestKeys
      const between = yield* startTcpProxy(Number(new URL(first.url).port))
      const through = { name: `127.0.0.1:${between.port}/postgres` }
      const { port, used } = yield* startReplicaReader({
        CACHE_MEGABYTES: "0",
        DATABASE_READ_URLS: first.url.replace(/:\d+\//, `:${between.port}/`),
      })
      yield* repeatUntilTrue(used(through), (used) => used === 1)
      yield* between.stall
      const responses = yield* Effect.forEach(
        Array.from({ length: 40 }, (_, number) => `/v1/news?ticker=A${number}`),
        (path) => requestOverWire(port, path, ultimate),
        { concurrency: "unbounded" },
      )
      yield* between.resume
      assert.deepStrictEqual(responses.filter(({ status }) => status !== 200).map(({ text }) => text), [])
    }).pipe(Effect.scoped))

  it.effect("may be unusable when the service starts (operations/replicas)", () =>
    Effect.gen(function* () {
      const { url } = yield* DedicatedPostgres
      const { first } = yield* StandbyPair
      const { ultimate } = yield* Service.TestKeys
      const wrong = first.url.replace(/:[^:@]*@/, ":wrong@")
      const urls = [url, wrong, "postgres://nobody:secret@127.0.0.1:1/nowhere"]
      const { port, used } = yield* startReplicaReader({ CACHE_MEGABYTES: "0", DATABASE_READ_URLS: urls.join(" ") })
      yield* waitForPolls
      for (let round = 0; round < 3; round++) {
        assert.strictEqual((yield* requestOverWire(port, "/v1/news", ultimate)).status, 200)
        assert.strictEqual((yield* requestOverWire(port, "/health/ready", ultimate)).status, 200)
      }
      for (const one of urls) assert.strictEqual(yield* used({ name: new URL(one).host + new URL(one).pathname }), 0)
    }).pipe(Effect.scoped))

  it.effect("with an invalid URL prevent the start, and the error shows no password (operations/settings)", () =>
    Effect.gen(function* () {
      for (
        const urls of [
          "mysql://a:geheim@b/c",
          "postgres://a:geheim@b,c:geheim@d/e",
          "postgres://a:geheim@b/c postgres://d:geheim@b:5432/c",
          "geheim",
        ]
      ) {
        const refused = yield* Effect.flip(ServiceInstances.startServiceInstance({ DATABASE_READ_URLS: urls }))
        assert.isTrue(refused instanceof Config.ConfigError)
        const message = refused instanceof Config.ConfigError
          ? formatSettingProblems(yield* toSettingProblems(refused))
          : ""
        assert.match(
          message,
          /^DATABASE_READ_URLS .*\(must (be URLs|name each server once).*for example DATABASE_READ_URLS=/,
        )
        assert.notInclude(`${message} ${refused.message}`, "geheim")
      }
    }).pipe(Effect.scoped))

  it.effect("serve complete exports (operations/replicas)", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* Service.TestKeys
      const { bothUsed, port, total } = yield* startReplicaReader({})
      yield* bothUsed
      const path = "/v1/intraday-runners?limit=all&format=ndjson"
      const before = yield* total
      const taken = yield* repeatUntilTrue(
        ListDownloads.download(port, path, ultimate),
        ({ isComplete: isWhole }) => isWhole,
      )
      yield* repeatUntilTrue(Effect.andThen(requestOverWire(port, path, ultimate), total), (now) => now > before)
      const alone = yield* ServiceInstances.startServiceInstance({})
      assert.strictEqual((yield* ListDownloads.download(alone, path, ultimate)).text, taken.text)
    }).pipe(Effect.scoped))

  it.effect("leave pages and exports to the primary if WAL replay cancels them during a migration (operations/replicas)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { waitUntilCaughtUp, first, second } = yield* StandbyPair
      // This query is slow only on a replica, where it then conflicts with the replay of changes to the table.
      const statement = sql`
        select pg_is_in_recovery() as replica, case when pg_is_in_recovery() then pg_sleep(3600)::text end as slow
        from screener limit 3
      `
      const [text, parameters] = statement.compile()
      const both = (words: string) =>
        Effect.map(
          Effect.all([countStatements(first, words), countStatements(second, words)]),
          ([one, other]) => one + other,
        )
      const ways = [
        {
          words: "as slow",
          run: Effect.map(readServices, ({ read }) => Effect.map(read(statement, true), (rows) => rows.length)),
        },
        {
          words: "as slow",
          run: Effect.map(readServices, ({ read }) => Effect.map(read(statement), (rows) => rows.length)),
        },
        {
          // A cursor declared `with hold` fetches its rows at commit, so replay cancels the commit.
          words: "commit",
          run: Effect.map(
            readServices,
            ({ cursors, wanted }) =>
              Effect.map(
                cursors.open({
                  ...wanted,
                  statement: { text, parameters, isPrepared: false },
                  request: makeAdmittedRequest(),
                }),
                ({ rows }) => rows,
              ),
          ),
        },
      ]
      for (const { run, words } of ways) {
        yield* waitUntilCaughtUp
        const reading = yield* Effect.forkChild(yield* run)
        yield* repeatUntilTrue(both(words), (count) => count === 1)
        yield* lockTable
        const rows = yield* Fiber.join(reading)
        assert.strictEqual(rows, 3)
        yield* repeatUntilTrue(both(words), (count) => count === 0)
      }
    }).pipe(Effect.scoped))

  it.effect("are reported by doctor as current, late, not a replica, of a different cluster, or down (operations/command-line)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const primary = yield* DedicatedPostgres
      const { waitUntilCaughtUp, first, second } = yield* StandbyPair
      yield* sql`create role tickerline_reader login password 'geheim'`
      yield* grantRolePrivileges("tickerline_reader")
      const serving = (url: string) => url.replace(/\/\/[^@]*@/, "//tickerline_reader:geheim@")
      const checkReplica = (url: string) =>
        Effect.map(
          checkReplicas(Redacted.make(primary.url), [{ name: "x", url: Redacted.make(url) }]),
          ([found]) => `${found?.state}: ${found?.found}`,
        )
      yield* waitUntilCaughtUp
      assert.match(
        yield* repeatUntilTrue(checkReplica(serving(first.url)), (finding) => finding.startsWith("ok")),
        /^ok: it replays changes of the primary within/,
      )
      assert.match(yield* checkReplica(primary.url), /^warning: it is not a replica/)
      assert.match(yield* checkReplica(inject("databaseUrl")), /^failed: it belongs to another cluster/)
      const away = yield* checkReplica("postgres://a:geheim@127.0.0.1:1/b")
      assert.match(away, /^failed: .*ECONNREFUSED/)
      assert.notInclude(away, "geheim")
      yield* second.pause
      yield* sql`delete from screener where ticker = 'NONE'`
      assert.match(yield* checkReplica(serving(second.url)), /^warning: it is [\d.]+ MiB of WAL behind after 1s/)
      yield* second.resume
      const { port, used } = yield* startReplicaReader({ DATABASE_READ_URLS: serving(first.url), CACHE_MEGABYTES: "0" })
      yield* repeatUntilTrue(used(first), (used) => used === 1)
      assert.isAbove(port, 0)
    }).pipe(Effect.scoped))

  it.effect("cancel the query of a client that disconnects (§7.2)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { waitUntilCaughtUp, first, second } = yield* StandbyPair
      yield* waitUntilCaughtUp
      const services = yield* readServices
      const both = Effect.map(
        Effect.all([countStatements(first, "as long"), countStatements(second, "as long")]),
        ([a, b]) => a + b,
      )
      const slow = sql`select pg_sleep(25) as long from screener limit 1`
      for (const read of [services.read(slow, true), services.read(slow)]) {
        const slowRead = yield* Effect.forkChild(read)
        yield* repeatUntilTrue(both, (count) => count === 1)
        yield* Fiber.interrupt(slowRead)
        yield* waitAtMost(repeatUntilTrue(both, (count) => count === 0), "20 seconds")
      }
    }).pipe(Effect.scoped))

  // This test must come last, because it does not restore the primary.
  it.effect("promoted without the last commits never serve the lost ones (D17)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const primary = yield* DedicatedPostgres
      const { waitUntilCaughtUp, second } = yield* StandbyPair
      const { ultimate } = yield* Service.TestKeys
      const { path, set } = yield* addPricedRow("SPLIT")
      yield* set(1)
      yield* waitUntilCaughtUp
      const { bothUsed, port } = yield* startReplicaReader({})
      yield* bothUsed
      const shown = Effect.map(requestOverWire(port, path, ultimate), ({ text }) => parsePrice(text))
      yield* repeatUntilTrue(shown, (price) => price === 1)
      yield* second.stop("SIGINT")
      yield* set(2)
      yield* repeatUntilTrue(shown, (price) => price === 2)
      for (let round = 0; round < 3; round++) assert.strictEqual(yield* shown, 2)
      const noted = sql<{ readonly changes: number }>`
        select sum(changes)::int as changes from dataset_versions where dataset = 'screener'
      `
      const [discarded] = yield* noted
      yield* primary.stop("SIGKILL")
      yield* second.start({ port: primary.port, upstream: "" })
      yield* second.query("select pg_promote()")
      // The pool may still contain connections to the primary that was killed.
      const untilConnected = Effect.retry({ schedule: Schedule.spaced("100 millis"), times: 200 })
      // An earlier attempt may still be running although its connection broke. `for update` ensures that only one
      // attempt sets the price. If the connection breaks during an attempt, the rollback fails with a defect.
      const setOnce = sql.withTransaction(Effect.gen(function* () {
        const found = yield* sql`select from screener where ticker = 'SPLIT' and price <> 3 for update`
        if (found.length > 0) yield* set(3)
      })).pipe(Effect.catchDefect(Effect.fail))
      yield* untilConnected(setOnce)
      const [kept] = yield* untilConnected(noted)
      assert.deepStrictEqual(kept, discarded, "both histories have the same number of changes")
      yield* waitForPolls
      for (let round = 0; round < 20; round++) {
        const { status, text } = yield* requestOverWire(port, path, ultimate)
        if (status === 200) assert.strictEqual(parsePrice(text), 3)
        else assert.strictEqual(valueAt(JSON.parse(text), "error", "code"), "database_pool_timeout")
        yield* paceWorkload("50 millis")
      }
      assert.strictEqual(yield* repeatUntilTrue(shown, (price) => !Number.isNaN(price)), 3)
    }).pipe(Effect.scoped))
})
