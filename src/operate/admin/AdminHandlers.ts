/**
 * Handlers of the admin API's endpoints. Accounts, tokens, and emails are changed with the same domain functions that
 * the commands use.
 */
import { Duration, Effect, Layer, Option, Predicate, type Schema, Struct } from "effect"
import { HttpApiBuilder, HttpApiSchema } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { eraseAccount, readErasurePreviewVersion, readErasureState } from "../../accounts/AccountErasure.ts"
import packageJson from "../../../package.json" with { type: "json" }
import * as Accounts from "../../accounts/Accounts.ts"
import { setBudget } from "../../accounts/billing/Budgets.ts"
import { listInvoices } from "../../accounts/billing/Invoices.ts"
import * as Keys from "../../accounts/keys/ApiKeyManagement.ts"
import { readAuditEntries } from "../../postgres/AuditLog.ts"
import { endpointsByDataset } from "../../api/catalogue/DatasetEndpoints.ts"
import { customerSettings } from "../../api/catalogue/PriceList.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { readPage } from "../../contract/rules/Cursors.ts"
import { formatTimeSql, makeTimeSql } from "../../contract/rules/Dates.ts"
import { listRecentChanges } from "../../ingest/load/UndoLoad.ts"
import { BaseUrlConfig } from "../../api/BaseUrl.ts"
import * as Announcements from "../../outbox/mail/Announcements.ts"
import { UnsubscribeAddressConfig } from "../../outbox/mail/MailSettings.ts"
import { computeEtag, matchesIfMatch } from "../../query/rows/Etag.ts"
import { makeFieldError, NotFound } from "../../contract/rules/ApiErrors.ts"
import * as Webhooks from "../../outbox/webhooks/WebhookEndpoints.ts"
import { CurrentAdmin, isScopeSufficient } from "./AdminAccess.ts"
import {
  Conflict,
  DatabaseUnavailable,
  InsufficientScope,
  PreconditionFailed,
  PreconditionRequired,
} from "./AdminErrors.ts"
import { withDatabaseErrors } from "./AdminRequests.ts"
import * as Tokens from "./AdminTokens.ts"
import { explainRequests } from "./RequestExplanation.ts"
import { readSlowStatements, readTraffic } from "./Traffic.ts"
import { AdminApi, type auditQueryParameters, DatasetState, IngestRun, JobState, UsageTotal } from "./AdminApi.ts"

interface DomainError {
  readonly message: string
}

const toNotFound = ({ message }: DomainError) => new NotFound({ error: { message } })

const toConflict = (code: Conflict["error"]["code"]) => ({ message }: DomainError) =>
  new Conflict({ error: { code, message } })

/** Converts each error of the domain functions to an error of the admin API, by tag. */
const adminErrors = {
  NoSuchAccount: toNotFound,
  NoSuchAdminToken: toNotFound,
  NoSuchEmail: toNotFound,
  NoSuchEndpoint: toNotFound,
  NoSuchKey: toNotFound,
  RequestNotFound: toNotFound,
  UnknownDataset: toNotFound,
  AccountErased: toConflict("account_erased"),
  AccountExists: toConflict("already_exists"),
  AccountIsPostpaid: toConflict("account_is_postpaid"),
  AdminTokenExists: toConflict("already_exists"),
  AlreadyCredited: toConflict("already_credited"),
  KeyAlreadyReplaced: toConflict("key_already_replaced"),
  KeyNotActive: toConflict("key_not_active"),
  AccountRequired: () => makeFieldError("account", "is required to search days, or for an id that a client has made"),
  DaysReversed: ({ message }: DomainError) => makeFieldError("from", message),
  UnannounceableEntry: ({ message }: DomainError) => makeFieldError("entry_ids", message),
  UsageSearchStopped: ({ message }: DomainError) => new DatabaseUnavailable({ error: { message } }),
}

type DomainTag = keyof typeof adminErrors

/**
 * The error that `E` is converted to: the result of the `adminErrors` entry for its tag, or `E` itself if there is no
 * entry.
 */
type AdminError<E> = E extends { readonly _tag: infer Tag extends DomainTag } ? ReturnType<typeof adminErrors[Tag]> : E

