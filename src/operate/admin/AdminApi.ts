/** The contract of the admin API (docs/operations/admin-api.md). */
import { Context, Schema, Struct } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { ErasureState } from "../../accounts/AccountErasure.ts"
import { Account, Credit } from "../../accounts/Accounts.ts"
import { Invoice } from "../../accounts/billing/Invoices.ts"
import { EmailAddress } from "../../contract/EmailAddress.ts"
import { NewAccountName, TrimmedName } from "../../accounts/TrimmedName.ts"
import { ExpiryDate } from "../../accounts/keys/ExpiryDate.ts"
import { ListedApiKey, maxNetworksPerKey, Network } from "../../accounts/keys/ApiKeyManagement.ts"
import { RequestId } from "../../accounts/billing/UsageSearch.ts"
import { AuditRow, auditSubjectTypes, AuditTime } from "../../postgres/AuditLog.ts"
import { AnnouncementProgress, requeueableEmailStatuses, UndeliveredEmail } from "../../outbox/mail/Announcements.ts"
import { keyEndpointPaths } from "../../api/catalogue/Endpoints.ts"
import { CustomerSettings } from "../../api/catalogue/PriceList.ts"
import { CalendarDate, PrintedTime } from "../../contract/rules/Dates.ts"
import { Tier } from "../../contract/rules/EndpointAnnotations.ts"
import { NotFound, ValidationError } from "../../contract/rules/ApiErrors.ts"
import { ListedWebhookEndpoint, ListedWebhookMessage, messageStatuses } from "../../outbox/webhooks/WebhookEndpoints.ts"
import { AdminAccess, AdminTransaction, RequiredScope } from "./AdminAccess.ts"
import { AdminScope, Conflict, InsufficientScope, PreconditionFailed, PreconditionRequired } from "./AdminErrors.ts"
import { AdminToken } from "./AdminTokens.ts"
import { ExplainedRequest } from "./RequestExplanation.ts"
import { SlowStatement, slowStatementFields, Traffic } from "./Traffic.ts"

/** Returns the fields that every list response has (§1, envelope). */
const envelopeOf = <A extends Schema.Top>(row: A) => ({
  count: Schema.Int.annotate({ description: "The length of `results`." }),
  results: Schema.Array(row),
})

const listOf = <A extends Schema.Top>(row: A) => Schema.Struct(envelopeOf(row))

/**
 * Returns the schema for one page of a list. To get the next page, send `next` as the `after` parameter. `next` is null
 * on the last page.
 */
const pageOf = <A extends Schema.Top>(row: A) => Schema.Struct({ ...envelopeOf(row), next: Schema.NullOr(Schema.Int) })

/**
 * Returns the schema for a parameter whose text is a whole number from `minimum` to `maximum`. Any invalid value, such
 * as `1.5` or `x`, produces the same error message.
 */
const makeIntegerText = (minimum: number, maximum: number) =>
  Schema.String.check(
    Schema.makeFilter(
      (text: string) => /^\d{1,15}$/.test(text) && Number(text) >= minimum && Number(text) <= maximum,
      { message: `must be a whole number from ${minimum} to ${maximum}` },
    ),
  ).pipe(Schema.decodeTo(Schema.FiniteFromString))

const IntegerText = makeIntegerText(0, 999_999_999_999_999)

const paging = {
  after: Schema.optionalKey(IntegerText),
  limit: Schema.optionalKey(makeIntegerText(1, 1_000)),
}

/**
 * The request counts and costs of one account, day, or endpoint, depending on what the query groups by. Only the field
 * that the query groups by is present.
 */
export const UsageTotal = Schema.Struct({
  account: Schema.optionalKey(Schema.NullOr(Schema.String)),
  day: Schema.optionalKey(Schema.String),
  endpoint: Schema.optionalKey(Schema.String),
  requests: Schema.Int,
  errors: Schema.Int,
  bytes: Schema.Int,
  cost_microdollars: Schema.Int,
}).annotate({ identifier: "UsageTotal" })

