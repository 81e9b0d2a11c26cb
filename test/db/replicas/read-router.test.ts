/** Reads from replicas: D17 holds over them, and nobody notices where one is behind, away, or somebody else's. */
import { NodeCrypto } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import {
  Config,
  ConfigProvider,
  Context,
  Duration,
  Effect,
  Exit,
  Fiber,
  Layer,
  Logger,
  Metric,
  Random,
  Redacted,
  Schedule,
} from "effect"
import { SqlClient } from "effect/sql"
import { inject } from "vitest"
import { DatasetVersions } from "../../../src/lists/DatasetVersions.ts"
import { Database, type ReadFailure, ReplicaReader } from "../../../src/db/Database.ts"
import { ReadRouter } from "../../../src/db/replicas/ReadRouter.ts"
import { grantServiceRole } from "../../../src/db/migrations/ServiceRole.ts"
import { checkReplicas } from "../../../src/cli/doctor/DatabaseChecks.ts"
import { createReplacementTable, finishReplacementTable, swapTables } from "../../../src/load/LoadingTable.ts"
import { ExportCursors } from "../../../src/lists/ExportCursors.ts"
import { formatSettingProblems, toSettingProblems } from "../../../src/cli/Settings.ts"
import { datasetEndpoints } from "../../../src/v1/datasets/DatasetEndpoints.ts"
import { documentedEndpoints, freeEndpointPaths, valueAt } from "../../support/DocumentedEndpoints.ts"
import * as Files from "../../support/Downloads.ts"
import * as Instances from "../../support/ServiceInstances.ts"
import { DedicatedPostgres, sampleDatabaseLayer } from "../../support/DedicatedPostgres.ts"
import { startTcpProxy } from "../../support/TcpProxy.ts"
import * as Replicated from "../../support/ReplicaReader.ts"
import * as Service from "../../support/Service.ts"
import { type Standby, StandbyPair } from "../../support/StandbyPair.ts"
import * as Steady from "../../support/SteadyClients.ts"

const { startReplicaReader: reading, waitUntilFound } = Replicated
const { requestOverWire } = Instances

const database = Service.TestKeys.layer.pipe(
  Layer.provideMerge(StandbyPair.layer),
  Layer.provideMerge(sampleDatabaseLayer),
  Layer.provideMerge(NodeCrypto.layer),
)

/** A replica is looked at four times a second. */
const aLook = Effect.sleep("1 second")

const price = (text: string) => Number(/"price":(\d+)/.exec(text)?.[1])

const priced = Effect.fnUntraced(function* (ticker: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`delete from screener where ticker = ${ticker}`
  yield* sql`
    insert into screener (ticker, price, is_adr, num_gaps, num_runners, pending_s1, last_updated)
    values (${ticker}, 0, false, 0, 0, false, now())
  `
  const set = (price: number) =>
    sql`update screener set price = ${String(price)}::text::numeric where ticker = ${ticker}`
  return { set, path: `/v1/screener?ticker=${ticker}` }
})

/** Every endpoint of data, with what it cannot do without. */
const ofData = datasetEndpoints.flatMap(({ endpoints }) => endpoints).map((path) =>
  documentedEndpoints.find((one) => one.path === path)?.parameters.some(({ required }) => required) === true
    ? `${path}?ticker=OSTK`
    : path
)

/** The services behind the socket, which read from both standbys. */
const inside = Effect.gen(function* () {
  const { urls } = yield* StandbyPair
  const services = yield* Layer.build(Layer.fresh(
    Layer.mergeAll(Database.layer, ExportCursors.layer, DatasetVersions.layer).pipe(
      Layer.provideMerge(ReadRouter.layer),
      Layer.provide(ConfigProvider.layerAdd(ConfigProvider.fromUnknown({ DATABASE_READ_URLS: urls }))),
      Layer.provide(Logger.layer([])),
    ),
  )).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))
  const versions = Context.get(services, DatasetVersions)
  const { makeReplicaReader: elsewhere = () => undefined } = Context.get(services, ReadRouter)
  const tables = ["screener"]
  const wanted = yield* waitUntilFound(
    Effect.sync(() => ({ tables, version: versions.watchTables(tables).current() ?? "" })),
    (wanted) => Context.get(services, ReadRouter).chooseReplica(wanted) !== undefined,
  )
  return {
    wanted,
    cursors: Context.get(services, ExportCursors),
    read: <A>(query: Effect.Effect<A, ReadFailure>) =>
      Effect.provideService(Context.get(services, Database).read(query), ReplicaReader, elsewhere(wanted)),
  }
})

