/** Tests the privileges of the service role and the command that grants them (operations/deployment). */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Logger, Redacted, Schedule } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient, type SqlError } from "effect/sql"
import { setBudget } from "../../../src/accounts/billing/Budgets.ts"
import * as Accounts from "../../../src/accounts/Accounts.ts"
import { settleUsage } from "../../../src/accounts/billing/UsageSettlement.ts"
import { DatabaseReader } from "../../../src/postgres/DatabaseReader.ts"
import * as Migrations from "../../../src/postgres/migrations/Migrations.ts"
import * as ServiceRole from "../../../src/postgres/migrations/ServiceRole.ts"
import { ChangeFeedReader } from "../../../src/query/history/ChangeFeed.ts"
import { countNextFeedChanges } from "../../../src/query/history/CorrectionCounts.ts"
import { makeJobLeaseStatements } from "../../../src/postgres/jobs/JobLease.ts"
import { makeEmailOutboxStatements } from "../../../src/outbox/mail/EmailSenderJob.ts"
import { queueNotice } from "../../../src/outbox/mail/Notices.ts"
import * as Server from "../../../src/Server.ts"
import { queueDatasetEvents } from "../../../src/outbox/webhooks/DatasetEvents.ts"
import type { DeliveryResult } from "../../../src/outbox/webhooks/HttpDelivery.ts"
import { createWebhookEndpoint } from "../../../src/outbox/webhooks/WebhookEndpoints.ts"
import { deleteOldWebhookMessages, queueKeyExpiryEvents } from "../../../src/outbox/webhooks/WebhookRetention.ts"
import { makeWebhookSender } from "../../../src/outbox/webhooks/WebhookSenderJob.ts"
import { buildUrl, documentedEndpoints, makeRequiredQuery } from "../../support/DocumentedEndpoints.ts"
import { makeReportedShares } from "../../support/ReportedShares.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import { assertFoundMoreThan } from "../../support/ScanAssertions.ts"
import * as Service from "../../support/Service.ts"
import { makePoolableClientLayer } from "../../support/PoolerMode.ts"

const { requestJson, valueAt } = Service

/** Provides connections as the service role, and a database client that uses them. */
class ServingConnections extends Context.Service<
  ServingConnections,
  Context.Context<Layer.Success<ReturnType<typeof makePoolableClientLayer>>>
>()("test/postgres/ServingConnections") {}

/** A database client that connects as the service role. */
const servingClient = Effect.map(ServingConnections, Context.get(SqlClient.SqlClient))

/** Creates a role and a database. Drops both when the scope closes. */
const createServiceRole = Effect.fnUntraced(function* (database: Redacted.Redacted) {
  const sql = yield* SqlClient.SqlClient
  const name = `serving ${SecureRandom.uuidV7Unsafe()}`
  yield* Effect.acquireRelease(
    sql.unsafe(`create role "${name}" login password 'serving'`),
    () =>
      Effect.orDie(Effect.andThen(sql.unsafe(`drop owned by "${name}" cascade`), sql.unsafe(`drop role "${name}"`))),
  )
  const own = new URL(Redacted.value(database))
  own.username = encodeURIComponent(name)
  own.password = "serving"
  return { name, url: Redacted.make(own.href) }
})

const granted = Layer.unwrap(Effect.gen(function* () {
  const database = yield* Service.copyMigratedDatabase
  const owner = makePoolableClientLayer({ url: database, applicationName: "owner" })
  return Layer.provideMerge(
    Layer.unwrap(Effect.gen(function* () {
      const { name, url } = yield* createServiceRole(database)
      yield* ServiceRole.grantRolePrivileges(name)
      return Layer.effect(
        ServingConnections,
        Layer.build(makePoolableClientLayer({ url, applicationName: "serving" })),
      )
    })),
    owner,
  )
}))

const restricted = Layer.provideMerge(Service.listenerLayer, Server.layer).pipe(
  Layer.provide(Layer.effectContext(ServingConnections)),
  Layer.provide(Logger.layer([])),
  Layer.provideMerge(Service.TestKeys.layer),
  Layer.provideMerge(granted),
  Layer.provideMerge(Service.httpServerLayer),
  Layer.provideMerge(NodeCrypto.layer),
  Layer.provideMerge(NodeServices.layer),
)