/** A dataset, as returned by the admin API. */
export const DatasetState = Schema.Struct({
  dataset: Schema.String,
  changed_at: Schema.NullOr(PrintedTime).annotate({ description: "Null: never." }),
  rows: Schema.Int.annotate({ description: "PostgreSQL's estimate." }),
}).annotate({ identifier: "DatasetState" })

/** An ingest run, as returned by the admin API. */
export const IngestRun = Schema.Struct({
  run_id: Schema.Int,
  scheduled: Schema.Boolean,
  status: Schema.Literals(["running", "succeeded", "failed", "interrupted"]),
  error: Schema.NullOr(Schema.String),
  started_at: PrintedTime,
  finished_at: Schema.NullOr(PrintedTime),
  documents: Schema.Int,
  rows: Schema.Int,
  rejections: Schema.Int,
}).annotate({ identifier: "IngestRun" })

/** A background job, and whether a process of the service is currently running it. */
export const JobState = Schema.Struct({
  name: Schema.String,
  is_held: Schema.Boolean.annotate({ description: "Whether a process runs the job." }),
}).annotate({ identifier: "JobState" })

const withEtag = <A extends Schema.Top>(body: A) => HttpApiSchema.WithHeaders(body, { etag: Schema.String })

const writeHeaders = { "idempotency-key": Schema.optionalKey(Schema.String) }

const describe = (summary: string, scope: AdminScope) =>
  Context.add(OpenApi.annotations({ summary }), RequiredScope, scope)

const parseOptions = { onExcessProperty: "error", errors: "all" } as const

/** One billion US dollars, in microdollars. The command line has the same limit. */
const maxCredit = 1_000_000_000_000_000

const AccountFields = {
  tier: Tier,
  contact_email: Schema.NullOr(EmailAddress),
  news: Schema.Boolean,
}

/** The query parameters for listing accounts. The console decodes its own query string with this schema too. */
export const accountListQuery = { ...paging, search: Schema.optionalKey(Schema.String) }

/** Endpoints for accounts. */
export class AdminAccountsApiGroup extends HttpApiGroup.make("accounts").add(
  HttpApiEndpoint.get("list", "/accounts", {
    query: accountListQuery,
    success: pageOf(Account),
  }).annotateMerge(describe("Accounts, oldest first; `search` finds names and email addresses", "read")),
  HttpApiEndpoint.post("create", "/accounts", {
    headers: writeHeaders,
    payload: Schema.Struct({
      name: NewAccountName,
      tier: Tier,
      contact_email: Schema.optionalKey(Schema.NullOr(EmailAddress)),
      prepaid: Schema.optionalKey(Schema.Boolean),
    }),
    success: withEtag(Account.pipe(HttpApiSchema.status(201))),
    error: Conflict,
  }).annotateMerge(describe("Create an account", "admin")),
  HttpApiEndpoint.get("find", "/accounts/:name", {
    params: { name: Schema.String },
    success: withEtag(Account),
    error: NotFound,
  }).annotateMerge(describe("An account", "read")),
  HttpApiEndpoint.patch("change", "/accounts/:name", {
    params: { name: Schema.String },
    headers: { ...writeHeaders, "if-match": Schema.optionalKey(Schema.String) },
    payload: Schema.Struct(AccountFields).mapFields(Struct.map(Schema.optionalKey)),
    success: withEtag(Account),
    error: [NotFound, Conflict, InsufficientScope, PreconditionFailed, PreconditionRequired],
  }).annotateMerge(
    describe("Change the contact address or news preference (`support`), or the tier (`admin`)", "support"),
  ),
  HttpApiEndpoint.get("credits", "/accounts/:name/credits", {
    params: { name: Schema.String },
    success: listOf(Credit),
    error: NotFound,
  }).annotateMerge(describe("Credits of an account, newest first", "read")),
  HttpApiEndpoint.get("invoices", "/accounts/:name/invoices", {
    params: { name: Schema.String },
    success: listOf(Invoice),
    error: NotFound,
  }).annotateMerge(describe("Invoices of an account, newest first", "read")),
  HttpApiEndpoint.post("credit", "/accounts/:name/credits", {
    params: { name: Schema.String },
    headers: writeHeaders,
    payload: Schema.Struct({
      amount_microdollars: Schema.Int.check(
        Schema.isBetween({ minimum: -maxCredit, maximum: maxCredit }),
        Schema.makeFilter((amount: number) => amount !== 0, { message: "must not be 0" }),
      ),
      reference: Schema.optionalKey(TrimmedName).annotate({
        description: "Identifies the payment, which is credited once per account.",
      }),
      becomes_prepaid: Schema.optionalKey(Schema.Boolean).annotate({
        description: "Required for a postpaid account: the credit makes it prepaid.",
      }),
    }),
    success: Schema.Struct({ balance_microdollars: Schema.Finite, became_prepaid: Schema.Boolean }).pipe(
      HttpApiSchema.status(201),
    ),
    error: [NotFound, Conflict],
  }).annotateMerge(describe("Add to the balance; a negative amount subtracts", "admin")),
) {}

