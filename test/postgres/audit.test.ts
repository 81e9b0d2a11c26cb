/** Tests that the audit log records every change that operators make (docs/operations/audit.md). */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, FileSystem, Layer, Redacted, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { hostname, userInfo } from "node:os"
import { auditSubjectTypes, recordAuditedSettings } from "../../src/postgres/AuditLog.ts"
import { decodeRows } from "../../src/postgres/DecodeRows.ts"
import { grantRolePrivileges } from "../../src/postgres/migrations/ServiceRole.ts"
import { describeFailure } from "../../src/postgres/FailureText.ts"
import { databaseClientLayer } from "../../src/postgres/pool/PooledClient.ts"
import { runCommandInProcess } from "../support/InProcessCommands.ts"
import { copyMigratedDatabase } from "../support/Service.ts"

class DatabaseUrl extends Context.Service<DatabaseUrl, Redacted.Redacted>()("test/postgres/DatabaseUrl") {
  static readonly layer = Layer.effect(DatabaseUrl, copyMigratedDatabase)
}

const TestLayer = Layer.unwrap(
  Effect.map(DatabaseUrl, (url) => databaseClientLayer({ url, applicationName: "psql" })),
).pipe(Layer.provideMerge(Layer.merge(DatabaseUrl.layer, NodeServices.layer)))

/** Runs a command that must succeed. Returns its output. */
const run = Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
  const url = yield* DatabaseUrl
  const { code, err, out } = yield* runCommandInProcess(args, { DATABASE_URL: Redacted.value(url) })
  assert.strictEqual(code, 0, err)
  return out
})

const Line = Schema.fromJsonString(Schema.Record(Schema.String, Schema.Json))

/** Runs a command and returns the rows that it adds to the output of `audit --json`. */
const auditOf = Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
  const read = Effect.map(
    run("audit", "--since", "2020-01-01", "--json"),
    (out) => out.split("\n").filter((line) => line !== "").map((line) => Schema.decodeSync(Line)(line)),
  )
  const before = (yield* read).length
  const out = yield* run(...args)
  return { out, rows: (yield* read).slice(before) }
})

const Recorded = Schema.Struct({ change: Schema.String, before: Schema.Json, after: Schema.Json })

