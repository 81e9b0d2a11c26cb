/** Tests an upgrade and a rollback while both releases serve requests from one database (operations/upgrades). */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { databaseClientLayer } from "../../src/postgres/pool/PooledClient.ts"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { requestOverWire } from "../support/ServiceInstances.ts"
import { retryUntil } from "../support/CustomerUsage.ts"
import * as MailServer from "../support/MailServer.ts"
import { DedicatedPostgres } from "../support/DedicatedPostgres.ts"
import { endProcess } from "../support/Processes.ts"
import * as SteadyClients from "../support/SteadyClients.ts"
import { countResponsesOf } from "../support/HaProxy.ts"
import {
  installedRelease,
  makeNextRelease,
  missingPrerequisite,
  nextVersion,
  runReleaseCommand,
  startLoadBalancer,
  startRelease,
} from "./Releases.ts"

const required = (process.env["REQUIRE_UPGRADE"] ?? "") !== ""
const skipped = missingPrerequisite !== "" && !required
const why = skipped ? ` (skipped: ${missingPrerequisite})` : ""

const server = Layer.unwrap(
  Effect.map(
    DedicatedPostgres,
    ({ url }) => databaseClientLayer({ url: Redacted.make(url), applicationName: "tickerline-test" }),
  ),
).pipe(Layer.provideMerge(DedicatedPostgres.layer), Layer.provideMerge(NodeServices.layer))

/** Returns a data file line for `split-status`. Changes to this dataset must become visible in both releases. */
const split = (id: string) =>
  `{"id":"${id}","ticker":"UPGR","action_type":"pending_vote","executed":false,"filed_at":"2026-01-02",` +
  `"form_type":"8-K","last_updated":"2026-01-02 09:30:00"}\n`

const splits = "/v1/split-status?ticker=UPGR"

/** The number of rows in the table to which the next release adds a column and an index. */
const tableRows = 1_000_000
const rowsPerStatement = 100_000

/** The number of emails that wait while both releases run. Each must be sent once, by either release. */
const emailCount = 40

/**
 * The requests that clients send continuously. Both releases must respond identically, so the pages of the changed
 * table are empty.
 */
const paths = [
  ...SteadyClients.mixedRequestPaths,
  ...Array.from({ length: 20 }, (_, at) => `/v1/split-status?ticker=M${at}&page=500`),
]