/** Endpoints for erasing an account's data. */
export class AdminErasureApiGroup extends HttpApiGroup.make("erasure").add(
  HttpApiEndpoint.get("preview", "/accounts/:name/erasure", {
    params: { name: Schema.String },
    success: withEtag(ErasureState),
    error: NotFound,
  }).annotateMerge(describe("What erasing an account would change, or has left to do", "read")),
  HttpApiEndpoint.post("erase", "/accounts/:name/erase", {
    params: { name: Schema.String },
    headers: { ...writeHeaders, "if-match": Schema.optionalKey(Schema.String) },
    success: Schema.Struct({
      account: Schema.String.annotate({ description: "The new name of the account." }),
    }).pipe(HttpApiSchema.status(202)),
    error: [NotFound, PreconditionFailed, PreconditionRequired],
  }).annotateMerge(
    describe(
      "Erase what identifies an account. A job erases its usage afterwards; `erasure` shows its progress",
      "admin",
    ),
  ),
) {}

/** Endpoints for budgets and credits. */
export class AdminBudgetsApiGroup extends HttpApiGroup.make("budgets").add(
  HttpApiEndpoint.put("set", "/accounts/:name/budget", {
    params: { name: Schema.String },
    headers: { ...writeHeaders, "if-match": Schema.optionalKey(Schema.String) },
    payload: Schema.Struct({
      budget_microdollars: Schema.NullOr(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: maxCredit })))
        .annotate({
          description: "Budget per month in New York. Null removes it.",
        }),
      stops: Schema.optionalKey(Schema.Boolean).annotate({
        description: "Whether requests for data get 402 once the budget is used up. Default: false.",
      }),
    }).check(Schema.makeFilter(({ budget_microdollars, stops }) =>
      budget_microdollars !== null || stops !== true ||
      { path: ["stops"], issue: "needs budget_microdollars" }
    )),
    success: withEtag(Account),
    error: [NotFound, Conflict, PreconditionFailed, PreconditionRequired],
  }).annotateMerge(describe("Set or remove the monthly budget of an account", "admin")),
) {}

const keyPath = { params: { id: IntegerText }, headers: writeHeaders }

const CreatedKey = Schema.Struct({
  key_id: Schema.Int,
  key: Schema.NullOr(Schema.String).annotate({
    description: "The key, which is shown only once. Null if the request was repeated.",
  }),
}).pipe(HttpApiSchema.status(201))

const keyNetworks = Schema.NullOr(
  Schema.NonEmptyArray(Network).check(Schema.isMaxLength(maxNetworksPerKey)),
).annotate({ description: "Networks from which the key may be used, such as `10.0.0.0/8`. Null: from everywhere." })

/** The query parameters for listing keys. The console decodes its own query string with this schema too. */
export const keyListQuery = {
  ...paging,
  account: Schema.optionalKey(Schema.String),
  unused_days: Schema.optionalKey(makeIntegerText(1, 36_500)),
}