const isDomainError = (error: unknown): error is DomainError & { readonly _tag: DomainTag } =>
  Predicate.hasProperty(error, "_tag") && Predicate.isString(error._tag) && Object.hasOwn(adminErrors, error._tag)

/**
 * Converts an error of a domain function to an error of the admin API. The overload declares the return type, because
 * TypeScript cannot infer that the branches match `AdminError`.
 */
function toAdminError<E>(error: E): AdminError<E>
function toAdminError(error: unknown) {
  return isDomainError(error) ? adminErrors[error._tag](error) : error
}

/** Converts errors of the domain functions and of PostgreSQL to errors that the endpoint declares. */
const withAdminErrors = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  withDatabaseErrors(Effect.mapError(effect, toAdminError<E>))

const defaultPageSize = 100

/** Wraps the results in the list envelope (§1, envelope). */
const toList = <A>(results: ReadonlyArray<A>) => ({ count: results.length, results })

/**
 * Reads one page of a list, and converts its errors. `read` returns at most `limit` rows, and `id` is the name of their
 * ID column. In the result, `next` is the ID of the page's last row, which the client sends to get the next page. On
 * the last page, it is null.
 */
const listPage = <Id extends string, Value, Row extends Readonly<Record<Id, Value>>, E, R>(
  id: Id,
  limit = defaultPageSize,
  read: (limit: number) => Effect.Effect<ReadonlyArray<Row>, E, R>,
) =>
  withAdminErrors(
    Effect.map(readPage(limit, read), ({ last, rows }) => ({ ...toList(rows), next: last?.[id] ?? null })),
  )

/** Returns an ETag that changes whenever one of the fields changes. */
const computeEtagOf = (fields: ReadonlyArray<unknown>) => computeEtag(new TextEncoder().encode(JSON.stringify(fields)))

/**
 * Returns the account with an ETag, which covers only the fields that admins change. The other fields change with every
 * request that the customer sends.
 */
const withAccountEtag = (account: Accounts.Account) => {
  const { balance_microdollars, budget_microdollars, budget_stops, contact_email, name, news, tier } = account
  const isPrepaid = balance_microdollars !== null
  const fields = [name, tier, contact_email, news, isPrepaid, budget_microdollars, budget_stops]
  return HttpApiSchema.withHeaders({ body: account, headers: { etag: computeEtagOf(fields) } })
}

/**
 * Fails unless `If-Match` is `*` or contains the current ETag of the resource. `resource` is how the error message
 * refers to the resource, such as `account acme`.
 */
const requireMatch = Effect.fnUntraced(function* (expected: string | undefined, etag: string, resource: string) {
  if (expected === undefined) {
    return yield* new PreconditionRequired({
      error: { message: `Send If-Match with the ETag of the ${resource}, so that you overwrite no other change.` },
    })
  }
  if (matchesIfMatch(expected, etag)) return
  return yield* new PreconditionFailed({
    error: { message: `The ${resource} has changed since you read it. Read it again. Nothing was changed.` },
  })
})

/** Returns an account, and locks its row, so that no other change comes between the ETag check and the write. */
const findAndLockAccount = (name: string) => Accounts.findAccount(name, true)

/** Fails unless the admin may make the change. Changing the tier requires a higher scope than the endpoint does. */
const requireScopeForChange = Effect.fnUntraced(function* ({ tier }: { readonly tier?: unknown }) {
  const { scope } = yield* CurrentAdmin
  if (tier === undefined || isScopeSufficient(scope, "admin")) return
  return yield* new InsufficientScope({
    error: {
      message: `To change the tier, a token needs the scope admin; it has ${scope}.`,
      details: { required_scope: "admin", scope },
    },
  })
})

/**
 * The handlers of the endpoints for accounts. `change` locks the account, and makes the change only if `If-Match` has
 * the account's current ETag, so that it does not overwrite a change that the admin has not seen.
 */