const assertRefused = (statement: string) =>
  Effect.gen(function* () {
    const serving = yield* servingClient
    const error: SqlError.SqlError = yield* Effect.flip(serving.unsafe(statement))
    assert.strictEqual(error.reason._tag, "AuthorizationError", statement)
  })

layer(restricted, { excludeTestServices: true, timeout: "60 seconds" })("The service role", (it) => {
  it.effect("serves every endpoint, records usage and charges it (operations/deployment)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ultimate } = yield* Service.TestKeys
      yield* sql`update accounts set balance_microdollars = 1000000 where name = 'test ultimate'`
      yield* setBudget("test ultimate", { microdollars: 1n, stops: false })
      let cost = 0
      for (const endpoint of documentedEndpoints) {
        const target = endpoint.path === "/estimate"
          ? "/estimate?endpoint=/v1/screener"
          : buildUrl(endpoint.path, makeRequiredQuery(endpoint))
        const { headers, status, text } = yield* requestJson(target, { key: ultimate })
        assert.include([200, 404], status, `${target} ${text}`)
        cost += Number(headers["x-cost-microdollars"] ?? 0)
      }
      assert.isAbove(cost, 0)
      const balance = Effect.map(
        requestJson("/v1/overview", { key: ultimate }),
        ({ body }) => valueAt(body, "results", 0, "balance_microdollars"),
      )
      yield* Effect.repeat(balance, {
        until: (left) => left === 1_000_000 - cost,
        schedule: Schedule.spaced("50 millis"),
        times: 1_000,
      })
      assert.strictEqual(yield* balance, 1_000_000 - cost)
      const [key] = yield* sql<{ readonly used: boolean }>`
        select last_used_at is not null as used from api_keys join accounts using (account_id)
        where accounts.name = 'test ultimate'
      `
      assert.strictEqual(key?.used, true, "the last use of the key is recorded (§2.5)")
      // The balance already includes requests that have not been written to the database, but only written requests can
      // be charged.
      const serving = yield* servingClient
      const alerts = Effect.andThen(
        Effect.provideService(settleUsage, SqlClient.SqlClient, serving),
        sql`select from budget_alerts`,
      )
      yield* Effect.repeat(alerts, {
        until: ({ length }) => length === 3,
        schedule: Schedule.spaced("50 millis"),
        times: 1_000,
      })
      assert.strictEqual((yield* sql`select from budget_alerts`).length, 3)
    }))

  it.effect("exports every list (operations/deployment)", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* Service.TestKeys
      const lists = documentedEndpoints.filter(({ parameters }) => parameters.some(({ name }) => name === "page"))
      assertFoundMoreThan(15, "lists", lists)
      for (const list of lists) {
        const target = buildUrl(list.path, [...makeRequiredQuery(list), ["format", "ndjson"], ["limit", "all"]])
        const { headers, status, text } = yield* requestJson(target, { key: ultimate })
        assert.strictEqual(status, 200, `${target} ${text}`)
        assert.match(headers["x-row-count"] ?? "", /^\d+$/, target)
      }
    }))

  it.effect("can neither alter tables nor write data that the service does not write (operations/deployment)", () =>
    Effect.gen(function* () {
      const statements = [
        "alter table screener add column x text",
        "drop table screener",
        "truncate screener",
        "delete from screener",
        "update screener set company = 'x'",
        "insert into ticker_changes (old_ticker) values ('X')",
        "create table mine (x text)",
        "create index on screener (company)",
        "update accounts set tier = 'ultimate'",
        "update accounts set name = 'x'",
        "insert into accounts (name, tier) values ('x', 'basic')",
        "delete from accounts",
        "update api_keys set revoked_at = null",
        "update api_keys set key_hash = key_hash",
        "insert into api_keys (account_id, key_hash, key_hint) values (1, 'x', 'x')",
        "select from credits",
        "select from audit",
        "insert into audit (actor, via, database_role, subject_type, subject, change) values ('', '', '', '', '', '')",
        "update audit set actor = 'x'",
        "delete from audit",
        "insert into credits (account_id, amount_microdollars) values (1, 1)",
        "update usage set cost_microdollars = 0",
        "delete from usage",
        "truncate usage",
        "delete from usage_daily",
        "insert into invoices select * from invoices",
        "insert into invoice_lines select * from invoice_lines",
        "select close_invoice(1, '2026-01', null)",
        "insert into tickerline_migrations (migration_id, name) values (99999, 'x')",
        "create table loading.mine (x text)",
        "create temporary table accounts (x text)",
        "create schema mine",
        "create extension dblink",
        "create role mine",
        "alter role current_user createdb",
        "copy screener to '/tmp/screener'",
        "copy screener from program 'true'",
        "select pg_read_file('/etc/passwd')",
        "insert into announcements (entry_id, subject, text, html, operational) values ('x', 'x', 'x', 'x', true)",
        "update announcements set text = 'x'",
        "insert into announcement_mails (entry_id, recipient) values ('x', 'x@x.example')",
        "update announcement_mails set recipient = 'x@x.example'",
        "delete from announcement_mails",
        "update accounts set contact_email = 'x@x.example'",
      ]
      yield* Effect.forEach(statements, assertRefused, { discard: true })
    }))

  it.effect("has exactly the listed privileges, down to columns (operations/deployment)", () =>
    Effect.gen(function* () {
      const serving = yield* servingClient
      const may = yield* serving<{ readonly what: string }>`
        with relations as (
          select oid, relname, relispartition from pg_class
          where relnamespace = any (array['public', 'loading', 'history']::regnamespace[])
            and relkind in ('r', 'p', 'v', 'm', 'S')
        )
        select relname || ' ' || privilege as what
        from relations, unnest(array['insert', 'update', 'delete', 'truncate', 'references', 'trigger']) as privilege
        where has_table_privilege(oid, privilege)
        union all
        select 'no select on ' || relname from relations where not relispartition and not has_table_privilege(oid, 'select')
        union all
        select relname || '.' || attname || ' update' from relations join pg_attribute on attrelid = oid
        where attnum > 0 and not attisdropped and has_column_privilege(oid, attnum, 'update')
          and not has_table_privilege(oid, 'update')
        union all
        select relname || '.' || attname || ' insert' from relations join pg_attribute on attrelid = oid
        where attnum > 0 and not attisdropped and has_column_privilege(oid, attnum, 'insert')
          and not has_table_privilege(oid, 'insert')
        union all
        select proname || ' as its owner' from pg_proc
        where pronamespace in ('public'::regnamespace, 'history'::regnamespace) and prosecdef
          and has_function_privilege(oid, 'execute')
        union all
        select nspname || ' create' from pg_namespace where has_schema_privilege(oid, 'create')
        union all
        select privilege from unnest(array['temporary', 'create']) as privilege
        where has_database_privilege(current_database(), privilege)
        union all
        select 'is ' || role from pg_roles, unnest(array[
          case when rolsuper then 'superuser' end, case when rolcreaterole then 'creator of roles' end,
          case when rolcreatedb then 'creator of databases' end, case when rolbypassrls then 'unbound' end]) as role
        where rolname = current_user and role is not null
      `
      assert.sameMembers(may.map(({ what }) => what), [
        "usage insert",
        "usage.bytes update",
        "usage.request_count update",
        "usage_batches insert",
        "unsettled_usage insert",
        "usage_request_kinds insert",
        "usage_writers.id_suffix insert",
        "usage_writers.written update",
        "settle_usage as its owner",
        "usage_kind_hours insert",
        "failed_requests insert",
        "failed_requests update",
        "failed_requests delete",
        "usage_daily insert",
        "usage_daily update",
        "usage_daily_prices insert",
        "usage_daily_prices update",
        "accounts.last_charged_at update",
        "balance_reservations insert",
        "balance_reservations update",
        "balance_reservations delete",
        "api_keys.last_used_at update",
        "api_keys.last_used_address update",
        "announcement_mails.status update",
        "announcement_mails.attempts update",
        "announcement_mails.next_attempt_at update",
        "announcement_mails.claimed_by update",
        "announcement_mails.last_error update",
        "announcement_mails.sent_at update",
        "leases.holder update",
        "leases.until update",
        "leases.name insert",
        "rate_limit_buckets insert",
        "rate_limit_buckets update",
        "change_counts insert",
        "change_counts update",
        "corrected_fields insert",
        "corrected_fields update",
        "counting_place.cursor update",
        "counting_place.counted_until update",
        "webhook_messages insert",
        "webhook_messages update",
        "webhook_messages delete",
        "webhook_endpoints.disabled_at update",
        "webhook_endpoints.disabled_reason update",
        "webhook_endpoints.disabled_by_service update",
        "webhook_endpoints.dead_letters_in_a_row update",
        "webhook_feed.cursor update",
        "create_usage_partition as its owner",
        "drop_usage_partitions as its owner",
        "start_month as its owner",
        "queue_notice as its owner",
        "record_settings as its owner",
        "drop_audit_before as its owner",
        "continue_erasure as its owner",
        "edgar_place_due_companies as its owner",
        "start_day as its owner",
        "drop_before as its owner",
        "no select on admin_requests",
        "no select on admin_tokens",
        "no select on admin_tokens_token_id_seq",
        "no select on audit",
        "no select on audit_audit_id_seq",
        "no select on credits",
        "no select on credits_credit_id_seq",
        "no select on accounts_account_id_seq",
        "no select on api_keys_key_id_seq",
        "no select on edgar_doubts_doubt_id_seq",
        "no select on edgar_runs_run_id_seq",
        "no select on webhook_endpoints_endpoint_id_seq",
        "no select on webhook_messages_position_seq",
        "no select on newest_microsecond",
        "no select on usage_request_kinds_kind_id_seq",
        "no select on usage_writers_writer_seq",
      ])
    }))

  it.effect("counts corrections (operations/history)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* Service.insertRows("historical_float_pro", makeReportedShares("COUNT", "2026-01-02", "1"))
      yield* sql`update historical_float_pro set outstanding_shares = 2 where ticker = 'COUNT'`
      yield* Effect.repeat(countNextFeedChanges(), { while: (hasMore) => hasMore }).pipe(
        Effect.provide(ChangeFeedReader.layer.pipe(Layer.provide(DatabaseReader.layer))),
        Effect.provideContext(yield* ServingConnections),
      )
      const [counted] = yield* sql<{ readonly number: number }>`
        select corrections::int as number from history.corrected_fields where field = 'outstanding_shares'
      `
      assert.strictEqual(counted?.number, 1)
    }))

  it.effect("queues a notice once, to the contact address, and cannot announce with it (operations/announcements)", () =>
    Effect.gen(function* () {
      const [owner, serving] = [yield* SqlClient.SqlClient, yield* servingClient]
      yield* Accounts.ensureAccount({ name: "noticed", tier: "basic", email: " ops@x.example ", prepaid: false })
      const [account] = yield* owner<{ readonly account_id: bigint }>`
        select account_id from accounts where name = 'noticed'
      `
      const notice = { account_id: account?.account_id ?? 0n, subject: "Something <new>", paragraphs: ["One & two."] }
      const queue = (id: string) => Effect.provideService(queueNotice({ ...notice, id }), SqlClient.SqlClient, serving)
      assert.deepStrictEqual([yield* queue("test:1"), yield* queue("test:1")], [true, false])
      yield* owner`update accounts set contact_email = 'new@x.example' where name = 'noticed'`
      assert.isFalse(yield* queue("test:1"))
      yield* owner`update accounts set contact_email = null where name = 'noticed'`
      assert.isFalse(yield* queue("test:2"))
      assert.match((yield* Effect.flip(queue("ticker-changes"))).message, /Query failed/)
      const outbox = yield* owner<Readonly<Record<string, string>>>`
        select entry_id, recipient, subject, text, html, operational::text from announcements
        join announcement_mails using (entry_id) where account_id is not null
      `
      assert.strictEqual(outbox.length, 1)
      assert.deepInclude(outbox[0], {
        entry_id: "test:1",
        recipient: "ops@x.example",
        subject: "Tickerline: Something <new>",
        operational: "true",
      })
      assert.match(outbox[0]?.["text"] ?? "", /^Something <new>\n\nOne & two\.\n\n-- \nYou are receiving/)
      assert.include(outbox[0]?.["html"], "<p>One &amp; two.</p>")
      yield* owner`delete from announcement_mails`
      yield* owner`delete from announcements`
      assert.deepStrictEqual(yield* owner`select from audit where subject_type = 'announcement'`, [])
    }))

  it.effect("claims, sends and completes announcements (operations/deployment)", () =>
    Effect.gen(function* () {
      const [owner, serving] = [yield* SqlClient.SqlClient, yield* servingClient]
      yield* owner`insert into announcements values ('role', 'subject', 'text', 'html', true)`
      for (const recipient of ["a@x.example", "b@x.example", "c@x.example"]) {
        yield* owner`insert into announcement_mails (entry_id, recipient) values ('role', ${recipient})`
      }
      const holder = SecureRandom.uuidV4Unsafe()
      const leases = makeJobLeaseStatements(serving, holder)
      yield* leases.declare(["mail"])
      assert.deepStrictEqual(yield* leases.take(["mail"]), ["mail"])
      const box = yield* Effect.provideService(
        makeEmailOutboxStatements({ holder, holderCondition: leases.holderCondition("mail") }),
        SqlClient.SqlClient,
        serving,
      )
      assert.deepStrictEqual(yield* box.readState, [{ waiting: 3, due: true }])
      assert.strictEqual(yield* box.recoverAbandoned, 0)
      const ids = [yield* box.claimNext, yield* box.claimNext, yield* box.claimNext].map(([mail]) =>
        mail?.mail_id ?? ""
      )
      const [first = "", second = "", third = ""] = ids
      assert.isTrue(yield* box.markHanded(first))
      yield* box.markSent(first)
      yield* box.giveUp(second, "failed", "no")
      yield* box.postpone(third, 60, "later", true)
      yield* leases.release(["mail"])
      assert.deepStrictEqual(yield* owner`select status from announcement_mails order by status`, [
        { status: "failed" },
        { status: "queued" },
        { status: "sent" },
      ])
    }))

  it.effect("queues, sends and deletes webhooks (operations/deployment)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* createWebhookEndpoint({
        account: "test ultimate",
        url: "https://example.com/",
        events: null,
        datasets: null,
        tickers: null,
      })
      yield* Service.insertRows("historical_float_pro", makeReportedShares("HOOK", "2026-01-02", "1"))
      yield* sql`update api_keys set expires_at = now() + interval '1 day'`
      yield* Effect.gen(function* () {
        const serving = yield* SqlClient.SqlClient
        yield* queueKeyExpiryEvents
        yield* queueDatasetEvents("")
        let attempts = 0
        // The first attempt succeeds. The second is rejected with a response that disables the endpoint.
        const deliver = () =>
          Effect.sync((): DeliveryResult =>
            (attempts += 1) === 1
              ? { _tag: "Delivered", status: 200 }
              : { _tag: "Failed", why: "gone", reason: "HTTP 410", status: 410 }
          )
        const run = yield* makeWebhookSender(deliver, { isHeld: () => true, holderCondition: serving`true` })
        const disabled = serving`select from webhook_endpoints where disabled_reason like '%410'`
        yield* Effect.repeat(Effect.andThen(run, disabled), {
          until: (rows) => rows.length === 1,
          schedule: Schedule.spaced("20 millis"),
        })
        yield* sql`update webhook_messages set finished_at = '2000-01-01' where status = 'delivered'`
        yield* deleteOldWebhookMessages
      }).pipe(
        Effect.provide(ChangeFeedReader.layer.pipe(Layer.provide(DatabaseReader.layer))),
        Effect.provideContext(yield* ServingConnections),
        Effect.scoped,
      )
      assert.deepStrictEqual(yield* sql`select type, status from webhook_messages`, [
        { type: "dataset.changed", status: "pending" },
      ])
    }))

  it.effect("cannot drop the usage of the last 31 days (operations/deployment)", () =>
    Effect.gen(function* () {
      const [owner, serving] = [yield* SqlClient.SqlClient, yield* servingClient]
      yield* serving`select create_usage_partition(now() - interval '70 days')`
      yield* serving`select create_usage_partition(now())`
      const partitions = owner<{ readonly name: string }>`
        select inhrelid::regclass::text as name from pg_inherits where inhparent = 'usage'::regclass order by 1
      `
      const before = yield* partitions
      const dropped = yield* serving`select drop_usage_partitions(now() + interval '1 year') as name`
      assert.isAbove(dropped.length, 0)
      assert.isAbove((yield* partitions).length, 0)
      assert.strictEqual((yield* partitions).length, before.length - dropped.length)
    }))

  it.effect("serves while its privileges are granted again (operations/deployment)", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* Service.TestKeys
      const [role] = yield* (yield* servingClient)<{ readonly name: string }>`select current_user as name`
      for (let page = 1; page <= 60; page += 20) {
        const granting = yield* Effect.forkChild(ServiceRole.grantRolePrivileges(role?.name ?? ""))
        for (let next = page; next < page + 20; next += 1) {
          const { status, text } = yield* requestJson(`/v1/news?page=${next}&limit=11`, { key: ultimate })
          assert.strictEqual(status, 200, text)
        }
        yield* Fiber.join(granting)
      }
    }))

  it.effect("can start the service if all migrations are applied, and otherwise gets advice (operations/deployment)", () =>
    Effect.gen(function* () {
      const [owner, serving] = [yield* SqlClient.SqlClient, yield* servingClient]
      const run = Effect.provideService(Migrations.runMigrations, SqlClient.SqlClient, serving)
      assert.deepStrictEqual(Array.from(yield* run), [])
      yield* owner`delete from tickerline_migrations`
      const error = yield* Effect.flip(run)
      assert.strictEqual(error._tag, "MigrationRefused")
      assert.include(error.message, "tickerline -- migrate")
      yield* owner`insert into tickerline_migrations (migration_id, name) values (0, 'schema')`
    }))
})