/** Endpoints for API keys. */
export class AdminKeysApiGroup extends HttpApiGroup.make("keys").add(
  HttpApiEndpoint.get("list", "/keys", {
    query: keyListQuery,
    success: pageOf(ListedApiKey),
    error: NotFound,
  }).annotateMerge(
    describe("API keys, newest first; `unused_days` selects usable keys that were not used for so long", "read"),
  ),
  HttpApiEndpoint.get("find", "/keys/:id", {
    params: { id: IntegerText },
    success: withEtag(ListedApiKey),
    error: NotFound,
  }).annotateMerge(describe("An API key", "read")),
  HttpApiEndpoint.post("create", "/keys", {
    headers: writeHeaders,
    payload: Schema.Struct({
      account: TrimmedName,
      name: Schema.optionalKey(TrimmedName),
      expires: Schema.optionalKey(Schema.NullOr(ExpiryDate)).annotate({
        description: "The last day on which the key works, in New York.",
      }),
      endpoints: Schema.optionalKey(Schema.NullOr(Schema.NonEmptyArray(Schema.Literals(keyEndpointPaths)))),
      networks: Schema.optionalKey(keyNetworks),
    }),
    success: CreatedKey,
    error: [NotFound, Conflict],
  }).annotateMerge(describe("Create an API key for an account", "support")),
  HttpApiEndpoint.post("rotate", "/keys/:id/rotate", {
    ...keyPath,
    payload: Schema.Struct({
      grace_seconds: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 31_536_000 })).annotate({
        description: "How long the old key continues to work.",
      }),
    }),
    success: CreatedKey,
    error: [NotFound, Conflict],
  }).annotateMerge(describe("Replace an API key with a new one", "support")),
  HttpApiEndpoint.post("networks", "/keys/:id/networks", {
    ...keyPath,
    headers: { ...writeHeaders, "if-match": Schema.optionalKey(Schema.String) },
    payload: Schema.Struct({ networks: keyNetworks }),
    success: HttpApiSchema.NoContent,
    error: [NotFound, Conflict, PreconditionFailed, PreconditionRequired],
  }).annotateMerge(describe("Replace the networks from which an API key may be used", "support")),
  HttpApiEndpoint.post("disable", "/keys/:id/disable", {
    ...keyPath,
    success: HttpApiSchema.NoContent,
    error: [NotFound, Conflict],
  }).annotateMerge(describe("Disable an API key until it is enabled again", "support")),
  HttpApiEndpoint.post("enable", "/keys/:id/enable", {
    ...keyPath,
    success: HttpApiSchema.NoContent,
    error: [NotFound, Conflict],
  }).annotateMerge(describe("Enable a disabled API key", "support")),
  HttpApiEndpoint.post("revoke", "/keys/:id/revoke", {
    ...keyPath,
    success: HttpApiSchema.NoContent,
    error: NotFound,
  }).annotateMerge(describe("Revoke an API key permanently", "support")),
) {}

/** The path parameters for explaining a request. */
export const explainRequestPathParameters = { request_id: RequestId }

/** The query parameters for explaining a request. */
export const explainRequestQueryParameters = {
  account: Schema.optionalKey(Schema.String),
  from: Schema.optionalKey(CalendarDate),
  to: Schema.optionalKey(CalendarDate),
}

/** Endpoints for recorded usage. */
export class AdminUsageApiGroup extends HttpApiGroup.make("usage").add(
  HttpApiEndpoint.get("totals", "/usage", {
    query: {
      from: CalendarDate,
      to: CalendarDate,
      account: Schema.optionalKey(Schema.String),
      group_by: Schema.optionalKey(Schema.Literals(["account", "day", "endpoint"])),
    },
    success: listOf(UsageTotal),
  }).annotateMerge(
    describe("Usage of all accounts between two days (New York, inclusive), by account, day or endpoint", "read"),
  ),
  HttpApiEndpoint.get("explain", "/usage/:request_id", {
    params: explainRequestPathParameters,
    query: explainRequestQueryParameters,
    success: Schema.Struct({
      ...envelopeOf(ExplainedRequest),
      searched_back_to: Schema.NullOr(Schema.String).annotate({
        description: "If the search took too long: the first day that it has searched. Null: it has searched all.",
      }),
    }),
    error: NotFound,
  }).annotateMerge(
    describe(
      "The requests with an id, newest first, at most 20. An id that a client has made needs `account`, whose usage " +
        "is searched from `from` to `to` (New York, inclusive)",
      "read",
    ),
  ),
) {}