/** A new table in the place of the old one, with the same rows, as `load` makes it. */
const swapped = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  sql.withTransaction(Effect.gen(function* () {
    yield* createReplacementTable("screener")
    yield* sql`insert into loading.screener select * from screener`
    yield* finishReplacementTable("screener")
    yield* swapTables("screener")
  })))

/** How many sessions of a standby run a statement with these words. */
const running = (standby: Standby, words: string) =>
  Effect.map(
    standby.query(
      `select from pg_stat_activity where state = 'active' and query like '%${words}%' and pid <> pg_backend_pid()`,
    ),
    ({ rowCount }) => rowCount,
  )

layer(database, { excludeTestServices: true, timeout: "180 seconds" })("Replicas", (it) => {
  it.effect("README, Replicas: data are read from replicas, in turn; accounts, keys, usage and balances never are", () =>
    Effect.gen(function* () {
      const { first, second } = yield* StandbyPair
      const { ultimate } = yield* Service.TestKeys
      const { bothUsed, port, reads, total } = yield* reading({ CACHE_MEGABYTES: "0" })
      yield* bothUsed
      for (const path of ofData) {
        const asked = Effect.gen(function* () {
          const before = yield* total
          assert.strictEqual((yield* requestOverWire(port, path, ultimate)).status, 200, path)
          return (yield* total) - before
        })
        assert.isAbove(yield* waitUntilFound(asked, (sent) => sent > 0), 0, path)
      }
      const estimated = Effect.gen(function* () {
        const before = yield* total
        assert.strictEqual((yield* requestOverWire(port, "/estimate?endpoint=/v1/news", ultimate)).status, 200)
        return (yield* total) - before
      })
      yield* waitUntilFound(estimated, (sent) => sent === 2)
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

  it.effect("README, Replicas: a replica that does not replay is not read where data changed, nor when it is behind", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const standbys = yield* StandbyPair
      const { ultimate } = yield* Service.TestKeys
      const patient = yield* reading({ CACHE_MEGABYTES: "0", MAX_REPLICA_LAG: "1 hour" })
      const strict = yield* reading({ CACHE_MEGABYTES: "0", MAX_REPLICA_LAG: "500 millis" })
      const { path, set } = yield* priced("PAUSE")
      yield* standbys.waitUntilCaughtUp
      yield* patient.bothUsed
      yield* strict.bothUsed
      yield* Effect.all([standbys.first.pause, standbys.second.pause])
      yield* set(1)
      yield* aLook
      const before = yield* patient.total
      for (let round = 0; round < 5; round++) {
        assert.strictEqual(price((yield* requestOverWire(patient.port, path, ultimate)).text), 1)
        assert.strictEqual(price((yield* requestOverWire(strict.port, path, ultimate)).text), 1)
      }
      assert.strictEqual(yield* patient.total, before, "what changed is read from the primary")
      const unchanged = Effect.andThen(requestOverWire(patient.port, "/v1/news", ultimate), patient.total)
      assert.isAbove(yield* waitUntilFound(unchanged, (now) => now > before), before, "what did not change is not")
      yield* waitUntilFound(strict.used(standbys.first), (used) => used === 0)
      assert.isAbove(yield* waitUntilFound(patient.lag(standbys.first), (lag) => lag > 0.5), 0.5)
      const late = yield* strict.total
      yield* requestOverWire(strict.port, "/v1/news", ultimate)
      assert.strictEqual(yield* strict.total, late)
      yield* Effect.all([standbys.first.resume, standbys.second.resume])
      yield* standbys.waitUntilCaughtUp
      yield* strict.bothUsed
      const back = Effect.andThen(requestOverWire(strict.port, path, ultimate), strict.total)
      yield* waitUntilFound(back, (now) => now > late)
      yield* sql`delete from screener where ticker = 'PAUSE'`
    }).pipe(Effect.scoped))

  it.effect("README, Replicas: an idle primary leaves no replica behind", () =>
    Effect.gen(function* () {
      const { waitUntilCaughtUp: caughtUp, first } = yield* StandbyPair
      const { bothUsed, lag, used } = yield* reading({ MAX_REPLICA_LAG: "500 millis" })
      yield* caughtUp
      yield* bothUsed
      yield* Effect.sleep("2 seconds")
      yield* waitUntilFound(Effect.all([used(first), lag(first)]), ([used, lag]) => used === 1 && lag === 0)
    }).pipe(Effect.scoped))

  it.effect("D17 no answer is older than a second: random writes and pauses, kept answers, pages and whole lists", () =>
    Effect.gen(function* () {
      const { first, second } = yield* StandbyPair
      const { ultimate } = yield* Service.TestKeys
      const { port, total } = yield* reading({ MAX_REPLICA_LAG: "10 seconds" })
      const { path, set } = yield* priced("RANDOM")
      const commits = [{ price: 0, at: performance.now() }]
      const write = Effect.gen(function* () {
        const price = commits.length
        yield* set(price)
        commits.push({ price, at: performance.now() })
        yield* Effect.sleep(`${yield* Random.nextIntBetween(0, 900)} millis`)
      })
      const hold = Effect.gen(function* () {
        const one = (yield* Random.nextBoolean) ? first : second
        yield* one.pause
        yield* Effect.sleep(`${yield* Random.nextIntBetween(50, 1500)} millis`)
        yield* one.resume
      })
      let asked = 0
      const read = Effect.gen(function* () {
        const whole = (yield* Random.nextIntBetween(0, 20)) === 0
        const began = performance.now()
        const { text } = yield* requestOverWire(port, whole ? `${path}&limit=all&format=ndjson` : path, ultimate)
        const least = commits.findLast(({ at }) => at <= began - 1000)?.price ?? 0
        asked += 1
        assert.isAtLeast(price(text), least, text)
      })
      const meanwhile = [yield* Effect.forkChild(Effect.forever(write)), yield* Effect.forkChild(Effect.forever(hold))]
      yield* Effect.all(
        Array.from(
          { length: 6 },
          () => Effect.repeat(read, Schedule.upTo(Schedule.spaced("3 millis"), { duration: "8 seconds" })),
        ),
        { concurrency: "unbounded" },
      )
      yield* Effect.forEach(meanwhile, Fiber.interrupt)
      yield* Effect.all([first.resume, second.resume])
      assert.isAbove(asked, 200)
      assert.isAbove(yield* total, 0)
    }).pipe(Effect.scoped))

  it.effect("RELIABILITY a replica is killed under load and comes back: no client notices", () =>
    Effect.gen(function* () {
      const { bothUsed, port, total, used } = yield* reading({ CACHE_MEGABYTES: "0" })
      const { first } = yield* StandbyPair
      const { ultimate } = yield* Service.TestKeys
      yield* bothUsed
      const { more, stop } = yield* Steady.startSteadyClients({ port, key: ultimate })
      yield* more()
      assert.isAbove(yield* total, 0)
      yield* first.stop("SIGKILL")
      yield* waitUntilFound(used(first), (used) => used === 0)
      yield* more()
      yield* first.start()
      yield* waitUntilFound(used(first), (used) => used === 1)
      yield* more()
      const { answers } = yield* stop
      assert.deepStrictEqual(Object.keys(answers).filter((name) => name.startsWith("5")), [])
    }).pipe(Effect.scoped))

  it.effect("RELIABILITY a replica falls silent under load: whoever waits for it is answered by the primary", () =>
    Effect.gen(function* () {
      const { first, second } = yield* StandbyPair
      const { ultimate } = yield* Service.TestKeys
      const between = yield* startTcpProxy(Number(new URL(first.url).port))
      const through = { name: `127.0.0.1:${between.port}/postgres` }
      const urls = `${first.url.replace(/:\d+\//, `:${between.port}/`)},${second.url}`
      const { port, used } = yield* reading({ CACHE_MEGABYTES: "0", DATABASE_READ_URLS: urls })
      yield* waitUntilFound(used(through), (used) => used === 1)
      const { more, stop } = yield* Steady.startSteadyClients({ port, key: ultimate })
      yield* more()
      yield* between.stall
      yield* waitUntilFound(used(through), (used) => used === 0)
      yield* more(300)
      yield* Effect.sleep("4 seconds")
      const { answers, slowest } = yield* stop
      yield* between.resume
      assert.deepStrictEqual(Object.keys(answers).filter((name) => name.startsWith("5")), [])
      assert.isBelow(slowest, 20_000)
    }).pipe(Effect.scoped))

  it.effect("README, Replicas: where none can be used the service starts and serves: away, another's, no replica", () =>
    Effect.gen(function* () {
      const { url } = yield* DedicatedPostgres
      const { first } = yield* StandbyPair
      const { ultimate } = yield* Service.TestKeys
      const wrong = first.url.replace(/:[^:@]*@/, ":wrong@")
      const urls = [url, wrong, "postgres://nobody:secret@127.0.0.1:1/nowhere"]
      const { port, used } = yield* reading({ CACHE_MEGABYTES: "0", DATABASE_READ_URLS: urls.join(" ") })
      yield* aLook
      for (let round = 0; round < 3; round++) {
        assert.strictEqual((yield* requestOverWire(port, "/v1/news", ultimate)).status, 200)
        assert.strictEqual((yield* requestOverWire(port, "/health/ready", ultimate)).status, 200)
      }
      for (const one of urls) assert.strictEqual(yield* used({ name: new URL(one).host + new URL(one).pathname }), 0)
    }).pipe(Effect.scoped))

  it.effect("README, settings: what is no URL of a replica stops the start, and shows no password", () =>
    Effect.gen(function* () {
      for (
        const urls of [
          "mysql://a:geheim@b/c",
          "postgres://a:geheim@b,c:geheim@d/e",
          "postgres://a:geheim@b/c postgres://d:geheim@b:5432/c",
          "geheim",
        ]
      ) {
        const refused = yield* Effect.flip(Instances.startInstance({ DATABASE_READ_URLS: urls }))
        assert.isTrue(refused instanceof Config.ConfigError)
        const said = refused instanceof Config.ConfigError
          ? formatSettingProblems(yield* toSettingProblems(refused))
          : ""
        assert.match(
          said,
          /^DATABASE_READ_URLS .*\(must (be URLs|name each server once).*for example DATABASE_READ_URLS=/,
        )
        assert.notInclude(`${said} ${refused.message}`, "geheim")
      }
      const lag = yield* Effect.exit(Instances.startInstance({ MAX_REPLICA_LAG: "often" }))
      assert.isTrue(Exit.isFailure(lag))
    }).pipe(Effect.scoped))

  it.effect("README, Replicas: a whole list comes from a replica, as whole as from the primary", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* Service.TestKeys
      const { bothUsed, port, total } = yield* reading({})
      yield* bothUsed
      const path = "/v1/intraday-runners?limit=all&format=ndjson"
      const before = yield* total
      const taken = yield* waitUntilFound(Files.download(port, path, ultimate), ({ isComplete: isWhole }) => isWhole)
      yield* waitUntilFound(Effect.andThen(requestOverWire(port, path, ultimate), total), (now) => now > before)
      const alone = yield* Instances.startInstance({})
      assert.strictEqual((yield* Files.download(alone, path, ultimate)).text, taken.text)
    }).pipe(Effect.scoped))

  it.effect("README, Replicas: what replay cancels is read from the primary: a page, and a whole list, during a load", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { waitUntilCaughtUp: caughtUp, first, second } = yield* StandbyPair
      // Slow on a replica only, and there in the way of whatever is done to the table.
      const statement = sql`
        select pg_is_in_recovery() as replica, case when pg_is_in_recovery() then pg_sleep(60)::text end as slow
        from screener limit 3
      `
      const both = (words: string) =>
        Effect.map(Effect.all([running(first, words), running(second, words)]), ([one, other]) => one + other)
      const ways = [
        {
          words: "as slow",
          way: Effect.map(inside, ({ read }) => Effect.map(read(statement.values), (rows) => rows.length)),
        },
        {
          // It is then that PostgreSQL reads what a cursor keeps.
          words: "commit",
          way: Effect.map(
            inside,
            ({ cursors, wanted }) => Effect.map(cursors.open({ ...wanted, statement }), ({ rows }) => rows),
          ),
        },
      ]
      for (const { way, words } of ways) {
        yield* caughtUp
        const reading = yield* Effect.forkChild(Effect.timed(yield* way))
        yield* waitUntilFound(both(words), (count) => count === 1)
        yield* swapped
        const [taken, rows] = yield* Fiber.join(reading)
        assert.strictEqual(rows, 3)
        assert.isBelow(Duration.toSeconds(taken), 30)
        yield* waitUntilFound(both(words), (count) => count === 0)
      }
    }).pipe(Effect.scoped))

  it.effect("README, doctor: replicas that keep up, one that does not, one that is none, another cluster's, one away", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const primary = yield* DedicatedPostgres
      const { waitUntilCaughtUp: caughtUp, first, second } = yield* StandbyPair
      yield* sql`create role tickerline_reader login password 'geheim'`
      yield* grantServiceRole("tickerline_reader")
      const serving = (url: string) => url.replace(/\/\/[^@]*@/, "//tickerline_reader:geheim@")
      const looked = (url: string) =>
        Effect.map(
          checkReplicas(Redacted.make(primary.url), [{ name: "x", url: Redacted.make(url) }]),
          ([found]) => `${found?.state}: ${found?.found}`,
        )
      yield* caughtUp
      assert.match(
        yield* waitUntilFound(looked(serving(first.url)), (said) => said.startsWith("ok")),
        /^ok: it replays changes of the primary within/,
      )
      assert.match(yield* looked(primary.url), /^warning: it is not a replica/)
      assert.match(yield* looked(inject("databaseUrl")), /^failed: it belongs to another cluster/)
      const away = yield* looked("postgres://a:geheim@127.0.0.1:1/b")
      assert.match(away, /^failed: .*ECONNREFUSED/)
      assert.notInclude(away, "geheim")
      yield* second.pause
      yield* sql`delete from screener where ticker = 'NONE'`
      assert.match(yield* looked(serving(second.url)), /^warning: it is [\d.]+ MiB of WAL behind after 1s/)
      yield* second.resume
      const { port, used } = yield* reading({ DATABASE_READ_URLS: serving(first.url), CACHE_MEGABYTES: "0" })
      yield* waitUntilFound(used(first), (used) => used === 1)
      assert.isAbove(port, 0)
    }).pipe(Effect.scoped))

  it.effect("§7.2 a client that goes away leaves no query running on a replica", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { waitUntilCaughtUp: caughtUp, first, second } = yield* StandbyPair
      yield* caughtUp
      const { read } = yield* inside
      const both = Effect.map(Effect.all([running(first, "as long"), running(second, "as long")]), ([a, b]) => a + b)
      const asked = yield* Effect.forkChild(read(sql`select pg_sleep(25) as long from screener limit 1`))
      yield* waitUntilFound(both, (count) => count === 1)
      yield* Fiber.interrupt(asked)
      yield* waitUntilFound(both, (count) => count === 0).pipe(Effect.timeout("10 seconds"))
    }).pipe(Effect.scoped))

  // The last one: its primary does not come back.
  it.effect("D17 a standby takes over without the last commits: no answer of the history that was lost", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const primary = yield* DedicatedPostgres
      const { waitUntilCaughtUp: caughtUp, second } = yield* StandbyPair
      const { ultimate } = yield* Service.TestKeys
      const { path, set } = yield* priced("SPLIT")
      yield* set(1)
      yield* caughtUp
      const { bothUsed, port } = yield* reading({})
      yield* bothUsed
      const shown = Effect.map(requestOverWire(port, path, ultimate), ({ text }) => price(text))
      yield* waitUntilFound(shown, (price) => price === 1)
      yield* second.stop("SIGINT")
      yield* set(2)
      yield* waitUntilFound(shown, (price) => price === 2)
      for (let round = 0; round < 3; round++) assert.strictEqual(yield* shown, 2)
      const noted = sql<{ readonly changes: number }>`
        select sum(changes)::int as changes from dataset_versions where dataset = 'screener'
      `
      const [lost] = yield* noted
      yield* primary.stop("SIGKILL")
      yield* second.start({ port: primary.port, upstream: "" })
      yield* second.query("select pg_promote()")
      yield* Effect.retry(set(3), { schedule: Schedule.spaced("100 millis"), times: 50 })
      assert.deepStrictEqual((yield* noted)[0], lost, "both histories have as many changes")
      yield* aLook
      for (let round = 0; round < 20; round++) {
        const { status, text } = yield* requestOverWire(port, path, ultimate)
        if (status === 200) assert.strictEqual(price(text), 3)
        else assert.strictEqual(valueAt(JSON.parse(text), "error", "code"), "database_pool_timeout")
        yield* Effect.sleep("50 millis")
      }
      assert.strictEqual(yield* waitUntilFound(shown, (price) => !Number.isNaN(price)), 3)
    }).pipe(Effect.scoped))
})