const accountHandlers = HttpApiBuilder.group(AdminApi, "accounts", (handlers) =>
  handlers.handleAll({
    list: ({ query: { limit, ...selection } }) =>
      listPage("account_id", limit, (limit) => Accounts.listAccounts({ ...selection, limit })),
    create: ({ payload: { contact_email = null, name, prepaid = false, tier } }) =>
      Accounts.createAccount({ name, tier, email: contact_email, prepaid }).pipe(
        Effect.andThen(Effect.orDie(Accounts.findAccount(name))),
        Effect.map(withAccountEtag),
        withAdminErrors,
      ),
    find: ({ params: { name } }) => Accounts.findAccount(name).pipe(Effect.map(withAccountEtag), withAdminErrors),
    change: ({ headers, params: { name }, payload }) =>
      Effect.gen(function* () {
        yield* requireScopeForChange(payload)
        const { headers: { etag } } = withAccountEtag(yield* findAndLockAccount(name))
        yield* requireMatch(headers["if-match"], etag, `account ${name}`)
        if (Object.keys(payload).length > 0) yield* Accounts.updateAccount(name, payload)
        return withAccountEtag(yield* Accounts.findAccount(name))
      }).pipe(withAdminErrors),
    credits: ({ params: { name } }) => Accounts.listCredits(name).pipe(Effect.map(toList), withAdminErrors),
    invoices: ({ params: { name } }) => listInvoices(name).pipe(Effect.map(toList), withAdminErrors),
    credit: ({ params: { name }, payload: { amount_microdollars, becomes_prepaid = false, reference = null } }) =>
      Accounts.creditAccount({
        name,
        microdollars: BigInt(amount_microdollars),
        reference,
        mayBecomePrepaid: becomes_prepaid,
      }).pipe(
        Effect.map(({ balance, switched }) => ({ balance_microdollars: Number(balance), became_prepaid: switched })),
        withAdminErrors,
      ),
  }))

/**
 * The handler of the endpoint that sets or removes an account's monthly budget. It locks the account, and makes the
 * change only if `If-Match` has the account's current ETag.
 */
const budgetHandlers = HttpApiBuilder.group(AdminApi, "budgets", (handlers) =>
  handlers.handleAll({
    set: ({ headers, params: { name }, payload: { budget_microdollars, stops = false } }) =>
      findAndLockAccount(name).pipe(
        Effect.flatMap((account) =>
          requireMatch(headers["if-match"], withAccountEtag(account).headers.etag, `account ${name}`)
        ),
        Effect.andThen(
          setBudget(
            name,
            budget_microdollars === null ? null : { microdollars: BigInt(budget_microdollars), stops },
          ),
        ),
        Effect.andThen(Accounts.findAccount(name)),
        Effect.map(withAccountEtag),
        withAdminErrors,
      ),
  }))

/**
 * Returns an ETag that covers what an erasure of the account would change, except usage and webhook messages, which
 * change constantly. With `isLocked`, the account is locked until the transaction ends.
 */
const readErasureEtag = Effect.fnUntraced(function* (name: string, isLocked = false) {
  const { body: { account_id, erased_at }, headers } = withAccountEtag(yield* Accounts.findAccount(name, isLocked))
  return computeEtagOf([headers.etag, erased_at, yield* readErasurePreviewVersion(account_id)])
})

/**
 * The handlers of the endpoints for erasing an account. `preview` returns what would be erased, with an ETag. `erase`
 * requires this ETag in `If-Match`, so that a client erases only what it has seen.
 */
const erasureHandlers = HttpApiBuilder.group(AdminApi, "erasure", (handlers) =>
  handlers.handleAll({
    preview: ({ params: { name } }) =>
      // The ETag is read before the body. In the other order, a change between the two reads would be covered by the
      // ETag but missing from the body, and the client could erase what it has not seen.
      Effect.all({ etag: readErasureEtag(name), body: readErasureState(name) }).pipe(
        Effect.map(({ body, etag }) => HttpApiSchema.withHeaders({ body, headers: { etag } })),
        withAdminErrors,
      ),
    erase: ({ headers, params: { name } }) =>
      // `true` locks the account, so that nothing changes between the ETag check and the erasure.
      readErasureEtag(name, true).pipe(
        Effect.tap((etag) => requireMatch(headers["if-match"], etag, `account ${name}`)),
        Effect.andThen(eraseAccount(name)),
        Effect.map((account) => ({ account })),
        withAdminErrors,
      ),
  }))

/**
 * Returns the key with an ETag, which covers only the fields that admins change. The other fields change whenever the
 * key is used.
 */