/** Endpoints for the current customer traffic. */
export class AdminTrafficApiGroup extends HttpApiGroup.make("traffic").add(
  HttpApiEndpoint.get("recent", "/traffic", { success: Traffic }).annotateMerge(
    describe("Requests and errors of all accounts within the last 15 minutes, by endpoint", "read"),
  ),
  HttpApiEndpoint.get("statements", "/statements", {
    success: Schema.Struct({ ...envelopeOf(SlowStatement), ...slowStatementFields }),
  }).annotateMerge(
    describe("The slowest statements of this database, if PostgreSQL has `pg_stat_statements`", "read"),
  ),
) {}

const RecordedChanges = Schema.Struct({
  recorded_at: PrintedTime,
  before: Schema.String.annotate({
    description: "The last moment before the change, to which `undo-load` can return.",
  }),
  added: Schema.Int,
  corrected: Schema.Int,
  removed: Schema.Int,
}).annotate({ identifier: "RecordedChanges" })

/** Endpoints for dataset loads. */
export class AdminLoadsApiGroup extends HttpApiGroup.make("loads").add(
  HttpApiEndpoint.get("list", "/loads", { query: { limit: paging.limit }, success: listOf(AuditRow) }).annotateMerge(
    describe("The last transactions that changed datasets, such as loads and ingests, newest first", "read"),
  ),
  HttpApiEndpoint.get("changes", "/datasets/:dataset/changes", {
    params: { dataset: Schema.String },
    query: { limit: paging.limit },
    success: listOf(RecordedChanges),
    error: NotFound,
  }).annotateMerge(
    describe("How many rows the last changes of a dataset added, corrected and removed, newest first", "read"),
  ),
) {}

/** The query parameters for reading the audit log. The console decodes its own query string with this schema too. */
export const auditQueryParameters = {
  ...paging,
  before: Schema.optionalKey(IntegerText),
  since: Schema.optionalKey(AuditTime),
  until: Schema.optionalKey(AuditTime),
  actor: Schema.optionalKey(Schema.String),
  account: Schema.optionalKey(Schema.String),
  subject_type: Schema.optionalKey(Schema.Literals(auditSubjectTypes)),
  subject: Schema.optionalKey(Schema.String),
}

/** Endpoints for operating the service: audit log, datasets, ingest runs, and jobs. */
export class AdminOperationsApiGroup extends HttpApiGroup.make("operations").add(
  HttpApiEndpoint.get("audit", "/audit", {
    query: auditQueryParameters,
    success: pageOf(AuditRow).pipe(Schema.fieldsAssign({
      previous: Schema.NullOr(Schema.Int).annotate({
        description: "The value of `before` for the changes before these. Null if there are none, or with `after`.",
      }),
    })),
  }).annotateMerge(
    describe(
      "The audit log, oldest change first; without `after` and `since` the newest changes, or those before `before`",
      "read",
    ),
  ),
  HttpApiEndpoint.get("datasets", "/datasets", { success: listOf(DatasetState) }).annotateMerge(
    describe("Datasets with their last change", "read"),
  ),
  HttpApiEndpoint.get("ingests", "/ingests", { success: listOf(IngestRun) }).annotateMerge(
    describe("The last 100 runs of `ingest edgar`, newest first", "read"),
  ),
  HttpApiEndpoint.get("jobs", "/jobs", { success: listOf(JobState) }).annotateMerge(
    describe("Background jobs, and whether a process runs them", "read"),
  ),
  HttpApiEndpoint.get("settings", "/settings", { success: CustomerSettings }).annotateMerge(
    describe("Prices and rate limits of this process", "read"),
  ),
) {}

const webhookPath = { params: { id: IntegerText }, headers: writeHeaders }

/** The query parameters for listing webhook endpoints. */
export const webhookListQuery = paging