layer(TestLayer, { excludeTestServices: true, timeout: "120 seconds" })("audit", (it) => {
  it.effect("records each command that changes an account with user, host, old and new values (operations/audit)", () =>
    Effect.gen(function* () {
      const who = { actor: userInfo().username, via: "command", origin: hostname(), account: "acme" }
      const account = { ...who, subject_type: "account", subject: "acme" }
      const cases = [
        [["accounts", "create", "acme", "--tier", "pro"], [
          { ...account, operation: "accounts create", change: "created", before: null },
        ]],
        [["accounts", "set-tier", "acme", "ultimate"], [
          { ...account, operation: "accounts set-tier", before: { tier: "pro" }, after: { tier: "ultimate" } },
        ]],
        [["accounts", "set-tier", "acme", "ultimate"], []],
        [["accounts", "set-email", "acme", "ops@acme.example"], [
          { ...account, before: { contact_email: null }, after: { contact_email: "ops@acme.example" } },
        ]],
        [["accounts", "news", "acme", "off"], [{ ...account, before: { news: true }, after: { news: false } }]],
        [["accounts", "budget", "acme", "--monthly", "500", "--stop"], [
          {
            ...account,
            operation: "accounts budget",
            before: { budget_microdollars: null, budget_stops: false },
            after: { budget_microdollars: 500_000_000, budget_stops: true },
          },
        ]],
        [["accounts", "budget", "acme", "--monthly", "500", "--stop"], []],
        [["accounts", "budget", "acme"], []],
        [["accounts", "budget", "acme", "--none"], [{
          ...account,
          after: { budget_microdollars: null, budget_stops: false },
        }]],
        [["accounts", "credit", "acme", "--usd", "25", "--prepaid", "--reference", "i-1"], [
          { ...who, subject_type: "credit", change: "created" },
          { ...account, before: { balance_microdollars: null }, after: { balance_microdollars: 25_000_000 } },
        ]],
        [["accounts", "credit", "acme", "--usd", "5"], [
          { ...who, operation: "accounts credit", subject_type: "credit", change: "created" },
          { ...account, before: { balance_microdollars: 25_000_000 }, after: { balance_microdollars: 30_000_000 } },
        ]],
      ] as const
      for (const [args, expected] of cases) {
        const { rows } = yield* auditOf(...args)
        assert.strictEqual(rows.length, expected.length, args.join(" "))
        const bySubject = rows.toSorted((one, other) =>
          String(other["subject_type"]).localeCompare(String(one["subject_type"]))
        )
        const ordered = expected.toSorted((one, other) => other.subject_type.localeCompare(one.subject_type))
        ordered.forEach((row, index) => assert.deepInclude(bySubject[index], row, args.join(" ")))
      }
    }))

  it.effect("refuses an unknown type of subject, and suggests a known one (operations/audit)", () =>
    Effect.gen(function* () {
      const url = Redacted.value(yield* DatabaseUrl)
      const { code, err } = yield* runCommandInProcess(["audit", "--type", "kei"], { DATABASE_URL: url })
      assert.strictEqual(code, 2)
      assert.match(err, /kei[\s\S]*key/)
      for (const type of auditSubjectTypes) yield* run("audit", "--type", type)
    }))

  it.effect("knows every type of subject that it records (operations/audit)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const recorded = yield* decodeRows(Schema.Struct({ type: Schema.String }))(sql`
        select distinct split_part(encode(tgargs, 'escape'), ${"\\000"}, 1) as type from pg_trigger
        where tgfoid = 'audit_row'::regproc
      `)
      assert.isAbove(recorded.length, 4)
      assert.includeMembers([...auditSubjectTypes], recorded.map(({ type }) => type))
    }))

  it.effect("records webhook endpoints without their secrets (operations/audit)", () =>
    Effect.gen(function* () {
      yield* run("accounts", "create", "hooks", "--tier", "pro")
      const url = "https://hooks.example/"
      const created = yield* auditOf("webhooks", "create", "--account", "hooks", "--url", url)
      const rotated = yield* auditOf("webhooks", "rotate-secret", "1")
      const disabled = yield* auditOf("webhooks", "disable", "1", "--reason", "moved")
      const rows = [...created.rows, ...rotated.rows, ...disabled.rows]
      assert.deepStrictEqual(
        rows.map(({ account, change, operation, subject, subject_type }) => [
          account,
          subject_type,
          subject,
          change,
          operation,
        ]),
        [
          ["hooks", "webhook", "1", "created", "webhooks create"],
          ["hooks", "webhook", "1", "changed", "webhooks rotate-secret"],
          ["hooks", "webhook", "1", "changed", "webhooks disable"],
        ],
      )
      assert.propertyVal(rows[2]?.["after"], "disabled_reason", "moved")
      assert.notInclude(JSON.stringify(rows), "whsec_")
    }))

  it.effect("records keys without the key or its digest (§8, operations/audit)", () =>
    Effect.gen(function* () {
      const { out, rows: [created] } = yield* auditOf("keys", "create", "--account", "keys", "--tier", "pro")
      const key = out.trim()
      assert.deepInclude(created, { subject_type: "account", change: "created" })
      const id = "1"
      const { out: rotated, rows } = yield* auditOf("keys", "rotate", id, "--grace", "1h")
      assert.deepStrictEqual(rows.map(({ change, subject_type }) => [subject_type, change]).toSorted(), [
        ["key", "changed"],
        ["key", "created"],
      ])
      yield* run("keys", "disable", id)
      const disabled = yield* auditOf("keys", "enable", id)
      assert.deepInclude(disabled.rows[0], {
        operation: "keys enable",
        subject: id,
        account: "keys",
        change: "changed",
      })
      assert.deepInclude(disabled.rows[0]?.["after"], { disabled_at: null })
      yield* run("keys", "revoke", id)
      const log = yield* run("audit", "--account", "keys", "--json")
      for (const secret of [key, rotated.trim()]) assert.notInclude(log, secret)
      assert.notMatch(log, /key_hash|last_used/)
      assert.match(log, /"key_hint":"tl_live_/)
    }))

  it.effect("records loads with file and counts, and nothing if no row changed (operations/audit)", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* fs.makeTempDirectoryScoped()
      const file = `${folder}/changes.csv`
      yield* fs.writeFileString(
        file,
        "old_ticker,new_ticker,effective_date,status,cik\nFB,META,2022-06-09,estimated,0001326801\n",
      )
      const { rows } = yield* auditOf("load", "ticker-changes", file)
      assert.strictEqual(rows.length, 1)
      assert.deepInclude(rows[0], {
        operation: "load",
        subject_type: "dataset",
        subject: "ticker_changes",
        after: { ticker_changes: { added: 1 }, file: "changes.csv" },
      })
      assert.deepStrictEqual((yield* auditOf("load", "ticker-changes", file)).rows, [])
      const review = yield* auditOf("lineage", "confirm", "FB", "META", "2022-06-09")
      const byType = new Map(review.rows.map((row) => [row["subject_type"], row]))
      assert.strictEqual(byType.size, 2)
      assert.deepInclude(byType.get("ticker_change"), {
        operation: "lineage confirm",
        subject: "FB to META on 2022-06-09",
        before: { status: "estimated" },
        after: { status: "confirmed" },
      })
    }).pipe(Effect.scoped))

  it.effect("records a change in psql with the role, and no usage (operations/audit)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* run("accounts", "create", "direct", "--tier", "basic", "--prepaid")
      yield* sql`update accounts set tier = 'pro' where name = 'direct'`
      yield* sql`update accounts set balance_microdollars = 5 where name = 'direct'`
      yield* sql`update accounts set balance_microdollars = 4, last_charged_at = now() where name = 'direct'`
      yield* sql`delete from accounts where name = 'direct'`
      const rows = yield* decodeRows(Schema.Struct({ ...Recorded.fields, operation: Schema.String }))(sql`
        select change, before, after, operation from audit
        where subject = 'direct' and via = 'sql' and actor = current_user order by audit_id
      `)
      // The changes of the tier and the balance, and the deletion. The last update is a usage charge, which is not
      // recorded.
      assert.lengthOf(rows, 3)
      const change = { change: "changed", operation: "psql" }
      assert.deepStrictEqual(rows.slice(0, 2), [
        { ...change, before: { tier: "basic" }, after: { tier: "pro" } },
        { ...change, before: { balance_microdollars: 0 }, after: { balance_microdollars: 5 } },
      ])
      assert.deepInclude(rows[2]?.before, { name: "direct", tier: "pro" })
    }))

  it.effect("records prices and limits when they change (operations/audit)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const [first, second] = [{ price: 1, limits: { basic: 200 } }, { price: 2, limits: { basic: 200 } }]
      yield* Effect.forEach([first, first, second], recordAuditedSettings, { discard: true })
      const rows = yield* decodeRows(Recorded)(sql`
        select change, before, after from audit where subject_type = 'settings' order by audit_id
      `)
      assert.deepStrictEqual(rows, [
        { change: "created", before: null, after: first },
        { change: "changed", before: first, after: second },
      ])
    }))

  it.effect("removes changes after their retention, but none of the last 31 days (operations/audit)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`truncate audit`
      // Inserts three changes, which are 20, 40 and 60 days old.
      yield* sql`select record_audit('test', age::text, 'created', null, null) from generate_series(1, 3) as age`
      yield* sql`update audit set recorded_at = now() - make_interval(days => 20 * subject::int)`
      yield* sql`select drop_audit_before(now() - interval '50 days')`
      yield* sql`select drop_audit_before(now())`
      const rows = yield* decodeRows(Schema.Struct({ subject: Schema.String, before: Schema.Json }))(sql`
        select subject, before from audit order by audit_id
      `)
      assert.deepStrictEqual(rows, [
        { subject: "1", before: null },
        { subject: "retention", before: { rows: 1 } },
        { subject: "retention", before: { rows: 1 } },
      ])
    }))

  it.effect("records every column of an audited table that operators can change (operations/audit)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      // Columns that never change, that are secret, or that only requests or the service itself change.
      const isUnrecorded =
        /_id$|\.created_|_hash$|\.last_|\.expiry_set_|\.budget_(?:month|spent_)|secret$|_service$|_in_a_row$/
      // Bit 16 of `tgtype` marks update triggers. A trigger without a column list (`tgattr`) fires for all columns.
      const missing = yield* decodeRows(Schema.Struct({ name: Schema.String }))(sql`
        select attrelid::regclass || '.' || attname as name from pg_attribute
        where attrelid in (select tgrelid from pg_trigger where tgfoid = 'audit_row'::regproc)
          and attnum > 0 and not attisdropped and not exists (
            select from pg_trigger where tgrelid = attrelid and tgfoid = 'audit_row'::regproc
              and tgtype & 16 > 0 and (cardinality(tgattr::int2[]) = 0 or attnum = any (tgattr::int2[]))
          )
      `)
      assert.isAbove(missing.length, 4)
      assert.deepStrictEqual(missing.map(({ name }) => name).filter((name) => !isUnrecorded.test(name)), [])
    }))
})

/** Changes that the admin API's role may make directly. Triggers record these changes. */
const recordedChanges: Readonly<Record<string, string>> = {
  "accounts insert": "insert into accounts (name, tier) values ('new', 'pro')",
  "accounts.tier update": "update accounts set tier = 'ultimate'",
  "accounts.contact_email update": "update accounts set contact_email = 'other@acme.example'",
  "accounts.news update": "update accounts set news = not news",
  "api_keys insert": `insert into api_keys (account_id, key_hash, key_hint)
    select account_id, decode(repeat('00', 32), 'hex'), 'tl' from accounts`,
  "api_keys.expires_at update": "update api_keys set expires_at = now()",
  "api_keys.revoked_at update": "update api_keys set revoked_at = now()",
  "api_keys.disabled_at update": "update api_keys set disabled_at = now()",
  "api_keys.networks update": "update api_keys set networks = '{10.0.0.0/8}'",
  "api_keys.replaced_by update": "update api_keys set replaced_by = key_id",
  "credits insert": "insert into credits (account_id, amount_microdollars) select account_id, 1 from accounts",
  "webhook_endpoints.disabled_at update": "update webhook_endpoints set disabled_at = now() - interval '1 day'",
  "webhook_endpoints.disabled_reason update": "update webhook_endpoints set disabled_reason = 'other'",
  "admin_tokens insert": `insert into admin_tokens (name, scope, token_hash, token_hint, created_by)
    values ('new', 'admin', decode(repeat('00', 32), 'hex'), 'tl', 'audit')`,
  "admin_tokens.revoked_at update": "update admin_tokens set revoked_at = now()",
  "execute add_credit": "select add_credit(account_id, -5, null) from accounts",
  "execute announce_entry": `select announce_entry('entry', true, '["ops@acme.example"]', '{"title": "forged"}')`,
  "execute retry_emails": "select retry_emails('failed', null)",
  "execute set_budget": "select set_budget(account_id, 5, true) from accounts",
  "execute enable_webhook_endpoint": "select enable_webhook_endpoint(endpoint_id) from webhook_endpoints",
  "execute replay_webhook_messages": "select replay_webhook_messages(null, null, null, true)",
  "execute erase_account": "select erase_account(account_id) from accounts",
}

/** Changes that the admin API's role may make without an audit record, each with the reason. */
const unrecordedChanges: Readonly<Record<string, string>> = {
  "admin_tokens.last_used_at update": "Changes with requests.",
  "admin_requests insert": "Stores the response to a write, which is recorded itself.",
  "admin_requests update": "Stores the response to a write, which is recorded itself.",
  "admin_requests delete": "Removes what is older than 24 hours.",
}

/** Lists the changes that a role may make directly, and the `security definer` functions that it may call. */
const listChanges = Effect.fnUntraced(function* (role: string) {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql<{ readonly what: string }>`
    with relations as (
      select oid, relname from pg_class
      where relnamespace in ('public'::regnamespace, 'history'::regnamespace) and relkind in ('r', 'p', 'v')
    )
    select relname || ' ' || privilege as what
    from relations, unnest(array['insert', 'update', 'delete', 'truncate', 'trigger']) as privilege
    where has_table_privilege(${role}, oid, privilege)
    union all
    select relname || '.' || attname || ' ' || privilege
    from relations join pg_attribute on attrelid = oid, unnest(array['insert', 'update']) as privilege
    where attnum > 0 and not attisdropped and has_column_privilege(${role}, oid, attnum, privilege)
      and not has_table_privilege(${role}, oid, privilege)
    union all
    select 'execute ' || proname from pg_proc
    where pronamespace in ('public'::regnamespace, 'history'::regnamespace) and prosecdef
      and has_function_privilege(${role}, oid, 'execute')
  `
  return found.map(({ what }) => what)
})

layer(TestLayer, { excludeTestServices: true, timeout: "120 seconds" })("The role of the admin API", (it) => {
  it.effect("can make no change without a row in the audit log, except those listed (operations/audit)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const role = `audited_${SecureRandom.uuidV7Unsafe().replaceAll("-", "")}`
      yield* Effect.acquireRelease(
        sql.unsafe(`create role ${role}`),
        () => Effect.orDie(Effect.andThen(sql.unsafe(`drop owned by ${role}`), sql.unsafe(`drop role ${role}`))),
      )
      yield* grantRolePrivileges(role, "admin")
      yield* run("accounts", "create", "acme", "--tier", "pro", "--prepaid", "--email", "ops@acme.example")
      yield* run("keys", "create", "--account", "acme")
      yield* run("webhooks", "create", "--account", "acme", "--url", "https://hooks.example/")
      yield* run("webhooks", "disable", "1", "--reason", "test")
      yield* run("admin", "tokens", "create", "--name", "audit", "--scope", "read")
      yield* sql`insert into announcements (entry_id, operational) values ('failed', true)`
      yield* sql`insert into announcement_mails (entry_id, recipient, status) values ('failed', 'x@x.example', 'failed')`
      yield* sql`
        insert into webhook_messages (endpoint_id, type, body, status, finished_at)
        select endpoint_id, 'x', '{}', 'dead', now() from webhook_endpoints
      `
      const changes = yield* listChanges(role)
      assert.sameMembers(changes, [...Object.keys(recordedChanges), ...Object.keys(unrecordedChanges)])
      for (const [name, statement] of Object.entries(recordedChanges)) {
        const count = Effect.map(sql`select from audit`, (rows) => rows.length)
        // Fails on purpose, with the number of new audit rows, to roll the change back.
        const added = yield* Effect.flip(sql.withTransaction(Effect.gen(function* () {
          const before = yield* count
          yield* sql.unsafe(`set local role ${role}`)
          yield* sql.unsafe(statement)
          yield* sql.unsafe("reset role")
          return yield* Effect.fail((yield* count) - before)
        })))
        assert.isAbove(Number(added), 0, `${name}: ${describeFailure(added)}`)
      }
    }).pipe(Effect.scoped))

  it.effect("can queue neither emails nor webhooks itself (operations/audit)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const role = `queueing_${SecureRandom.uuidV7Unsafe().replaceAll("-", "")}`
      yield* Effect.acquireRelease(sql.unsafe(`create role ${role}`), () =>
        Effect.orDie(Effect.andThen(sql.unsafe(`drop owned by ${role}`), sql.unsafe(`drop role ${role}`))))
      yield* grantRolePrivileges(role, "admin")
      yield* run("accounts", "create", "queueing", "--tier", "pro")
      yield* run("webhooks", "create", "--account", "queueing", "--url", "https://hooks.example/")
      for (
        const statement of [
          "insert into announcements (entry_id, subject, text, html, operational, account_id) values ('x:1', 's', 't', 'h', true, 1)",
          "insert into announcement_mails (entry_id, recipient) values ('x', 'x@x.example')",
          "update announcement_mails set status = 'queued'",
          "insert into webhook_messages (endpoint_id, type, body) values (1, 'x', '{}')",
          "update webhook_messages set status = 'pending'",
          "update webhook_feed set cursor = null",
          "select queue_notice('x:1', 1, 's', 't', 'h')",
          `select enqueue_webhook_event(account_id, 'forged', '{}') from accounts where name = 'queueing'`,
          `select enqueue_webhook_message(endpoint_id, 'forged', '{}', null) from webhook_endpoints`,
        ]
      ) {
        const error = yield* Effect.flip(sql.withTransaction(Effect.andThen(
          sql.unsafe(`set local role ${role}`),
          sql.unsafe(statement),
        )))
        assert.strictEqual(error.reason._tag, "AuthorizationError", statement)
      }
    }).pipe(Effect.scoped))
})