const withKeyEtag = (key: Keys.ListedApiKey) => {
  const { endpoints, expires_at, key_id, name, networks, status } = key
  const etag = computeEtagOf([key_id, name, status, expires_at, endpoints, networks])
  return HttpApiSchema.withHeaders({ body: key, headers: { etag } })
}

/**
 * The handlers of the endpoints for API keys. Only `networks`, which replaces a list, requires the key's ETag in
 * `If-Match`.
 */
const keyHandlers = HttpApiBuilder.group(AdminApi, "keys", (handlers) =>
  handlers.handleAll({
    list: ({ query: { account = null, limit, unused_days, ...page } }) => {
      const filter = { account, unusedFor: unused_days === undefined ? null : Duration.days(unused_days) }
      return listPage("key_id", limit, (limit) => Keys.listApiKeys(filter, { ...page, limit }))
    },
    find: ({ params: { id } }) => Keys.findApiKey(id).pipe(Effect.map(withKeyEtag), withAdminErrors),
    create: ({ payload: { account, endpoints = null, expires = null, name = "default", networks = null } }) =>
      Keys.createApiKey({ account, name, expires, endpoints, networks }).pipe(withAdminErrors),
    rotate: ({ params: { id }, payload: { grace_seconds } }) =>
      withAdminErrors(Keys.rotateApiKey(id, Duration.seconds(grace_seconds))),
    networks: ({ headers, params: { id }, payload: { networks } }) =>
      // `true` locks the key, so that nothing changes between the ETag check and the write.
      withAdminErrors(Keys.findApiKey(id, true)).pipe(
        Effect.flatMap((key) => requireMatch(headers["if-match"], withKeyEtag(key).headers.etag, `key ${id}`)),
        Effect.andThen(withAdminErrors(Keys.setApiKeyNetworks(id, networks))),
      ),
    disable: ({ params: { id } }) => withAdminErrors(Keys.disableApiKey(id)),
    enable: ({ params: { id } }) => withAdminErrors(Keys.enableApiKey(id)),
    revoke: ({ params: { id } }) => Keys.revokeApiKey(id).pipe(withAdminErrors),
  }))

/** The column that a usage query returns for each value of `group_by`, as an SQL expression. */
const usageGroups = {
  account: "accounts.name as account",
  day: "usage_date::text as day",
  endpoint: "endpoint",
}

/**
 * The handlers of the endpoints for recorded usage. `totals` returns one row per account, day, or endpoint, as
 * `group_by` says. Days are in chronological order; accounts and endpoints are ordered by cost, highest first.
 * `account` restricts the totals to one account. `explain` describes the requests that had a given request ID.
 */
const usageHandlers = HttpApiBuilder.group(AdminApi, "usage", (handlers) =>
  handlers.handleAll({
    totals: Effect.fnUntraced(function* ({ query: { account, from, group_by = "account", to } }) {
      const sql = yield* SqlClient.SqlClient
      const results = yield* decodeRows(UsageTotal)(sql`
        select ${sql.literal(usageGroups[group_by])}, sum(requests)::float8 as requests, sum(errors)::float8 as errors,
          sum(bytes)::float8 as bytes, sum(cost_microdollars)::float8 as cost_microdollars
        from usage_totals left join accounts using (account_id)
        where usage_date between ${from}::text::date and ${to}::text::date
          and (${account ?? null}::text is null or accounts.name = ${account ?? null})
        -- 1 is the column that the totals are grouped by.
        group by 1 order by ${sql.literal(group_by === "day" ? "1" : "cost_microdollars desc, 1")}
      `)
      return toList(results)
    }, withAdminErrors),
    explain: ({ params: { request_id }, query }) =>
      explainRequests({ id: request_id, ...query }).pipe(
        Effect.map(({ requests, searchedBackTo = null }) => ({
          ...toList(requests),
          searched_back_to: searchedBackTo,
        })),
        withAdminErrors,
      ),
  }))

const trafficHandlers = HttpApiBuilder.group(AdminApi, "traffic", (handlers) =>
  handlers.handleAll({
    recent: () => withAdminErrors(readTraffic),
    statements: () => withAdminErrors(readSlowStatements),
  }))