layer(server, { excludeTestServices: true })("During an upgrade and a rollback,", (it) => {
  it.effect.skipIf(skipped)(
    `${installedRelease.version} and ${nextVersion} serve together, no request fails, and each is recorded once (operations/upgrades)${why}`,
    () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const sql = yield* SqlClient.SqlClient
        const { url } = yield* DedicatedPostgres
        const mails = yield* MailServer.startMailServer()
        const next = yield* makeNextRelease
        const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-upgrade-" })
        const as = { owner: { DATABASE_URL: url } }
        const byOld = (...args: ReadonlyArray<string>) => runReleaseCommand(installedRelease.folder, as.owner, ...args)
        const byNew = (...args: ReadonlyArray<string>) => runReleaseCommand(next, as.owner, ...args)

        // Uses the installed release to create the initial state: tables, data, grants and keys.
        yield* sql`create role service login password 'service'`
        yield* byOld("grant", "service")
        yield* byOld("generate", `${folder}/market`)
        yield* byOld("load", "--all", `${folder}/market`)
        yield* fs.writeFileString(`${folder}/first.ndjson`, split("first"))
        yield* byOld("load", "split-status", `${folder}/first.ndjson`, "--append")
        const key = yield* byOld("keys", "create", "--account", "steady", "--tier", "ultimate")
        yield* byOld("accounts", "credit", "steady", "--usd", "1000", "--prepaid", "--reference", "before")
        // Fills the table to which the next release adds a column and an index.
        for (let first = 1; first <= tableRows; first += rowsPerStatement) {
          yield* sql`
            insert into split_status (id, ticker, action_type, executed, filed_at, form_type, last_updated)
            select 'many ' || number, 'M' || number % 1000, 'pending_vote', false, date '2020-01-01' + number % 2000,
              '8-K', timestamp '2026-01-02 09:30:00'
            from generate_series(${first}::int, ${first + rowsPerStatement - 1}::int) as number
          `
        }

        const its = new URL(url)
        its.username = its.password = "service"
        const [oldPort, newPort, oldMetrics, newMetrics] = yield* Effect.all([
          chooseFreePort,
          chooseFreePort,
          chooseFreePort,
          chooseFreePort,
        ])
        const settings = (metrics: number) => ({
          DATABASE_URL: its.href,
          METRICS_PORT: String(metrics),
          RATE_LIMIT_ULTIMATE: "100000000",
          SHUTDOWN_DELAY: "4 seconds",
          SMTP_URL: `smtp://127.0.0.1:${mails.port}`,
          MAIL_FROM: "Tickerline <notices@tickerline.example>",
          MAIL_PER_MINUTE: "1200",
        })
        const startOld = startRelease(installedRelease.folder, oldPort, settings(oldMetrics))
        const startNew = startRelease(next, newPort, settings(newMetrics))
        /** Waits until the process with this metrics port has responded to 100 more requests. */
        const busy = Effect.fnUntraced(function* (metrics: number) {
          const before = yield* countResponsesOf(metrics)
          yield* retryUntil(countResponsesOf(metrics), (now) => now >= before + 100)
        })
        const seesAt = (port: number, known: string, words: string) =>
          retryUntil(requestOverWire(port, splits, known), ({ text }) => text.includes(`"${words}"`)).pipe(
            Effect.map(({ text }) => assert.include(text, `"${words}"`)),
          )
        const statusAt = (port: number, known: string, status: number) =>
          retryUntil(requestOverWire(port, splits, known), (response) => response.status === status).pipe(
            Effect.map((response) => assert.strictEqual(response.status, status)),
          )

        let running = yield* startOld
        const front = yield* startLoadBalancer([oldPort, newPort])
        const steady = yield* SteadyClients.startSteadyClients({ port: front, key, clients: 8, paths })
        yield* steady.more()

        // The new release migrates the database while the old one is serving.
        const applied = yield* byNew("migrate")
        yield* byNew("grant", "service")
        yield* steady.more()
        const second = yield* startNew
        yield* busy(newMetrics)
        yield* busy(oldMetrics)

        const other = yield* byOld("keys", "create", "--account", "other", "--tier", "ultimate")

        // The new filter, endpoint and field work immediately on the new release. The installed release does not have
        // them and responds as before.
        for (const path of [`${splits}&form_type=8-k`, "/v1/trading-halts?ticker=UPGR"]) {
          assert.strictEqual((yield* requestOverWire(newPort, path, other)).status, 200, path)
          assert.include([404, 422], (yield* requestOverWire(oldPort, path, other)).status, path)
        }
        assert.include((yield* requestOverWire(newPort, splits, other)).text, '"record_date":null')
        assert.notInclude((yield* requestOverWire(oldPort, splits, other)).text, "record_date")

        // Each release serves the changes made through the other release within a short time, although it caches
        // results and keys.
        for (const port of [oldPort, newPort]) {
          // The second response comes from the cache.
          yield* seesAt(port, other, "first")
          yield* seesAt(port, other, "first")
        }
        yield* fs.writeFileString(`${folder}/second.ndjson`, split("second"))
        yield* fs.writeFileString(`${folder}/third.ndjson`, split("third"))
        yield* byNew("load", "split-status", `${folder}/second.ndjson`, "--append")
        for (const port of [oldPort, newPort]) yield* seesAt(port, other, "second")
        yield* byOld("load", "split-status", `${folder}/third.ndjson`, "--append")
        for (const port of [oldPort, newPort]) yield* seesAt(port, other, "third")
        const made = yield* byNew("keys", "create", "--account", "other", "--name", "new")
        for (const port of [oldPort, newPort]) yield* statusAt(port, made, 200)
        const [{ id } = { id: "" }] = yield* sql<{ readonly id: string }>`
          select max(key_id)::text as id from api_keys join accounts using (account_id) where accounts.name = 'other'
        `
        yield* byNew("keys", "revoke", id)
        for (const port of [oldPort, newPort]) yield* statusAt(port, made, 401)

        // Either release could send these emails, but each email must be sent only once.
        yield* sql`
          insert into announcements (entry_id, subject, text, html, operational) values ('upgrade', 's', 't', 'h', true)
        `
        yield* sql`
          insert into announcement_mails (entry_id, recipient)
          select 'upgrade', 'c' || g || '@example.com' from generate_series(1, ${emailCount}::int) as g
        `
        yield* retryUntil(Effect.sync(() => mails.received.length), (count) => count >= emailCount / 4)

        // Rolls back: the old release stops and restarts on the migrated tables, and then the new release stops.
        const gone = yield* endProcess(running, "SIGTERM")
        assert.strictEqual(gone.code, 0, gone.err)
        yield* busy(newMetrics)
        running = yield* startOld
        yield* busy(oldMetrics)
        const back = yield* endProcess(second, "SIGTERM")
        assert.strictEqual(back.code, 0, back.err)
        yield* busy(oldMetrics)

        yield* retryUntil(
          sql<{ readonly left: number }>`select count(*)::int as left from announcement_mails where status <> 'sent'`,
          ([row]) => row?.left === 0,
        )
        assert.strictEqual(new Set(mails.received.map(({ to }) => to[0])).size, emailCount)
        assert.strictEqual(mails.received.length, emailCount)

        const seen = yield* steady.stop
        const failed = Object.keys(seen.responses).filter((name) => !/^(200|404|409|422)/.test(name))
        assert.deepStrictEqual(failed, [], JSON.stringify(seen))
        const last = yield* endProcess(running, "SIGTERM")
        assert.strictEqual(last.code, 0, last.err)

        const sums = yield* sql<Readonly<Record<"rows" | "keys" | "cost" | "daily" | "days" | "charged", number>>>`
          select count(*)::int as rows, count(distinct request_id)::int as keys, sum(cost_microdollars)::int as cost,
            (select sum(requests)::int from usage_totals where account_id = it.account_id) as days,
            (select sum(cost_microdollars)::int from usage_totals where account_id = it.account_id) as daily,
            (1000000000 - min(current_balance(it)))::int as charged
          from accounts as it join usage_requests using (account_id) where name = 'steady' group by it.account_id
        `
        // Each client path is requested once before the clients start counting.
        const requests = seen.requests + paths.length
        const [{ cost } = { cost: 0 }] = sums
        assert.deepStrictEqual(Array.from(sums), [
          { rows: requests, keys: requests, cost, days: requests, daily: cost, charged: cost },
        ])
        yield* Effect.log(`${installedRelease.version} → ${applied.replaceAll("\n", ", ")}: ${JSON.stringify(seen)}`)
      }),
  )
})