/** Endpoints for customers' webhooks. */
export class AdminWebhooksApiGroup extends HttpApiGroup.make("webhooks").add(
  HttpApiEndpoint.get("list", "/webhooks", {
    query: webhookListQuery,
    success: pageOf(ListedWebhookEndpoint),
  }).annotateMerge(
    describe("Webhook endpoints of all accounts, oldest first", "read"),
  ),
  HttpApiEndpoint.get("messages", "/webhooks/:id/messages", {
    params: { id: IntegerText },
    query: {
      status: Schema.optionalKey(Schema.Literals(messageStatuses)),
      limit: paging.limit,
    },
    success: listOf(ListedWebhookMessage),
    error: NotFound,
  }).annotateMerge(describe("Messages of a webhook endpoint, newest first; `status=dead` lists dead letters", "read")),
  HttpApiEndpoint.post("disable", "/webhooks/:id/disable", {
    ...webhookPath,
    payload: Schema.Struct({ reason: TrimmedName }),
    success: HttpApiSchema.NoContent,
    error: NotFound,
  }).annotateMerge(describe("Send nothing to a webhook endpoint until it is enabled again", "support")),
  HttpApiEndpoint.post("enable", "/webhooks/:id/enable", {
    ...webhookPath,
    success: HttpApiSchema.NoContent,
    error: NotFound,
  }).annotateMerge(
    describe("Enable a webhook endpoint, and send its waiting messages without further delay", "support"),
  ),
  HttpApiEndpoint.post("replay", "/webhooks/replay", {
    headers: writeHeaders,
    payload: Schema.Struct({
      message_id: Schema.optionalKey(Schema.String),
      endpoint_id: Schema.optionalKey(Schema.Int),
      since: Schema.optionalKey(AuditTime).annotate({ description: "Only messages of events since this time." }),
      include_delivered: Schema.optionalKey(Schema.Boolean).annotate({
        description: "Also messages that the receiver accepted.",
      }),
    }).check(Schema.makeFilter(
      ({ endpoint_id, message_id, since }) => (endpoint_id ?? message_id ?? since) !== undefined,
      { message: "must select messages by message_id, endpoint_id or since" },
    )),
    success: Schema.Struct({
      replayed: Schema.Int,
      found: Schema.Int.annotate({ description: "More than `replayed` if some did not fit; then repeat it later." }),
    }),
  }).annotateMerge(describe("Send dead letters again, with the same ids; all given conditions must hold", "support")),
) {}

/** The query parameters for listing undelivered emails. */
export const undeliveredEmailsQueryParameters = {
  after: Schema.optionalKey(Schema.String.check(Schema.isUUID())).annotate({ description: "`next` of a page." }),
  limit: paging.limit,
}

/** Endpoints for announcement emails, which tell customers about changes. */
export class AdminAnnouncementsApiGroup extends HttpApiGroup.make("announcements").add(
  HttpApiEndpoint.get("progress", "/announcements", { success: listOf(AnnouncementProgress) }).annotateMerge(
    describe("Announced changelog entries, with the number of their emails by status", "read"),
  ),
  HttpApiEndpoint.post("announce", "/announcements", {
    headers: writeHeaders,
    payload: Schema.Struct({
      entry_ids: Schema.optionalKey(Schema.NonEmptyArray(Schema.String)).annotate({
        description: "Changelog entries.",
      }),
      all: Schema.optionalKey(Schema.Literal(true)).annotate({
        description: "Instead of `entry_ids`: all entries that customers get by email.",
      }),
      include_new_accounts: Schema.optionalKey(Schema.Boolean).annotate({
        description: "Also accounts that were created after the day of the entry.",
      }),
      dry_run: Schema.optionalKey(Schema.Boolean).annotate({ description: "Count the emails, and queue none." }),
    }).check(Schema.makeFilter(
      ({ all, entry_ids }) => (all === undefined) !== (entry_ids === undefined),
      { message: "must have either entry_ids, or all: true for everything that is due" },
    )),
    success: listOf(Schema.Struct({
      entry_id: Schema.String,
      subject: Schema.String,
      emails: Schema.Int.annotate({ description: "Emails that are queued, or would be." }),
      queued_before: Schema.Int,
      opted_out: Schema.Int,
      invalid_addresses: Schema.Int,
    })),
    error: ValidationError,
  }).annotateMerge(describe("Queue emails about changelog entries; nobody gets an entry twice", "admin")),
  HttpApiEndpoint.get("undelivered", "/announcements/undelivered", {
    query: undeliveredEmailsQueryParameters,
    success: Schema.Struct({
      ...envelopeOf(UndeliveredEmail),
      next: Schema.NullOr(Schema.String),
      total: Schema.Int.annotate({ description: "Number of such emails on all pages." }),
    }),
    error: NotFound,
  }).annotateMerge(describe("Emails whose last attempt failed, newest first", "read")),
  HttpApiEndpoint.post("retry", "/announcements/retry", {
    headers: writeHeaders,
    payload: Schema.Struct({
      status: Schema.Literals(requeueableEmailStatuses),
      entry_id: Schema.optionalKey(Schema.String),
    }),
    success: Schema.Struct({ queued: Schema.Int }),
  }).annotateMerge(describe("Queue emails again that failed, or whose delivery is unknown", "support")),
) {}