/**
 * Reads one page of the audit log, oldest change first. The log can be paged in both directions. With `after`, or with
 * only a start time, the page begins with the oldest matching change, and `next` leads to newer ones. Otherwise, the
 * page ends with the newest matching change before `before`, and `previous` leads to older ones.
 */
const readAuditPage = ({ after, before, limit, ...filter }: Schema.Struct.Type<typeof auditQueryParameters>) => {
  const isForwards = before === undefined && (after !== undefined || filter.since !== undefined)
  const range = isForwards ? { after: after ?? 0 } : { before }
  return Effect.map(
    listPage("audit_id", limit, (limit) => readAuditEntries(filter, { ...range, limit })),
    ({ count, next, results }) =>
      isForwards
        ? { count, results, next, previous: null }
        // Backward pages are read newest first, so their last row is the oldest, and `previous` continues from it.
        : { count, results: results.toReversed(), next: null, previous: next },
  )
}

/**
 * The handlers of the endpoints about the service itself: the audit log, the size and age of the datasets, the newest
 * runs of the SEC ingest, the background jobs, and the settings that concern customers.
 */
const operationsHandlers = HttpApiBuilder.group(AdminApi, "operations", (handlers) =>
  handlers.handleAll({
    audit: ({ query }) => readAuditPage(query),
    datasets: Effect.fnUntraced(function* () {
      const sql = yield* SqlClient.SqlClient
      const names = JSON.stringify(endpointsByDataset.map(({ dataset }) => dataset))
      const results = yield* decodeRows(DatasetState)(sql`
        -- reltuples is PostgreSQL's estimate of the row count. It is -1 if the table was never analyzed.
        select dataset, greatest(reltuples, 0)::float8 as rows, (
            select ${sql.literal(formatTimeSql("max(changed_at)"))}
            from dataset_versions where dataset_versions.dataset = known.dataset
          ) as changed_at
        from jsonb_array_elements_text(${names}::text::jsonb) as known (dataset)
        join pg_class on pg_class.oid = to_regclass('public.' || dataset)
        order by dataset collate "C"
      `)
      return toList(results)
    }, withAdminErrors),
    ingests: Effect.fnUntraced(function* () {
      const sql = yield* SqlClient.SqlClient
      const results = yield* decodeRows(IngestRun)(sql`
        select run_id::float8, scheduled, status, error, documents::float8, rows::float8, rejections::float8,
          ${sql.literal(["started_at", "finished_at"].map(makeTimeSql).join(", "))}
        from edgar_runs order by run_id desc limit 100
      `)
      return toList(results)
    }, withAdminErrors),
    jobs: Effect.fnUntraced(function* () {
      const sql = yield* SqlClient.SqlClient
      const results = yield* decodeRows(JobState)(sql`
        -- The process that runs a job holds its lease, and extends "until" while it does.
        select name, coalesce(until > now(), false) as is_held from leases order by name
      `)
      return toList(results)
    }, withAdminErrors),
    settings: () => Effect.orDie(customerSettings),
  }))

const loadHandlers = HttpApiBuilder.group(AdminApi, "loads", (handlers) =>
  handlers.handleAll({
    list: ({ query: { limit = defaultPageSize } }) =>
      readAuditEntries({ subject_type: "dataset" }, { limit }).pipe(Effect.map(toList), withAdminErrors),
    changes: ({ params: { dataset }, query: { limit = defaultPageSize } }) =>
      listRecentChanges(dataset, limit).pipe(Effect.map(toList), withAdminErrors),
  }))

/** The handlers of the endpoints for customers' webhook endpoints and the messages that were sent to them. */
const webhookHandlers = HttpApiBuilder.group(AdminApi, "webhooks", (handlers) =>
  handlers.handleAll({
    list: ({ query: { limit, ...page } }) =>
      listPage("endpoint_id", limit, (limit) => Webhooks.listWebhookEndpoints({ ...page, limit })),
    messages: ({ params: { id }, query: { limit = defaultPageSize, status } }) =>
      Webhooks.listWebhookDeliveries(id, { limit, status: Option.fromUndefinedOr(status) }).pipe(
        Effect.map(toList),
        withAdminErrors,
      ),
    disable: ({ params: { id }, payload: { reason } }) => withAdminErrors(Webhooks.disableWebhookEndpoint(id, reason)),
    enable: ({ params: { id } }) => withAdminErrors(Webhooks.enableWebhookEndpoint(id)),
    replay: ({ payload: { endpoint_id, include_delivered = false, message_id, since } }) =>
      withAdminErrors(Webhooks.replayWebhookMessages({
        messageId: Option.fromUndefinedOr(message_id),
        endpointId: Option.fromUndefinedOr(endpoint_id),
        since: Option.fromUndefinedOr(since),
        includeDelivered: include_delivered,
      })),
  }))

