/**
 * Tests the admin API over a socket, with the PostgreSQL role created by `grant --admin`
 * (docs/operations/admin-api.md).
 */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Fiber, Metric, Predicate } from "effect"
import { HttpApi, OpenApi } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { connect } from "node:net"
import * as Accounts from "../../../src/accounts/Accounts.ts"
import { closeMonth } from "../../../src/accounts/billing/Invoices.ts"
import { makeRequestId } from "../../../src/contract/rules/RequestIds.ts"
import { RequiredScope } from "../../../src/operate/admin/AdminAccess.ts"
import { AdminApi } from "../../../src/operate/admin/AdminApi.ts"
import { changelogEntries } from "../../../src/api/changelog/Changelog.ts"
import { createWebhookEndpoint } from "../../../src/outbox/webhooks/WebhookEndpoints.ts"
import { Admin, adminLog, createToken, makeAdminLayer } from "../../support/Admin.ts"
import { createCustomer, makeRecordWriter, makeUsageRecord } from "../../support/CustomerUsage.ts"
import { beginTransaction, waitUntilBlocked } from "../../support/HeldTransactions.ts"
import { makeReportedShares } from "../../support/ReportedShares.ts"
import { assertSingleError, exchangeBytes } from "../../support/RawSockets.ts"
import { assertFoundMoreThan } from "../../support/ScanAssertions.ts"
import { insertRows } from "../../support/Service.ts"
import { skipUnlessThorough } from "../../support/Thoroughness.ts"

const codeOf = (body: unknown) =>
  Predicate.hasProperty(body, "error") && Predicate.hasProperty(body.error, "code") ? body.error.code : undefined

const resultsOf = (body: unknown): ReadonlyArray<unknown> =>
  Predicate.hasProperty(body, "results") && Array.isArray(body.results)
    ? body.results
    : assert.fail(JSON.stringify(body))

const countAudit = Effect.fnUntraced(function* (subject: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly actor: string; readonly operation: string; readonly origin: string }>`
    select actor, operation, origin from audit where subject = ${subject} and via = 'admin' order by audit_id
  `
  return rows.map(({ actor, operation, origin }) => `${actor} ${operation} ${origin}`)
})

const countRefusals = Effect.map(Metric.snapshot, (metrics) => {
  const count = (status: string) =>
    metrics.reduce(
      (sum, { attributes, id, state }) =>
        id === "tickerline_admin_responses_total" && attributes?.["status"] === status &&
          Predicate.hasProperty(state, "count")
          ? sum + Number(state.count)
          : sum,
      0,
    )
  return [count("401"), count("403")] as const
})

/** Returns whether a field with this name contains a timestamp. */
const isTimeName = (name: string) => /_at$|^(since|until)$/.test(name)

const formatsOf = (schema: unknown): ReadonlyArray<unknown> => {
  if (!Predicate.isObject(schema)) return []
  if (Predicate.hasProperty(schema, "anyOf") && Array.isArray(schema.anyOf)) return schema.anyOf.flatMap(formatsOf)
  return Predicate.hasProperty(schema, "type") && schema.type === "string"
    ? [Predicate.hasProperty(schema, "format") ? schema.format : "no format"]
    : []
}

/** Lists the formats of all timestamp properties in JSON Schemas, as `name: format`. */
const listTimeFormats = (json: unknown): ReadonlyArray<string> => {
  if (!Predicate.isObjectOrArray(json)) return []
  const properties = Predicate.hasProperty(json, "properties") ? json.properties : {}
  const own = Object.entries(Predicate.isObject(properties) ? properties : {}).filter(([name]) => isTimeName(name))
  return [
    ...own.flatMap(([name, schema]) => formatsOf(schema).map((format) => `${name}: ${String(format)}`)),
    ...Object.values(json).flatMap(listTimeFormats),
  ]
}