/** Lists a role's privileges on tables, columns, sequences and functions, without the role's name. */
const listPrivileges = Effect.fnUntraced(function* (role: string) {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql<{ readonly what: string }>`
    select oid::regclass || ' ' || privilege_type as what from pg_class, aclexplode(relacl)
    where grantee = ${role}::regrole
    union all
    select attrelid::regclass || '.' || attname || ' ' || privilege_type from pg_attribute, aclexplode(attacl)
    where grantee = ${role}::regrole
    union all
    select pg_proc.oid::regprocedure || ' ' || privilege_type from pg_proc, aclexplode(proacl)
    where grantee = ${role}::regrole
    order by 1
  `
  return found.map(({ what }) => what)
})

/** Layers for tests that do not start the HTTP service. */
const commandServices = Layer.mergeAll(NodeServices.layer, NodeCrypto.layer)

layer(commandServices, { excludeTestServices: true })("Grants", (it) => {
  it.effect("are extended to the tables of a new migration for existing service roles (operations/deployment)", () =>
    Effect.gen(function* () {
      const url = yield* Service.copyMigratedDatabase
      const context = yield* Layer.build(PgClient.layer({ url, maxConnections: 2 }))
      yield* Effect.provide(
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const role = yield* createServiceRole(url)
          yield* ServiceRole.grantRolePrivileges(role.name)
          yield* sql`create table brought (x text)`
          const may = sql`select has_table_privilege(${role.name}, 'brought', 'select') as may`
          assert.deepStrictEqual(yield* may, [{ may: false }])
          yield* ServiceRole.renewRolePrivileges
          assert.deepStrictEqual(yield* may, [{ may: true }])
        }),
        context,
      )
    }))

  it.effect("replace those of the other purpose and any others, but a renewal keeps them (operations/deployment)", () =>
    Effect.gen(function* () {
      const url = yield* Service.copyMigratedDatabase
      const context = yield* Layer.build(PgClient.layer({ url, maxConnections: 2 }))
      yield* Effect.provide(
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const [serving, admin, changed] = yield* Effect.all([
            createServiceRole(url),
            createServiceRole(url),
            createServiceRole(url),
          ])
          const list = ({ name }: typeof changed) => listPrivileges(`"${name}"`)
          yield* ServiceRole.grantRolePrivileges(serving.name)
          yield* ServiceRole.grantRolePrivileges(admin.name, "admin")
          const [ofService, ofAdmin] = [yield* list(serving), yield* list(admin)]
          yield* ServiceRole.grantRolePrivileges(changed.name)
          yield* ServiceRole.grantRolePrivileges(changed.name, "admin")
          assert.deepStrictEqual(yield* list(changed), ofAdmin)
          yield* sql.unsafe(`grant delete on usage to "${changed.name}"`)
          yield* sql.unsafe(`grant usage on sequence accounts_account_id_seq to "${changed.name}"`)
          yield* ServiceRole.renewRolePrivileges
          assert.strictEqual((yield* list(changed)).length, ofAdmin.length + 2)
          yield* ServiceRole.grantRolePrivileges(changed.name)
          assert.deepStrictEqual(yield* list(changed), ofService)
          yield* sql`create table owned (x text)`
          yield* sql.unsafe(`alter table owned owner to "${changed.name}"`)
          yield* ServiceRole.grantRolePrivileges(changed.name)
          const [own] = yield* sql`select has_table_privilege(${changed.name}, 'owned', 'insert') as may`
          assert.deepStrictEqual(own, { may: true })
          yield* ServiceRole.renewRolePrivileges
          for (const [role, before] of [[serving, ofService], [admin, ofAdmin]] as const) {
            assert.deepStrictEqual((yield* list(role)).filter((what) => what !== "owned SELECT"), before)
          }
        }),
        context,
      )
    }))

  it.effect("log what the granting role must leave to the owner of the database, and to a role that may alter roles (operations/deployment)", () =>
    Effect.gen(function* () {
      const url = yield* Service.copyMigratedDatabase
      const context = yield* Layer.build(PgClient.layer({ url, maxConnections: 2 }))
      const messages: Array<unknown> = []
      const listening = Logger.layer([Logger.make(({ message }) => messages.push(message))])
      yield* Effect.provide(
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const [owner, role] = [yield* createServiceRole(url), yield* createServiceRole(url)]
          const tables = yield* sql<{ readonly name: string }>`
            select oid::regclass::text as name from pg_class
            where relnamespace in ('public'::regnamespace, 'history'::regnamespace) and relkind in ('r', 'p', 'v')
          `
          for (const { name } of tables) yield* sql.unsafe(`alter table ${name} owner to "${owner.name}"`)
          for (
            const name of [
              "create_usage_partition",
              "queue_notice",
              "record_audit",
              "write_audit",
              "record_settings",
              "drop_audit_before",
              "continue_erasure",
              "edgar_place_due_companies",
              "drop_usage_partitions",
              "settle_usage",
              "add_daily_sums",
              "history.start_month",
              "history.start_day",
              "history.drop_before",
            ]
          ) {
            yield* sql.unsafe(`alter function ${name} owner to "${owner.name}"`)
          }
          for (const name of ["public", "history"]) yield* sql.unsafe(`alter schema ${name} owner to "${owner.name}"`)
          const granter = yield* Layer.build(PgClient.layer({ url: owner.url, maxConnections: 1 }))
          yield* Effect.provide(ServiceRole.grantRolePrivileges(role.name), granter)
          const [tablesAdvice, settingsAdvice, ...others] = messages.map(String)
          assert.match(
            tablesAdvice ?? "",
            /may still create tables.*: revoke temporary on database test_\w+ from public$/,
          )
          assert.match(
            settingsAdvice ?? "",
            /lacks session settings .* \(permission denied.*\)\. Run as .*: alter role .* set lock_timeout = '2s'; alter/,
          )
          assert.deepStrictEqual(others, [])
          yield* ServiceRole.grantRolePrivileges(role.name)
          assert.lengthOf(messages, 2)
        }),
        Layer.provideMerge(Layer.succeedContext(context), listening),
      )
    }))

  it.effect("do not let a service role invite admins, and the command names the roles that may (operations/console)", () =>
    Effect.gen(function* () {
      const url = yield* Service.copyMigratedDatabase
      const context = yield* Layer.build(PgClient.layer({ url, maxConnections: 2 }))
      yield* Effect.provide(
        Effect.gen(function* () {
          const role = yield* createServiceRole(url)
          yield* ServiceRole.grantRolePrivileges(role.name)
          for (const command of [["invite"], ["tokens", "create", "--scope", "read"]]) {
            const { code, err } = yield* runCommandInProcess(["admin", ...command, "--name", "alice"], {
              DATABASE_URL: Redacted.value(role.url),
              ADMIN_PORT: "21400",
            })
            assert.strictEqual(code, 1)
            assert.match(err, /permission denied for table admin_tokens/)
            assert.include(err, 'DATABASE_URL="$ADMIN_DATABASE_URL"')
          }
        }),
        context,
      )
    }))

  it.effect("fail if the role is missing, and name the statement that creates it (operations/deployment)", () =>
    Effect.gen(function* () {
      const url = yield* Service.copyMigratedDatabase
      const context = yield* Layer.build(PgClient.layer({ url, maxConnections: 2 }))
      const error = yield* Effect.flip(Effect.provide(ServiceRole.grantRolePrivileges(`no "such`), context))
      assert.include(error.message, `create role "no ""such" login`)
    }))
})