/**
 * The handlers of the endpoints for announcements: emails to customers about entries of the changelog. `announce`
 * queues them, or with `dry_run` only counts them. `undelivered` lists the emails that were not delivered, and `retry`
 * queues them again.
 */
const announcementHandlers = HttpApiBuilder.group(AdminApi, "announcements", (handlers) =>
  handlers.handleAll({
    progress: () => withAdminErrors(Effect.map(Announcements.readAnnouncementProgress, toList)),
    announce: Effect.fnUntraced(
      function* ({ payload: { dry_run = false, entry_ids = [], include_new_accounts = false } }) {
        const announcements = yield* Announcements.queueAnnouncements({
          entryIds: entry_ids,
          version: packageJson.version,
          includeNewAccounts: include_new_accounts,
          isDryRun: dry_run,
          baseUrl: yield* Effect.orDie(BaseUrlConfig),
          unsubscribeAddress: yield* Effect.orDie(UnsubscribeAddressConfig),
        })
        // Only counts are returned: the response to a write with an `Idempotency-Key` is stored, and email addresses
        // must not be.
        const results = announcements.map(({ email, selection }) => ({
          entry_id: selection.entry.id,
          subject: email.subject,
          emails: selection.recipients.length,
          queued_before: selection.alreadyQueued,
          opted_out: selection.optedOut,
          invalid_addresses: selection.invalidAddresses.length,
        }))
        return toList(results)
      },
      withAdminErrors,
    ),
    undelivered: ({ query: { after, limit } }) =>
      Effect.all({
        page: listPage("mail_id", limit, (limit) => Announcements.readUndeliveredEmails({ after, limit })),
        total: withAdminErrors(Announcements.countUndeliveredEmails),
      }).pipe(Effect.map(({ page, total }) => ({ ...page, total }))),
    retry: ({ payload: { entry_id, status } }) =>
      Announcements.requeueUndeliveredEmails(status, Option.fromUndefinedOr(entry_id)).pipe(
        Effect.map((queued) => ({ queued })),
        withAdminErrors,
      ),
  }))

/** The handlers of the endpoints for admin tokens: the caller's own (`me`, `signOut`), and those of all admins. */
const tokenHandlers = HttpApiBuilder.group(AdminApi, "tokens", (handlers) =>
  handlers.handleAll({
    // `opened_with` is internal: the response schema does not have it.
    me: () => Effect.map(CurrentAdmin, Struct.omit(["opened_with"])),
    signOut: Effect.fnUntraced(function* () {
      const { token_id } = yield* CurrentAdmin
      yield* Tokens.revokeAdminToken(token_id).pipe(Effect.catchTag("NoSuchAdminToken", Effect.die))
    }, withAdminErrors),
    list: ({ query: { limit, usable, ...page } }) => {
      const filter = { ...page, ...(usable !== undefined && { isUsable: usable === "true" }) }
      return listPage("token_id", limit, (limit) => Tokens.listAdminTokens({ ...filter, limit }))
    },
    create: ({ payload: { expires = null, name, scope } }) =>
      Effect.flatMap(CurrentAdmin, (admin) => Tokens.createAdminToken({ name, scope, expires, created_by: admin.name }))
        .pipe(Effect.map((token) => ({ token })), withAdminErrors),
    revoke: ({ params: { id } }) => Tokens.revokeAdminToken(id).pipe(withAdminErrors),
  }))

/** The handlers of all admin API endpoints. */
export const adminHandlersLayer = Layer.mergeAll(
  accountHandlers,
  budgetHandlers,
  erasureHandlers,
  keyHandlers,
  usageHandlers,
  trafficHandlers,
  operationsHandlers,
  loadHandlers,
  webhookHandlers,
  announcementHandlers,
  tokenHandlers,
)