layer(makeAdminLayer(), { excludeTestServices: true, timeout: "120 seconds" })("admin API", (it) => {
  it.effect("refuses requests without a valid token, or with too low a scope (operations/admin-api)", () =>
    Effect.gen(function* () {
      const [before401, before403] = yield* countRefusals
      const { send, tokens } = yield* Admin
      const sql = yield* SqlClient.SqlClient
      const expired = yield* createToken("expired", "admin", "2020-01-01")
      const revoked = yield* createToken("revoked", "admin")
      yield* sql`update admin_tokens set revoked_at = now() where name = 'revoked'`
      const changed = tokens.admin.replace(/.$/, (last) => last === "a" ? "b" : "a")
      for (const token of ["", "tl_admin_", "tl_live_x", expired, revoked, changed]) {
        const { body, status } = yield* send("/accounts", { token })
        assert.deepStrictEqual([status, codeOf(body)], [401, "invalid_admin_token"], token)
        if (token.length > 9) assert.notInclude(JSON.stringify(body), token)
      }
      const account = { name: "refused", tier: "pro" }
      for (const token of [tokens.read, tokens.support]) {
        const { body, status } = yield* send("/accounts", { method: "POST", body: account, token })
        assert.deepStrictEqual([status, codeOf(body)], [403, "insufficient_scope"])
      }
      assert.strictEqual((yield* send("/accounts/refused")).status, 404)
      assert.strictEqual((yield* send("/accounts", { token: tokens.read })).status, 200)
      const log = adminLog.splice(0).join("\n")
      assert.include(log, "refused GET /v1/accounts from 127.0.0.1; The admin token is unknown, revoked or expired.")
      assert.include(log, "refused POST /v1/accounts from 127.0.0.1; rita has the scope read, and needs admin.")
      for (const secret of [expired, revoked, changed, tokens.read]) assert.notInclude(log, secret)
      const [after401, after403] = yield* countRefusals
      assert.deepStrictEqual([after401 - before401, after403 - before403], [6, 2])
    }))

  it.effect("requires a scope above read for every write (operations/admin-api)", () =>
    Effect.sync(() => {
      const scopes: Record<string, string> = {}
      HttpApi.reflect(AdminApi, {
        onGroup: () => undefined,
        onEndpoint: ({ endpoint }) => {
          scopes[`${endpoint.method} ${endpoint.path}`] = Context.get(endpoint.annotations, RequiredScope)
        },
      })
      const writes = Object.entries(scopes).filter(([name]) => !name.startsWith("GET "))
      assertFoundMoreThan(5, "operations that write", writes)
      // Any admin may end their own session, even with the `read` scope.
      assert.deepStrictEqual(writes.filter(([, scope]) => scope === "read").map(([name]) => name), [
        "POST /v1/me/revoke",
      ])
    }))

  it.effect("creates, changes and credits an account in the name of the token (operations/admin-api)", () =>
    Effect.gen(function* () {
      const { send } = yield* Admin
      const created = yield* send("/accounts", { method: "POST", body: { name: "acme & co", tier: "pro" } })
      assert.strictEqual(created.status, 201)
      const path = "/accounts/acme%20%26%20co"
      const found = yield* send(path)
      assert.deepInclude(found.body, {
        name: "acme & co",
        tier: "pro",
        balance_microdollars: null,
        keys: 0,
        news: true,
      })
      const credit = { amount_microdollars: 25_000_000, reference: "invoice-1" }
      const refused = yield* send(`${path}/credits`, { method: "POST", body: credit })
      assert.deepStrictEqual([refused.status, codeOf(refused.body)], [409, "account_is_postpaid"])
      const credited = yield* send(`${path}/credits`, { method: "POST", body: { ...credit, becomes_prepaid: true } })
      assert.deepStrictEqual(credited.body, { balance_microdollars: 25_000_000, became_prepaid: true })
      const twice = yield* send(`${path}/credits`, { method: "POST", body: credit })
      assert.deepStrictEqual([twice.status, codeOf(twice.body)], [409, "already_credited"])
      assert.lengthOf(resultsOf((yield* send(`${path}/credits`)).body), 1)
      const sql = yield* SqlClient.SqlClient
      yield* sql`update accounts set created_at = '2026-05-01' where name = 'acme & co'`
      yield* closeMonth({ month: "2026-05", account: "acme & co", skipsEarlierUsage: false })
      const [invoice] = resultsOf((yield* send(`${path}/invoices`)).body)
      assert.deepInclude(invoice, { account: "acme & co", month: "2026-05", lines: 0, cost_microdollars: 0 })
      assert.strictEqual((yield* send("/accounts/nobody/invoices")).status, 404)
      const again = yield* send("/accounts", { method: "POST", body: { name: "acme & co", tier: "pro" } })
      assert.deepStrictEqual([again.status, codeOf(again.body)], [409, "already_exists"])
      assert.deepStrictEqual(yield* countAudit("acme & co"), [
        "alice POST /v1/accounts 127.0.0.1",
        "alice POST /v1/accounts/:name/credits 127.0.0.1",
      ])
    }))

  it.effect("finds the longest names and ids that may be in a path (D12, operations/admin-api)", () =>
    Effect.gen(function* () {
      const { send } = yield* Admin
      const name = "é".repeat(500)
      assert.strictEqual((yield* send("/accounts", { method: "POST", body: { name, tier: "pro" } })).status, 201)
      assert.deepInclude((yield* send(`/accounts/${encodeURIComponent(name)}`)).body, { name })
      const { body } = yield* send(`/usage/${"x".repeat(128)}?account=${encodeURIComponent(name)}`)
      assert.notInclude(JSON.stringify(body), "There is no endpoint")
      assert.include(JSON.stringify(body), "x".repeat(128))
    }))

  it.effect("creates, limits, rotates and revokes keys, which a token may do that cannot change accounts (operations/admin-api)", () =>
    Effect.gen(function* () {
      const { send, tokens } = yield* Admin
      yield* Accounts.createAccount({ name: "keyed", tier: "pro", email: null, prepaid: false })
      const post = (path: string, body?: unknown) => send(path, { method: "POST", body, token: tokens.support })
      const statuses = Effect.map(
        send("/keys?account=keyed"),
        ({ body }) => resultsOf(body).map((key) => Predicate.hasProperty(key, "status") ? key.status : undefined),
      )
      const key = { account: "keyed", endpoints: ["/v1/news"], networks: ["10.0.0.0/8"], expires: "2099-01-01" }
      const created = yield* post("/keys", key)
      assert.strictEqual(created.status, 201)
      const id = Predicate.hasProperty(created.body, "key_id") ? String(created.body.key_id) : ""
      assert.match(JSON.stringify(created.body), /"key":"tl_live_\w{38}"/)
      const [listed] = resultsOf((yield* send("/keys?account=keyed", { token: tokens.read })).body)
      assert.deepInclude(listed, {
        status: "active",
        endpoints: ["/v1/news"],
        networks: ["10.0.0.0/8"],
        name: "default",
      })
      const setNetworks = (networks: ReadonlyArray<string> | null, etag: string) =>
        send(`/keys/${id}/networks`, {
          method: "POST",
          body: { networks },
          token: tokens.support,
          headers: { "if-match": etag },
        })
      const etag = (yield* send(`/keys/${id}`)).headers.get("etag") ?? ""
      const unconditional = yield* post(`/keys/${id}/networks`, { networks: null })
      assert.deepStrictEqual([unconditional.status, codeOf(unconditional.body)], [428, "precondition_required"])
      assert.strictEqual((yield* setNetworks(["192.0.2.1"], etag)).status, 204)
      const stale = yield* setNetworks(["10.0.0.0/8", "192.0.2.2"], etag)
      assert.deepStrictEqual([stale.status, codeOf(stale.body)], [412, "precondition_failed"])
      assert.strictEqual((yield* setNetworks(null, "*")).status, 204)
      assert.strictEqual((yield* post(`/keys/${id}/disable`)).status, 204)
      const disabled = yield* post(`/keys/${id}/rotate`, { grace_seconds: 60 })
      assert.deepStrictEqual([disabled.status, codeOf(disabled.body)], [409, "key_not_active"])
      assert.strictEqual((yield* post(`/keys/${id}/enable`)).status, 204)
      assert.strictEqual((yield* post(`/keys/${id}/rotate`, { grace_seconds: 60 })).status, 201)
      const replaced = yield* post(`/keys/${id}/rotate`, { grace_seconds: 60 })
      assert.deepStrictEqual([replaced.status, codeOf(replaced.body)], [409, "key_already_replaced"])
      assert.strictEqual((yield* post(`/keys/${id}/revoke`)).status, 204)
      assert.deepStrictEqual(yield* statuses, ["active", "revoked"])
      const page = yield* send("/keys?account=keyed&limit=1")
      const next = Predicate.hasProperty(page.body, "next") ? page.body.next : undefined
      assert.isAbove(Number(next), Number(id))
      const older = yield* send(`/keys?account=keyed&limit=1&after=${String(next)}`)
      assert.deepInclude(resultsOf(older.body)[0], { key_id: Number(id) })
      assert.strictEqual((yield* post(`/keys/${id}/enable`)).status, 409)
      for (const path of ["/keys/999999/revoke", "/keys/999999/enable"]) {
        assert.strictEqual((yield* post(path)).status, 404)
      }
      assert.strictEqual((yield* post("/keys", { account: "nobody" })).status, 404)
      for (
        const wrong of [{ endpoints: ["/v1/nws"] }, { networks: ["10.0.0.1/8"] }, { networks: [] }, {
          expires: "2020-01-01",
        }]
      ) {
        assert.strictEqual((yield* post("/keys", { account: "keyed", ...wrong })).status, 422, JSON.stringify(wrong))
      }
      assert.strictEqual((yield* send("/keys?account=nobody")).status, 404)
      assert.deepStrictEqual(resultsOf((yield* send("/keys?account=keyed&unused_days=1")).body), [])
    }))

  it.effect("refuses to overwrite the change of another admin (operations/admin-api)", () =>
    Effect.gen(function* () {
      const { send, tokens } = yield* Admin
      const { headers } = yield* send("/accounts", { method: "POST", body: { name: "shared", tier: "basic" } })
      const etag = headers.get("etag") ?? ""
      const change = (body: unknown, ifMatch?: string, token = tokens.admin) =>
        send("/accounts/shared", {
          method: "PATCH",
          body,
          token,
          headers: ifMatch === undefined ? {} : { "if-match": ifMatch },
        })
      assert.strictEqual((yield* change({ tier: "pro" })).status, 428)
      for (const ifMatch of [`"other", ${etag}`, `W/"other",${etag} , "more"`, "*", " * "]) {
        assert.strictEqual((yield* change({ news: true }, ifMatch)).status, 200, ifMatch)
      }
      for (
        const ifMatch of [
          "",
          `W/${etag}`,
          `"other", W/${etag}`,
          etag.slice(1, -1),
          `"other"`,
          `"*"`,
          `${etag} ${etag}`,
          `*, ${etag}`,
        ]
      ) {
        assert.strictEqual((yield* change({ news: true }, ifMatch)).status, 412, ifMatch)
      }
      const first = yield* change({ contact_email: "a@acme.example" }, etag, tokens.support)
      assert.strictEqual(first.status, 200)
      assert.notStrictEqual(first.headers.get("etag"), etag)
      const second = yield* change({ contact_email: "b@acme.example" }, etag)
      assert.deepStrictEqual([second.status, codeOf(second.body)], [412, "precondition_failed"])
      assert.strictEqual((yield* change({ tier: "pro" }, "*", tokens.support)).status, 403)
      const third = yield* change({ tier: "ultimate", news: false }, first.headers.get("etag") ?? "")
      assert.deepInclude(third.body, { tier: "ultimate", news: false, contact_email: "a@acme.example" })
      const results = yield* Effect.all(
        ["pro", "basic"].map((tier) => change({ tier }, third.headers.get("etag") ?? "")),
        { concurrency: 2 },
      )
      assert.sameMembers(results.map(({ status }) => status), [200, 412])
    }))

  it.effect("sets and removes a budget, unless somebody else has changed the account (operations/accounts, operations/admin-api)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { send, tokens } = yield* Admin
      const created = yield* send("/accounts", { method: "POST", body: { name: "budgeted", tier: "basic" } })
      const put = (body: unknown, etag = "*", token = tokens.admin) =>
        send("/accounts/budgeted/budget", { method: "PUT", body, token, headers: { "if-match": etag } })
      const budget = { budget_microdollars: 500_000_000, stops: true }
      assert.strictEqual((yield* put(budget, "*", tokens.support)).status, 403)
      for (
        const wrong of [
          { budget_microdollars: 0 },
          { budget_microdollars: 0.5 },
          { budget_microdollars: null, stops: true },
          {},
        ]
      ) {
        assert.strictEqual((yield* put(wrong)).status, 422)
      }
      const set = yield* put(budget, created.headers.get("etag") ?? "")
      const fields = { budget_microdollars: 500_000_000, budget_stops: true, budget_spent_microdollars: 0 }
      assert.deepInclude(set.body, fields)
      const found = yield* send("/accounts/budgeted")
      assert.deepInclude(found.body, fields)
      assert.strictEqual(found.headers.get("etag"), set.headers.get("etag"))
      yield* sql`
        insert into usage_daily select account_id, (now() at time zone 'America/New_York')::date, '/v1/news', 1, 0, 1, 300
        from accounts where name = 'budgeted'
      `
      const late = yield* put({ budget_microdollars: 1 }, created.headers.get("etag") ?? "")
      assert.deepStrictEqual([late.status, codeOf(late.body)], [412, "precondition_failed"])
      const lowered = yield* put({ budget_microdollars: 400 }, set.headers.get("etag") ?? "")
      assert.deepInclude(lowered.body, { budget_spent_microdollars: 300, budget_stops: false })
      assert.strictEqual((yield* sql`select from budget_alerts where percent = 75`).length, 1)
      const removed = yield* put({ budget_microdollars: null }, lowered.headers.get("etag") ?? "")
      assert.deepInclude(removed.body, {
        budget_microdollars: null,
        budget_stops: false,
        budget_spent_microdollars: null,
      })
      assert.strictEqual((yield* send("/accounts/nobody/budget", { method: "PUT", body: budget })).status, 404)
      assert.deepStrictEqual((yield* countAudit("budgeted")).slice(1), [
        "alice PUT /v1/accounts/:name/budget 127.0.0.1",
        "alice PUT /v1/accounts/:name/budget 127.0.0.1",
        "alice PUT /v1/accounts/:name/budget 127.0.0.1",
      ])
    }))

  it.effect("runs a write with an Idempotency-Key once, even if it is repeated at the same time (operations/admin-api)", () =>
    Effect.gen(function* () {
      const { send, tokens } = yield* Admin
      yield* Accounts.createAccount({ name: "once", tier: "pro", email: null, prepaid: true })
      const request = (amount_microdollars: number, key: string, token = tokens.admin) =>
        send("/accounts/once/credits", {
          method: "POST",
          body: { amount_microdollars },
          headers: { "idempotency-key": key },
          token,
        })
      const responses = yield* Effect.all([1, 2, 3].map(() => request(7, "k1")), { concurrency: 3 })
      for (const { body, status } of [...responses, yield* request(7, "k1")]) {
        assert.strictEqual(status, 201)
        assert.deepStrictEqual(body, { balance_microdollars: 7, became_prepaid: false })
      }
      assert.strictEqual(responses.filter(({ headers }) => headers.has("idempotency-replayed")).length, 2)
      const other = yield* request(8, "k1")
      assert.deepStrictEqual([other.status, codeOf(other.body)], [422, "idempotency_key_reused"])
      assert.strictEqual((yield* request(8, "")).status, 422)
      // The response to a failed write is not stored for its idempotency key, so the write can be retried once the
      // cause is gone.
      const create = send("/accounts", {
        method: "POST",
        body: { name: "later", tier: "pro" },
        headers: { "idempotency-key": "k2" },
      })
      yield* Accounts.createAccount({ name: "later", tier: "pro", email: null, prepaid: true })
      assert.strictEqual((yield* create).status, 409)
      const sql = yield* SqlClient.SqlClient
      yield* sql`delete from accounts where name = 'later'`
      assert.strictEqual((yield* create).status, 201)
    }))

  it.effect("shows a new token once, and stores neither it nor its key (§8, operations/admin-api)", () =>
    Effect.gen(function* () {
      const { send } = yield* Admin
      const sql = yield* SqlClient.SqlClient
      const create = send("/tokens", {
        method: "POST",
        body: { name: "new", scope: "read" },
        headers: { "idempotency-key": "secret-key-1" },
      })
      const first = yield* create
      const token = Predicate.hasProperty(first.body, "token") ? String(first.body.token) : ""
      assert.match(token, /^tl_admin_\w{38}$/)
      assert.strictEqual((yield* send("/accounts", { token })).status, 200)
      assert.deepStrictEqual((yield* create).body, { token: null })
      const stored = yield* sql<{ readonly text: string }>`
        select row_to_json(admin_requests)::text as text from admin_requests
        union all select row_to_json(admin_tokens)::text from admin_tokens
        union all select row_to_json(audit)::text from audit
      `
      assertFoundMoreThan(3, "stored rows", stored)
      for (const { text } of stored) for (const secret of [token, "secret-key-1"]) assert.notInclude(text, secret)
      const find = Effect.fnUntraced(function* (query: string) {
        const { body } = yield* send(`/tokens${query}`)
        return resultsOf(body).find((row) => Predicate.hasProperty(row, "name") && row.name === "new")
      })
      const listed = yield* find("?usable=true&limit=1")
      assert.isUndefined(yield* find("?usable=false"))
      const id = Predicate.hasProperty(listed, "token_id") ? String(listed.token_id) : ""
      assert.strictEqual((yield* send(`/tokens/${id}/revoke`, { method: "POST" })).status, 204)
      assert.strictEqual((yield* send("/accounts", { token })).status, 401)
      assert.isDefined(yield* find("?usable=false"))
    }))

  it.effect("names every invalid field (operations/admin-api)", () =>
    Effect.gen(function* () {
      const { send } = yield* Admin
      const body = { name: " x", tier: "gold", mail: 1 }
      const response = yield* send("/accounts", { method: "POST", body })
      assert.strictEqual(response.status, 422)
      const text = JSON.stringify(response.body)
      for (const name of ["name must", "tier must", "mail is not"]) assert.include(text, name)
      const id = response.headers.get("x-request-id")
      assert.match(id ?? "", /^[\w-]{36}$/)
      assert.deepInclude(response.body, { request_id: id })
      assert.strictEqual((yield* send("/accounts?limit=0")).status, 422)
      assert.strictEqual((yield* send("/accounts?page=2")).status, 422)
    }))

  it.effect("serves other requests while three bodies do not arrive (operations/admin-api)", () =>
    Effect.gen(function* () {
      const { port, send, tokens } = yield* Admin
      const head = [
        "PATCH /v1/accounts/nobody HTTP/1.1",
        "host: admin",
        `authorization: Bearer ${tokens.support}`,
        "content-type: application/json",
        "content-length: 20",
      ]
      for (let stalled = 0; stalled < 3; stalled += 1) {
        yield* Effect.acquireRelease(
          Effect.sync(() => connect(port, "127.0.0.1").on("error", () => undefined)),
          (socket) => Effect.sync(() => socket.destroy()),
        ).pipe(Effect.tap((socket) => Effect.sync(() => socket.write(`${head.join("\r\n")}\r\n\r\n{`))))
      }
      for (let sent = 0; sent < 4; sent += 1) assert.strictEqual((yield* send("/accounts")).status, 200)
    }).pipe(Effect.scoped))

  it.effect("serves other admins while all requests of one wait for PostgreSQL (operations/admin-api, SECURITY.md)", () =>
    Effect.gen(function* () {
      const { send, tokens } = yield* Admin
      const held = yield* beginTransaction(
        Effect.flatMap(SqlClient.SqlClient, (sql) => sql`lock table dataset_versions in access exclusive mode`),
      )
      const waiting = yield* Effect.forkChild(
        Effect.all(Array.from({ length: 20 }, () => send("/datasets", { token: tokens.read })), {
          concurrency: "unbounded",
        }),
      )
      yield* waitUntilBlocked
      for (let sent = 0; sent < 10; sent += 1) assert.strictEqual((yield* send("/accounts")).status, 200)
      assert.isUndefined(waiting.pollUnsafe())
      yield* held.commit
      assert.deepStrictEqual(new Set((yield* Fiber.join(waiting)).map(({ status }) => status)), new Set([200]))
    }))

  it.effect("refuses bodies and texts that it cannot store, in the form of other errors (operations/admin-api)", () =>
    Effect.gen(function* () {
      const { send } = yield* Admin
      const post = (body: unknown, headers: Record<string, string> = {}) =>
        send("/accounts", { method: "POST", body, headers })
      const account = { name: "stored", tier: "pro" }
      const refused = [
        yield* post(account, { "content-type": "text/plain" }),
        yield* post(account, { "content-type": "text/plain", "idempotency-key": "k" }),
        yield* post({ ...account, name: "x".repeat(501) }),
        yield* post({ ...account, name: "\u0000" }),
        ...(yield* Effect.forEach(
          [".", "..", "erased-5", "erased-5-x", "a\u202Eb", "a\u2066b", "a\u200Fb"],
          (name) => post({ ...account, name }),
        )),
        yield* send("/accounts?search=%00"),
        yield* send("/audit?actor=%00"),
        yield* send("/accounts?limit=0x10"),
      ]
      assert.deepStrictEqual(refused.map(({ status }) => status), refused.map(() => 422))
      for (const { body } of refused) assert.strictEqual(codeOf(body), "validation_error")
      const unknown = yield* send("/nothing", { token: "" })
      assert.deepStrictEqual([unknown.status, codeOf(unknown.body)], [404, "not_found"])
    }))

  it.effect("responds with 503 if PostgreSQL ends a connection during a write, or accepts no writes (operations/admin-api)", () =>
    Effect.gen(function* () {
      const { role, send } = yield* Admin
      const sql = yield* SqlClient.SqlClient
      const endSessions = sql`select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = ${role}`
      yield* Accounts.createAccount({ name: "cut", tier: "pro", email: null, prepaid: true })
      const write = (number: number) =>
        send("/accounts/cut/credits", {
          method: "POST",
          body: { amount_microdollars: 1 },
          headers: { "idempotency-key": `cut-${number}` },
        })
      const { commit } = yield* beginTransaction(sql`select from accounts where name = 'cut' for update`)
      const waiting = yield* Effect.forkChild(write(1))
      yield* waitUntilBlocked
      yield* endSessions
      const { body, status } = yield* Fiber.join(waiting)
      yield* commit
      assert.deepStrictEqual([status, codeOf(body)], [503, "database_unavailable"])
      for (const number of [1, 1, 2]) assert.strictEqual((yield* write(number)).status, 201)
      assert.deepInclude((yield* send("/accounts/cut")).body, { balance_microdollars: 2 })
      yield* sql.unsafe(`alter role "${role}" set default_transaction_read_only = on`)
      yield* endSessions
      const refused = yield* send("/accounts", { method: "POST", body: { name: "read only", tier: "pro" } })
      yield* sql.unsafe(`alter role "${role}" reset default_transaction_read_only`)
      yield* endSessions
      assert.deepStrictEqual([refused.status, codeOf(refused.body)], [503, "database_unavailable"])
    }))

  it.effect("names the missing privilege if its role lost one (operations/admin-api)", () =>
    Effect.gen(function* () {
      const { role, send } = yield* Admin
      const sql = yield* SqlClient.SqlClient
      yield* sql.unsafe(`revoke insert on accounts from "${role}"`)
      const { body, status } = yield* send("/accounts", { method: "POST", body: { name: "denied", tier: "pro" } })
      yield* sql.unsafe(`grant insert on accounts to "${role}"`)
      assert.deepStrictEqual([status, codeOf(body)], [403, "database_role_insufficient"])
    }))

  it.effect("declares every time in a response as date-time (§2.1, operations/admin-api)", () =>
    Effect.sync(() => {
      const { components, paths } = OpenApi.fromApi(AdminApi)
      const responses = Object.values(paths).flatMap((path) =>
        [path.get, path.post, path.put, path.patch].map((operation) => operation?.responses)
      )
      const formats = listTimeFormats(JSON.parse(JSON.stringify([components.schemas, responses])))
      assertFoundMoreThan(15, "times", new Set(formats))
      assert.deepStrictEqual(formats.filter((format) => !format.endsWith(": date-time")), [])
    }))

  it.effect("adds the common headers to every response from its port, and every error a body (§9.1.2, D11, D12, D13, D14)", () =>
    Effect.gen(function* () {
      const { port, tokens } = yield* Admin
      const url = `http://127.0.0.1:${port}`
      const authorization = `Bearer ${tokens.admin}`
      const gzip = { authorization, "content-encoding": "gzip", "content-type": "application/json" }
      const requests = ([
        [200, "/v1/openapi.json"],
        [200, "/v1/accounts/"],
        [200, "/console/sign-in/"],
        [200, "/console/assets/console.css"],
        [303, "/"],
        [303, "/console/accounts"],
        [400, "/v1/%ff"],
        [400, "/v1/accounts/%ff"],
        [400, "/console/%ff"],
        [400, "/v1/accounts?search=%ff"],
        [401, "/v1/accounts", { headers: {} }],
        [404, "/nowhere"],
        [404, "/v1/accounts/nobody"],
        [404, "/v1/accounts", { method: "DELETE" }],
        [413, "/v1/accounts", { method: "POST", body: "x".repeat(1_100_000) }],
        [415, "/v1/accounts", { method: "POST", headers: gzip, body: "{}" }],
        [415, "/console/sign-in", { method: "POST", headers: { ...gzip, origin: url }, body: "token=x" }],
        [415, "/v1/nowhere", { method: "POST", headers: { ...gzip, "content-encoding": "br, unknown" }, body: "{}" }],
      ] as ReadonlyArray<readonly [number, string, RequestInit?]>).map(([status, path, init]) => ({
        status,
        path,
        init,
      }))
      for (const { init, path, status } of requests) {
        const response = yield* Effect.promise(() =>
          fetch(url + path, { headers: { authorization }, redirect: "manual", ...init })
        )
        const text = yield* Effect.promise(() => response.text())
        assert.strictEqual(response.status, status, `${path} ${text}`)
        const { headers } = response
        assert.strictEqual(headers.get("x-api-version"), "v1", path)
        assert.strictEqual(headers.get("x-content-type-options"), "nosniff", path)
        assert.match(headers.get("cache-control") ?? "", path.includes("/assets/") ? /^private/ : /^no-store$/, path)
        assert.match(headers.get("x-request-id") ?? "", /^[0-9a-f-]{36}$/, path)
        if (status === 401) assert.strictEqual(headers.get("www-authenticate"), "Bearer")
        if (status === 415) assert.strictEqual(headers.get("accept-encoding"), "identity")
        if (status >= 400) {
          const body: unknown = JSON.parse(text)
          assert.isString(codeOf(body))
          assert.deepInclude(body, { request_id: headers.get("x-request-id") })
        }
        if (init !== undefined) continue
        const head = yield* Effect.promise(() =>
          fetch(url + path, { method: "HEAD", headers: { authorization }, redirect: "manual" })
        )
        const own = new Set(["connection", "date", "keep-alive", "x-request-id"])
        const compared = (headers: Headers) => Array.from(headers).filter(([name]) => !own.has(name))
        assert.deepStrictEqual([head.status, compared(head.headers)], [status, compared(headers)], path)
      }
      const malformed = yield* exchangeBytes(port, "GET /v1/accounts HTTP/1.2\r\nHost: x\r\n\r\n")
      assertSingleError(malformed, 400)
      const unknown = yield* exchangeBytes(port, "FIND /v1/accounts HTTP/1.1\r\nHost: x\r\n\r\n")
      assertSingleError(unknown, 404, "not_found")
    }))

  it.effect("responds with 408 to a body that does not arrive in time, instead of closing the connection (operations/admin-api)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const { port, tokens } = yield* Admin
      const head = (target: string, type: string) =>
        `POST ${target} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nOrigin: http://127.0.0.1:${port}\r\n` +
        `Authorization: Bearer ${tokens.admin}\r\nContent-Type: ${type}\r\nContent-Length: 100\r\n\r\n`
      const responses = yield* Effect.all([
        exchangeBytes(port, `${head("/v1/accounts", "application/json")}{`),
        exchangeBytes(port, `${head("/console/sign-in", "application/x-www-form-urlencoded")}token=`),
        exchangeBytes(port, "GET /v1/accounts HTTP/1.1\r\n"),
      ], { concurrency: 3 })
      for (const response of responses) assertSingleError(response, 408)
    }))

  it.effect("announces a changelog entry once, and shows no addresses (§9.6, operations/admin-api)", () =>
    Effect.gen(function* () {
      const { send, tokens } = yield* Admin
      const sql = yield* SqlClient.SqlClient
      const entry = changelogEntries.findLast(({ type }) => type === "deprecated")
      assert.isDefined(entry)
      yield* Accounts.createAccount({ name: "reader", tier: "pro", email: "ops@reader.example", prepaid: false })
      const announce = (
        body: unknown,
        more: { readonly headers?: Readonly<Record<string, string>>; readonly token?: string } = {},
      ) => send("/announcements", { method: "POST", body, ...more })
      const body = { entry_ids: [entry.id], include_new_accounts: true }
      assert.strictEqual((yield* announce(body, { token: tokens.support })).status, 403)
      const countEmails = Effect.map(
        sql`select recipient from announcement_mails where entry_id = ${entry.id} and status = 'queued'`,
        (rows) => rows.length,
      )
      const dry = yield* announce({ ...body, dry_run: true })
      const [counts] = resultsOf(dry.body)
      assert.deepInclude(counts, { entry_id: entry.id, queued_before: 0, invalid_addresses: 0 })
      assert.strictEqual(yield* countEmails, 0)
      const queued = yield* announce(body, { headers: { "idempotency-key": "announce" } })
      assert.deepStrictEqual(queued.body, dry.body)
      const emails = yield* countEmails
      assert.isAtLeast(emails, 1)
      assert.notInclude(JSON.stringify(queued.body), "reader.example")
      const [again] = resultsOf((yield* announce(body)).body)
      assert.deepInclude(again, { emails: 0, queued_before: emails })
      for (const wrong of [{}, { all: true, entry_ids: [entry.id] }, { all: false }]) {
        const { body, status } = yield* announce({ ...wrong, dry_run: true })
        assert.deepStrictEqual([status, codeOf(body)], [422, "validation_error"], JSON.stringify(wrong))
      }
      assert.strictEqual((yield* announce({ all: true, dry_run: true })).status, 200)
      const unknown = yield* announce({ entry_ids: ["nothing"] })
      assert.deepStrictEqual([unknown.status, codeOf(unknown.body)], [422, "validation_error"])
      // One audit entry records the announcement, and the other the number of its emails.
      const recorded = "alice POST /v1/announcements 127.0.0.1"
      assert.deepStrictEqual(yield* countAudit(entry.id), [recorded, recorded])
    }))

  it.effect("lists the last loads, and what changed in a dataset (operations/admin-api)", () =>
    Effect.gen(function* () {
      const { send, tokens } = yield* Admin
      const sql = yield* SqlClient.SqlClient
      yield* insertRows("historical_float_pro", makeReportedShares("LOADS", "2026-01-02", "1"))
      yield* sql`update historical_float_pro set outstanding_shares = 2 where ticker = 'LOADS'`
      const get = (path: string) => Effect.map(send(path, { token: tokens.read }), ({ body }) => resultsOf(body))
      const loads = yield* get("/loads?limit=2")
      assert.lengthOf(loads, 2)
      assert.deepInclude(loads[0], { subject_type: "dataset", subject: "historical_float_pro", via: "sql" })
      const changes = yield* get("/datasets/historical-float-pro/changes?limit=2")
      assert.deepInclude(changes[0], { added: 0, corrected: 1, removed: 0 })
      assert.deepInclude(changes[1], { added: 1, corrected: 0, removed: 0 })
      const { body, status } = yield* send("/datasets/nothing/changes")
      assert.deepStrictEqual([status, codeOf(body)], [404, "not_found"])
    }))

  it.effect("lists, disables and enables webhooks, and sends their dead letters again (operations/admin-api)", () =>
    Effect.gen(function* () {
      const { send, tokens } = yield* Admin
      const sql = yield* SqlClient.SqlClient
      yield* Accounts.createAccount({ name: "hooks", tier: "pro", email: null, prepaid: false })
      const url = "https://hooks.example/"
      const webhook = { account: "hooks", url, events: null, datasets: null, tickers: null }
      const id = Number((yield* createWebhookEndpoint(webhook)).endpoint_id)
      yield* sql`select enqueue_webhook_message(${id}, 'key.created', '{}', null)`
      const listed = resultsOf((yield* send("/webhooks", { token: tokens.read })).body)
      assert.deepInclude(listed.at(-1), { endpoint_id: id, account: "hooks", url, disabled_reason: null, waiting: 1 })
      assert.notInclude(JSON.stringify(listed), "whsec_")
      assert.deepInclude((yield* send(`/webhooks?limit=1&after=${id - 1}`)).body, { next: null })
      assert.lengthOf(resultsOf((yield* send(`/webhooks?after=${id}`)).body), 0)
      const { support: token } = tokens
      const write = (path: string, body?: unknown, by = token) => send(path, { method: "POST", body, token: by })
      assert.strictEqual((yield* write(`/webhooks/${id}/disable`, { reason: "moved" })).status, 204)
      const [row] = yield* sql`select disabled_reason from webhook_endpoints where endpoint_id = ${id}`
      assert.deepStrictEqual(row, { disabled_reason: "moved" })
      assert.strictEqual((yield* write(`/webhooks/${id}/enable`)).status, 204)
      yield* sql`update webhook_messages set status = 'dead', finished_at = now() where endpoint_id = ${id}`
      const dead = resultsOf((yield* send(`/webhooks/${id}/messages?status=dead`)).body)
      assert.lengthOf(dead, 1)
      assert.deepInclude(dead[0], { type: "key.created", status: "dead", next_attempt_at: null })
      const none = yield* write("/webhooks/replay", {})
      assert.deepStrictEqual([none.status, codeOf(none.body)], [422, "validation_error"])
      const replayed = yield* write("/webhooks/replay", { endpoint_id: id, since: "2026-01-01" })
      assert.deepStrictEqual(replayed.body, { replayed: 1, found: 1 })
      assert.lengthOf(resultsOf((yield* send(`/webhooks/${id}/messages?status=dead`)).body), 0)
      assert.strictEqual((yield* write(`/webhooks/${id}/enable`, undefined, tokens.read)).status, 403)
      for (const path of ["/webhooks/999/enable", "/webhooks/999/messages"]) {
        const { body, status } = yield* send(path, { method: path.endsWith("e") ? "POST" : "GET" })
        assert.deepStrictEqual([status, codeOf(body)], [404, "not_found"], path)
      }
      assert.deepStrictEqual((yield* countAudit(String(id))).at(-1), "sam POST /v1/webhooks/replay 127.0.0.1")
      assert.strictEqual((yield* write("/keys", { account: "hooks" })).status, 201)
      assert.lengthOf(resultsOf((yield* send(`/webhooks/${id}/messages`)).body), 2)
    }))

  it.effect("erases the account that was previewed, and nothing but accounts (operations/admin-api, operations/erasure)", () =>
    Effect.gen(function* () {
      const { role, send, tokens } = yield* Admin
      const sql = yield* SqlClient.SqlClient
      const created = { name: "leaver", tier: "pro", contact_email: "ops@leaver.example" }
      const create = { method: "POST", body: created, headers: { "idempotency-key": "leaver" } } as const
      assert.strictEqual((yield* send("/accounts", create)).status, 201)
      assert.strictEqual((yield* send("/accounts/nobody/erasure")).status, 404)
      const preview = yield* send("/accounts/leaver/erasure", { token: tokens.read })
      assert.deepInclude(preview.body, { account: "leaver", keys: 0, erased_at: null })
      const erase = (path: string, etag?: string | null, token = tokens.admin) =>
        send(path, { method: "POST", token, headers: typeof etag === "string" ? { "if-match": etag } : {} })
      const etag = preview.headers.get("etag")
      assert.strictEqual((yield* erase("/accounts/leaver/erase", etag, tokens.support)).status, 403)
      assert.strictEqual((yield* erase("/accounts/leaver/erase")).status, 428)
      const { body: key } = yield* send("/keys", { method: "POST", body: { account: "leaver" } })
      assert.property(key, "key_id")
      assert.strictEqual((yield* erase("/accounts/leaver/erase", etag)).status, 412)
      const changes = [
        sql`update api_keys set disabled_at = now() where account_id = (select account_id from accounts where name = 'leaver')`,
        sql`
          insert into webhook_endpoints (account_id, url, secret)
          select account_id, 'https://leaver.example/', '' from accounts where name = 'leaver'
        `,
        sql`update webhook_endpoints set url = 'https://leaver.example/2' where url = 'https://leaver.example/'`,
        sql`select queue_notice('test:leaver', account_id, 's', 't', 'h') from accounts where name = 'leaver'`,
      ]
      for (const [index, change] of changes.entries()) {
        const before = (yield* send("/accounts/leaver/erasure")).headers.get("etag")
        yield* change
        assert.strictEqual((yield* erase("/accounts/leaver/erase", before)).status, 412, String(index))
      }
      const current = (yield* send("/accounts/leaver/erasure")).headers.get("etag")
      const erased = yield* erase("/accounts/leaver/erase", current)
      assert.strictEqual(erased.status, 202)
      const name = Predicate.hasProperty(erased.body, "account") ? String(erased.body.account) : ""
      assert.match(name, /^erased-\d+$/)
      assert.strictEqual((yield* send("/accounts/leaver")).status, 404)
      assert.deepInclude((yield* send(`/accounts/${name}/erasure`)).body, { keys: 0, finished_at: null, usage_rows: 0 })
      const repeated = yield* send("/accounts", create)
      assert.strictEqual(repeated.headers.get("idempotency-replayed"), "true")
      assert.deepInclude(repeated.body, { name: "erased", contact_email: "erased" })
      const { headers } = yield* send(`/accounts/${name}`)
      const refused = [
        send("/keys", { method: "POST", body: { account: name } }),
        send(`/accounts/${name}/credits`, { method: "POST", body: { amount_microdollars: 1, becomes_prepaid: true } }),
        send(`/accounts/${name}`, {
          method: "PATCH",
          body: { contact_email: "a@b.example" },
          headers: { "if-match": headers.get("etag") ?? "" },
        }),
        send(`/accounts/${name}/budget`, {
          method: "PUT",
          body: { budget_microdollars: 1 },
          headers: { "if-match": headers.get("etag") ?? "" },
        }),
      ]
      for (const request of refused) {
        const { body, status } = yield* request
        assert.deepStrictEqual([status, codeOf(body)], [409, "account_erased"])
      }
      assert.deepStrictEqual((yield* countAudit(name)).at(-1), "alice POST /v1/accounts/:name/erase 127.0.0.1")
      const privileges = yield* sql`
        select from unnest(array['api_keys', 'usage', 'audit', 'account_erasures']) as name
        where has_table_privilege(${role}, name, 'delete') or has_any_column_privilege(${role}, 'usage', 'update')
      `
      assert.lengthOf(privileges, 0)
    }))

  it.effect("cannot read or replace the secrets of webhooks (operations/admin-api)", () =>
    Effect.gen(function* () {
      const { role } = yield* Admin
      const sql = yield* SqlClient.SqlClient
      const found = yield* sql`
        select from unnest(array['secret', 'previous_secret']) as name, unnest(array['select', 'insert', 'update']) as may
        where has_column_privilege(${role}, 'webhook_endpoints', name, may)
      `
      assert.lengthOf(found, 0)
    }))

  it.effect("cannot be used to replace rows of the audit log (operations/audit)", () =>
    Effect.gen(function* () {
      const { role } = yield* Admin
      const sql = yield* SqlClient.SqlClient
      const executable = yield* sql<{ readonly name: string }>`
        select proname::text as name from pg_proc
        where proname ~ 'audit' and has_function_privilege(${role}, oid, 'execute')
      `
      assert.deepStrictEqual(executable, [])
      const writable = yield* sql`
        select from unnest(array['insert', 'update', 'delete', 'truncate', 'trigger']) as privilege
        where has_table_privilege(${role}, 'audit', privilege)
      `
      assert.lengthOf(writable, 0)
    }))

  it.effect("pages through accounts, and finds them by name and address (operations/admin-api)", () =>
    Effect.gen(function* () {
      const { send } = yield* Admin
      for (const name of ["page 1", "page 2", "page 3"]) {
        yield* Accounts.createAccount({
          name,
          tier: "pro",
          email: `${name.replace(" ", "")}@Pages.example`,
          prepaid: false,
        })
      }
      const names: Array<unknown> = []
      let after = 0
      for (;;) {
        const { body } = yield* send(`/accounts?search=pages.EX&limit=2&after=${after}`)
        names.push(...resultsOf(body).map((row) => Predicate.hasProperty(row, "name") ? row.name : undefined))
        if (!Predicate.hasProperty(body, "next") || typeof body.next !== "number") break
        after = body.next
      }
      assert.deepStrictEqual(names, ["page 1", "page 2", "page 3"])
    }))

  it.effect("pages through undelivered emails, newest first, with their number (operations/admin-api)", () =>
    Effect.gen(function* () {
      const { send } = yield* Admin
      const sql = yield* SqlClient.SqlClient
      yield* sql`insert into announcements (entry_id, subject, text, html, operational) values ('p', 's', 't', 'h', true)`
      yield* sql`
        insert into announcement_mails (entry_id, recipient, status, attempts, last_error, queued_at)
        select 'p', n || '@acme.example', 'failed', 1, 'refused', now() + n / 2 * interval '1 second'
        from generate_series(1, 5) as n
      `
      const read = Effect.fnUntraced(function* (after: string) {
        const { body } = yield* send(`/announcements/undelivered?limit=2${after}`)
        assert.deepInclude(body, { total: 5 })
        const recipients = resultsOf(body).map((row) => Predicate.hasProperty(row, "recipient") ? row.recipient : "")
        return { recipients, next: Predicate.hasProperty(body, "next") ? body.next : undefined }
      })
      const found: Array<unknown> = []
      for (let next: unknown = ""; next !== null;) {
        const page = yield* read(next === "" ? "" : `&after=${String(next)}`)
        found.push(...page.recipients)
        next = page.next
      }
      assert.sameMembers(found, ["1", "2", "3", "4", "5"].map((name) => `${name}@acme.example`))
      assert.strictEqual(found.at(-1), "1@acme.example")
      const gone = yield* send("/announcements/undelivered?after=00000000-0000-4000-8000-000000000000")
      assert.deepStrictEqual([gone.status, codeOf(gone.body)], [404, "not_found"])
      const { body, status } = yield* send("/announcements/undelivered?limit=-1")
      assert.deepStrictEqual(status, 422)
      assert.include(JSON.stringify(body), "limit must be a whole number from 1 to 1000")
      yield* sql`delete from announcement_mails where entry_id = 'p'`
    }))

  it.effect("shows recent requests of all accounts, a key, and older changes (operations/admin-api)", () =>
    Effect.gen(function* () {
      const { send } = yield* Admin
      const sql = yield* SqlClient.SqlClient
      yield* sql`select create_usage_partition(now()), create_usage_partition(now() - interval '1 hour')`
      for (const name of ["busy 1", "busy 2"]) {
        yield* Accounts.createAccount({ name, tier: "pro", email: null, prepaid: false })
      }
      yield* sql`
        insert into usage (usage_id, requested_at, account_id, key_id, request_id, endpoint, status_code,
          records_returned, bytes, cost_microdollars, duration_ms, cached, deprecated, request_count)
        select gen_random_uuid(), now() - age, account_id, 1, 'r', '/v1/news', status, 0, 0, 0, duration, status = 304,
          false, requests
        from accounts cross join (values (interval '1 minute', 200, 10, 1), ('2 minutes', 304, 20, 1),
          ('3 minutes', 429, 1, 7), ('4 minutes', 503, 900, 1), ('16 minutes', 500, 5, 1))
          as recorded (age, status, duration, requests)
        where name like 'busy %'
      `
      const { body } = yield* send("/traffic")
      assert.deepNestedInclude(body, {
        endpoints: [{
          endpoint: "/v1/news",
          requests: 20,
          client_errors: 14,
          server_errors: 2,
          cached: 2,
          median_ms: 10,
          p95_ms: 900,
          max_ms: 900,
        }],
        "errors[0].status_code": 429,
        "errors[0].accounts": 2,
        "errors[1].requests": 2,
        "errors.length": 2,
        accounts: ["busy 1", "busy 2"].map((account) => ({
          account,
          requests: 10,
          client_errors: 7,
          server_errors: 1,
        })),
      })
      assert.deepInclude((yield* send("/statements")).body, { results: [] })
      const { body: created } = yield* send("/keys", { method: "POST", body: { account: "busy 1" } })
      const id = Predicate.hasProperty(created, "key_id") ? String(created.key_id) : ""
      assert.deepInclude((yield* send(`/keys/${id}`)).body, { account: "busy 1", status: "active" })
      assert.strictEqual((yield* send("/keys/999999")).status, 404)
      const idsOf = (rows: ReadonlyArray<unknown>) =>
        rows.map((row) => Predicate.hasProperty(row, "audit_id") ? Number(row.audit_id) : 0)
      const newest = idsOf(resultsOf((yield* send("/audit?limit=3")).body))
      const older = idsOf(resultsOf((yield* send(`/audit?limit=2&since=2020-01-01&before=${newest[0]}`)).body))
      assert.isTrue([...older, ...newest].every((id, index, ids) => index === 0 || id > (ids[index - 1] ?? 0)))
      assert.lengthOf(older, 2)
    }))

  it.effect("explains a request to every admin who may read (operations/admin-api)", () =>
    Effect.gen(function* () {
      const { send, tokens } = yield* Admin
      const { account_id, key_id } = yield* createCustomer("asks")
      const requested_at = Date.parse("2026-06-01T12:00:00.123Z")
      const id = makeRequestId(requested_at)
      const record = makeUsageRecord({ account_id, key_id, requested_at, bytes: 250_000_001 })
      const { makeBatch, write } = yield* makeRecordWriter
      yield* write(makeBatch([{ ...record, request_id: id }, { ...record, request_id: "order-1" }]))
      const { body, status } = yield* send(`/usage/${id}`, { token: tokens.read })
      assert.strictEqual(status, 200, JSON.stringify(body))
      assert.deepNestedInclude(body, {
        "results.length": 1,
        "results[0].account": "asks",
        "results[0].request_id": id,
        "results[0].usage_month": "2026-06",
        searched_back_to: null,
      })
      const named = yield* send("/usage/order-1?account=asks&from=2026-06-01&to=2026-06-01")
      assert.deepNestedInclude(named.body, { "results.length": 1, "results[0].request_id": "order-1" })
      const statuses = yield* Effect.forEach(
        [
          `/usage/${makeRequestId(requested_at + 60_000)}`,
          "/usage/order-1?account=nobody",
          "/usage/order-1",
          "/usage/order%201",
        ],
        (path) => Effect.map(send(path), ({ status }) => status),
      )
      assert.deepStrictEqual(statuses, [404, 404, 422, 422])
    }))

  it.effect("ends every list with a full page if its rows fill all pages exactly, and refuses an invalid place (operations/admin-api)", () =>
    Effect.gen(function* () {
      const { send } = yield* Admin
      const sql = yield* SqlClient.SqlClient
      for (const name of ["exact 1", "exact 2", "exact 3", "exact 4"]) {
        const { key_id } = yield* createCustomer(name, { tier: "pro" })
        const hook = { account: name, url: "https://hooks.example/", events: null, datasets: null, tickers: null }
        yield* createWebhookEndpoint(hook)
        yield* createToken(`${name} ${key_id}`, "read")
      }
      yield* sql`insert into announcements (entry_id, subject, text, html, operational) values ('x', 's', 't', 'h', true)`
      yield* sql`
        insert into announcement_mails (entry_id, recipient, status, attempts, last_error, queued_at)
        select 'x', n || '@acme.example', 'failed', 1, 'refused', now() + n / 2 * interval '1 second'
        from generate_series(1, 4) as n
      `
      const isParameter = (name: string) => (parameter: unknown) =>
        Predicate.hasProperty(parameter, "name") && parameter.name === name
      const lists = Object.entries(OpenApi.fromApi(AdminApi).paths).flatMap(([path, { get }]) =>
        ["after", "before"].filter((name) => get?.parameters?.some(isParameter(name)) === true)
          .map((name) => ({ path: path.slice(3), name }))
      )
      assertFoundMoreThan(6, "lists with cursors", lists)
      // A list that accepts both `after` and `before` starts with its newest row by default. To read it forward from
      // its first row, the request must say so (`after=0`).
      const hasBefore = (path: string) => lists.some((list) => list.path === path && list.name === "before")
      const read = Effect.fnUntraced(function* (path: string) {
        const { body, status } = yield* send(path)
        assert.strictEqual(status, 200, path)
        return body
      })
      const idsOf = (body: unknown) => resultsOf(body).map((row) => JSON.stringify(Object.values(Object(row))[0]))
      for (const { name, path } of lists) {
        const start = name === "after" && hasBefore(path) ? "&after=0" : ""
        const whole = idsOf(yield* read(`${path}?limit=1000${start}`))
        assert.isAtLeast(whole.length, 4, path)
        assert.isBelow(whole.length, 1000, path)
        const sizes = whole.map((_, index) => index + 1).filter((size) => whole.length % size === 0)
        for (const size of sizes) {
          const pages: Array<ReadonlyArray<string>> = []
          for (let place: unknown = start; place !== null;) {
            const body = yield* read(`${path}?limit=${size}${String(place)}`)
            assert.lengthOf(resultsOf(body), size, path)
            pages.push(idsOf(body))
            const field = name === "after" ? "next" : "previous"
            const next = Predicate.hasProperty(body, field) ? body[field] : assert.fail(`${path} has no ${field}`)
            place = next === null ? null : `&${name}=${String(next)}`
          }
          assert.deepStrictEqual((name === "after" ? pages : pages.toReversed()).flat(), whole, `${path} ${size}`)
        }
        for (const place of ["", "x", "-1", "1.5", "00000000-0000"]) {
          const { body, status } = yield* send(`${path}?${name}=${place}`)
          assert.deepStrictEqual([status, codeOf(body)], [422, "validation_error"], `${path} ${place}`)
          assert.include(JSON.stringify(body), `"field":"${name}"`)
        }
      }
      yield* sql`delete from announcement_mails where entry_id = 'x'`
    }))

  it.effect("serves every list, and refuses whatever the role may not do (operations/admin-api)", () =>
    Effect.gen(function* () {
      const { send, tokens } = yield* Admin
      const paths = [
        "/audit",
        "/announcements",
        "/announcements/undelivered",
        "/datasets",
        "/ingests",
        "/jobs",
        "/tokens",
      ]
        .concat(["account", "day", "endpoint"].map((group) => `/usage?from=2026-01-01&to=2026-12-31&group_by=${group}`))
      for (const path of paths) resultsOf((yield* send(path)).body)
      assert.deepInclude((yield* send("/settings", { token: tokens.read })).body, {
        price_per_gb_microdollars: 10_000_000,
      })
      const openapi = yield* send("/openapi.json", { token: "" })
      assert.deepInclude(openapi.body, { openapi: "3.1.0" })
    }))

  it.effect("prints every time at -05:00, every list with its count, and the common headers, for all endpoints (§1, §2.1, §9.1.2, D15)", () =>
    Effect.gen(function* () {
      const { send } = yield* Admin
      const sql = yield* SqlClient.SqlClient
      const account = yield* createCustomer("printed", { tier: "pro" })
      yield* Accounts.creditAccount({ name: "printed", microdollars: 1n, reference: null, mayBecomePrepaid: true })
      yield* sql`update accounts set created_at = '2026-05-01' where name = 'printed'`
      yield* closeMonth({ month: "2026-05", account: "printed", skipsEarlierUsage: false })
      yield* insertRows("historical_float_pro", makeReportedShares("PRINTED", "2026-01-02", "1"))
      const webhook = { account: "printed", url: "https://hooks.example/", events: null, datasets: null, tickers: null }
      const endpoint_id = Number((yield* createWebhookEndpoint(webhook)).endpoint_id)
      yield* sql`select enqueue_webhook_message(${endpoint_id}, 'key.created', '{}', null)`
      yield* sql`update api_keys set expires_at = '2030-07-01 00:00:00.25+00', last_used_at = now()
        where account_id = ${account.account_id}`
      yield* sql`insert into edgar_runs (scheduled, datasets, since, started_at) values (false, '{}', '2026-01-02', now())`
      const { account_id, key_id } = account
      const requested_at = Date.now()
      const request_id = makeRequestId(requested_at)
      const { makeBatch, write } = yield* makeRecordWriter
      yield* write(makeBatch([makeUsageRecord({ account_id, key_id, request_id, requested_at, status_code: 422 })]))
      const values: Readonly<Record<string, string>> = {
        "/v1/keys/:id": String(key_id),
        "/v1/webhooks/:id/messages": String(endpoint_id),
        name: "printed",
        dataset: "historical-float-pro",
        request_id,
      }
      const queries: Readonly<Record<string, string>> = { "/v1/usage": "?from=2026-01-01&to=2026-12-31" }
      const endpoints: Array<{ readonly method: string; readonly path: string }> = []
      HttpApi.reflect(AdminApi, {
        onGroup: () => undefined,
        onEndpoint: ({ endpoint }) => endpoints.push(endpoint),
      })
      const seen = new Set<string>()
      const check = (name: string, value: unknown): void => {
        if (Predicate.hasProperty(value, "results") && Array.isArray(value.results)) {
          const count = Predicate.hasProperty(value, "count") ? value.count : undefined
          assert.strictEqual(count, value.results.length, name)
          seen.add(value.results.length > 0 ? "filled list" : "empty list")
        }
        if (typeof value === "string" && /^\d{4}-\d{2}-\d{2}T\d{2}:/.test(value)) {
          assert.match(value, /^\S{19}(\.\d{3}|\.\d{6})?-05:00$/, name)
          assert.notMatch(value, /\.000-/, name)
          seen.add(name)
        } else if (Predicate.isObjectOrArray(value)) {
          for (const [key, part] of Object.entries(value)) {
            check(Number.isNaN(Number(key)) ? `${name} ${key}` : name, part)
          }
        }
      }
      // GET requests come first, because one of the writes erases the account.
      const isWrite = ({ method }: { readonly method: string }) => method === "GET" ? 0 : 1
      for (const { method, path } of endpoints.toSorted((a, b) => isWrite(a) - isWrite(b))) {
        const target = path.replace(/:(\w+)/g, (_, name: string) => values[path] ?? values[name] ?? "0")
        if (method !== "GET" && method !== "PATCH" && method !== "POST" && method !== "PUT") assert.fail(method)
        const sent = yield* send(target.slice(3) + (queries[path] ?? ""), {
          method,
          ...(method === "GET" ? {} : { body: { unknown: true } }),
          headers: { "x-request-id": "printed-1", "if-match": "*" },
          // Without a token id, this write would revoke the token that the other requests use.
          ...(path.startsWith("/v1/me/") && { token: "" }),
        })
        const name = `${method} ${path} ${sent.status}`
        assert.strictEqual(sent.headers.get("x-api-version"), "v1", name)
        assert.strictEqual(sent.headers.get("x-request-id"), "printed-1", name)
        assert.strictEqual(sent.headers.get("cache-control"), "no-store", name)
        assert.strictEqual(sent.headers.get("x-content-type-options"), "nosniff", name)
        if (method === "GET") assert.strictEqual(sent.status, 200, JSON.stringify(sent.body))
        else if (sent.status >= 400) assert.deepInclude(sent.body, { request_id: "printed-1" }, name)
        check(`${method} ${path}`, sent.body)
      }
      for (const path of ["keys", "accounts", "webhooks", "tokens", "audit", "ingests", "datasets", "loads"]) {
        assert.isTrue(Array.from(seen).some((name) => name.startsWith(`GET /v1/${path} `)), path)
      }
      assert.isTrue(seen.has("filled list"))
      assert.isTrue(seen.has("GET /v1/audit results after expires_at"))
    }))
})