/** The query parameters for listing admin tokens. */
export const tokenListQuery = {
  ...paging,
  usable: Schema.optionalKey(Schema.Literals(["true", "false"])).annotate({
    description: "`true`: only those that work; `false`: only those that are revoked or have expired.",
  }),
}

/** Endpoints for admin tokens and sessions. */
export class AdminTokensApiGroup extends HttpApiGroup.make("tokens").add(
  HttpApiEndpoint.get("me", "/me", {
    success: Schema.Struct({
      token_id: Schema.Int,
      kind: Schema.Literals(["session", "token"]),
      name: Schema.String,
      scope: AdminScope,
      expires_at: Schema.NullOr(PrintedTime),
    }).annotate({ identifier: "SignedInAdmin" }),
  }).annotateMerge(describe("The token of this request", "read")),
  HttpApiEndpoint.post("signOut", "/me/revoke", {
    headers: writeHeaders,
    success: HttpApiSchema.NoContent,
  }).annotateMerge(describe("Revoke the token of this request", "read")),
  HttpApiEndpoint.get("list", "/tokens", { query: tokenListQuery, success: pageOf(AdminToken) }).annotateMerge(
    describe("Admin tokens, and the console's sessions and invitations that work, newest first", "admin"),
  ),
  HttpApiEndpoint.post("create", "/tokens", {
    headers: writeHeaders,
    payload: Schema.Struct({
      name: TrimmedName,
      scope: AdminScope,
      expires: Schema.optionalKey(Schema.NullOr(ExpiryDate)),
    }),
    success: Schema.Struct({
      token: Schema.NullOr(Schema.String).annotate({
        description: "The token, which is shown only once. Null if the request was repeated.",
      }),
    }).pipe(HttpApiSchema.status(201)),
    error: Conflict,
  }).annotateMerge(describe("Create an admin token", "admin")),
  HttpApiEndpoint.post("revoke", "/tokens/:id/revoke", {
    params: { id: IntegerText },
    headers: writeHeaders,
    success: HttpApiSchema.NoContent,
    error: NotFound,
  }).annotateMerge(describe("Revoke an admin token permanently", "admin")),
) {}

/** The admin API's contract. Its router, OpenAPI document, and clients are derived from it. */
export class AdminApi extends HttpApi.make("tickerline-admin")
  .add(
    AdminAccountsApiGroup,
    AdminBudgetsApiGroup,
    AdminErasureApiGroup,
    AdminKeysApiGroup,
    AdminUsageApiGroup,
    AdminTrafficApiGroup,
    AdminOperationsApiGroup,
    AdminLoadsApiGroup,
    AdminWebhooksApiGroup,
    AdminAnnouncementsApiGroup,
    AdminTokensApiGroup,
  )
  .prefix("/v1")
  .middleware(AdminTransaction)
  .middleware(AdminAccess)
  .annotate(HttpApi.QueryParseOptions, parseOptions)
  .annotate(HttpApi.PayloadParseOptions, parseOptions)
  .annotateMerge(OpenApi.annotations({
    title: "Tickerline admin API",
    version: "v1",
    description:
      "Manages accounts and watches the service. Times are at -05:00, amounts are in millionths of a US dollar.",
  })) {}
