/** Pages that show the current state of the service: traffic, datasets, jobs, and emails. */
import { Clock, Effect } from "effect"
import { isScopeSufficient } from "../admin/AdminAccess.ts"
import { requeueableEmailStatuses } from "../../outbox/mail/Announcements.ts"
import { formatInteger } from "../../site/browser/number-format.js"
import { formatAge } from "../../site/browser/timestamps.js"
import { undeliveredEmailsQueryParameters } from "../admin/AdminApi.ts"
import { apiUrl, callAdminApi, decodeQuery } from "./ConsoleApi.ts"
import { type ConsolePage, makeAccountUrl, makePageUrl, type PageRequest, renderNextPage } from "./ConsolePage.ts"
import { renderChanges } from "./AuditPage.ts"
import { declareForm, getText, renderForm, type SubmittedForm } from "./Forms.ts"
import { makeNumericColumn, markup } from "../../site/browser/markup.js"
import { renderBadge, renderBreakableText, renderRows, renderTime } from "./Html.ts"

const numeric = (...titles: ReadonlyArray<string>) => titles.map(makeNumericColumn)

const formatMillis = (millis: number) => `${millis.toLocaleString("en-US", { maximumFractionDigits: 1 })} ms`

/** The page that shows current customer traffic. */
export const trafficPage: ConsolePage = {
  path: "/console",
  label: "Traffic",
  render: Effect.fnUntraced(function* ({ api }) {
    const { accounts, endpoints, errors, since } = yield* callAdminApi(api.read.traffic.recent({}))
    const statements = yield* callAdminApi(api.read.traffic.statements({}))
    return {
      title: "Traffic",
      body: markup`<p>Requests with a key since ${
        renderTime(since)
      }, of all processes. <a href="/console/">Refresh</a></p>
<h2 id="endpoints">By endpoint</h2>
${
        renderRows(
          "Requests by endpoint",
          ["Endpoint", ...numeric("Requests", "4xx", "5xx", "From cache", "Median", "95 %", "Slowest")],
          endpoints.map((row) => [
            markup`<code>${row.endpoint}</code>`,
            ...[row.requests, row.client_errors, row.server_errors, row.cached].map(formatInteger),
            ...[row.median_ms, row.p95_ms, row.max_ms].map(formatMillis),
          ]),
          "There were no requests.",
        )
      }
<h2 id="accounts">By account</h2>
${
        renderRows(
          "Requests by account",
          ["Account", ...numeric("Requests", "4xx", "5xx")],
          accounts.map((row) => [
            markup`<a href="${makeAccountUrl(row.account)}">${renderBreakableText(row.account)}</a>`,
            ...[row.requests, row.client_errors, row.server_errors].map(formatInteger),
          ]),
          "There were no requests.",
        )
      }
<h2 id="errors">Errors</h2>
${
        renderRows(
          "Errors by endpoint and status",
          ["Endpoint", ...numeric("Status", "Requests", "Accounts"), "Last"],
          errors.map((row) => [
            markup`<code>${row.endpoint}</code>`,
            row.status_code,
            formatInteger(row.requests),
            formatInteger(row.accounts),
            renderTime(row.last_at),
          ]),
          "There were no errors.",
        )
      }
<h2 id="statements">Slow statements</h2>
${
        statements.unavailable === null
          ? renderRows(
            "Statements with the longest mean time",
            ["Statement", ...numeric("Calls", "Mean", "Slowest", "In total")],
            statements.results.map((row) => [
              markup`<code class="long">${row.statement}</code>`,
              formatInteger(row.calls),
              ...[row.mean_ms, row.max_ms, row.total_ms].map(formatMillis),
            ]),
          )
          : markup`<p>${statements.unavailable} The columns with times above show which endpoints are slow.</p>`
      }`,
    }
  }),
}

/** The page that shows datasets and the loads that changed them. */
export const datasetsPage: ConsolePage = {
  path: "/console/datasets",
  label: "Datasets",
  render: Effect.fnUntraced(function* ({ api }) {
    const { results } = yield* callAdminApi(api.read.operations.datasets({}))
    const now = yield* Clock.currentTimeMillis
    const readChanges = (subject_type: "dataset" | "ticker_change") =>
      callAdminApi(api.read.operations.audit({ query: { subject_type, limit: 50 } }))
    const [loads, tickers] = [yield* readChanges("dataset"), yield* readChanges("ticker_change")]
    return {
      title: "Datasets",
      body: markup`${
        renderRows(
          "Datasets",
          ["Dataset", makeNumericColumn("Rows, about"), "Last change", "Age"],
          results.map(({ changed_at, dataset, rows }) => [
            markup`<code>${dataset}</code>`,
            formatInteger(rows),
            renderTime(changed_at, "never"),
            changed_at === null ? "–" : formatAge(Date.parse(changed_at), now),
          ]),
        )
      }
<h2 id="loads">Last loads and corrections</h2>
${renderChanges("Changes of datasets", loads.results)}
<h2 id="ticker-changes">Last reviews of ticker changes</h2>
${renderChanges("Reviews of ticker changes", tickers.results)}`,
    }
  }),
}

const runKinds = { failed: "bad", interrupted: "warn", running: "quiet", succeeded: "good" } as const

/** The page that shows background jobs and ingest runs. */
export const jobsPage: ConsolePage = {
  path: "/console/jobs",
  label: "Jobs",
  render: Effect.fnUntraced(function* ({ api }) {
    const ingests = yield* callAdminApi(api.read.operations.ingests({}))
    const jobs = yield* callAdminApi(api.read.operations.jobs({}))
    return {
      title: "Jobs",
      body: markup`<h2 id="ingests">Runs of ingest edgar</h2>
${
        renderRows(
          "Runs of ingest edgar",
          ["Run", "Status", "Started", "Finished", ...numeric("Documents", "Rows", "Rejections")],
          ingests.results.map((run) => [
            markup`${run.run_id}${run.scheduled && " (scheduled)"}`,
            markup`${renderBadge(run.status, runKinds[run.status])} ${
              run.error !== null && renderBreakableText(run.error)
            }`,
            renderTime(run.started_at),
            renderTime(run.finished_at),
            ...[run.documents, run.rows, run.rejections].map(formatInteger),
          ]),
          "It has not run yet.",
        )
      }
<h2 id="jobs">Background jobs</h2>
${
        renderRows(
          "Background jobs",
          ["Job", "Status"],
          jobs.results.map(({ is_held, name }) => [
            markup`<code>${name}</code>`,
            is_held ? renderBadge("a process runs it", "good") : renderBadge("not running", "quiet"),
          ]),
        )
      }`,
    }
  }),
}

/** Declares the form for requeuing emails, either for one announcement or for all announcements. */
const makeRetryForm = (entries: ReadonlyArray<string>) =>
  declareForm({
    id: "retry",
    fields: [
      {
        name: "status",
        label: "Emails",
        type: "select",
        options: requeueableEmailStatuses.map((status) => [status, status]),
        hint: "Failed: the server refused them. Unknown: they may have been sent, and would be sent twice.",
      },
      {
        name: "entry_id",
        label: "Announcement",
        type: "select",
        options: [["", "all, and notices"], ...entries.map((entry) => [entry, entry] as const)],
      },
    ],
    submit: "Queue again",
  })

/** The page that shows emails to customers. */
export const emailsPage: ConsolePage = {
  path: "/console/emails",
  label: "Emails",
  render: Effect.fnUntraced(function* ({ admin, api, query, refused }) {
    const page = yield* decodeQuery(undeliveredEmailsQueryParameters, { after: getText(query, "after") })
    const progress = yield* callAdminApi(api.read.announcements.progress({}))
    const undelivered = yield* callAdminApi(api.read.announcements.undelivered({ query: page }))
    const entries = progress.results.flatMap(({ entry_id }) => entry_id === null ? [] : [entry_id])
    return {
      title: "Emails",
      body: markup`<h2 id="progress">Progress</h2>
${
        renderRows(
          "Emails by announcement",
          ["Announcement", ...numeric("Queued", "Sent", "Failed", "Unknown")],
          progress.results.map(({ entry_id, failed, queued, sent, unknown }) => [
            entry_id ?? "Notices to single accounts",
            ...[queued, sent, failed, unknown].map(formatInteger),
          ]),
          "Nothing was announced yet.",
        )
      }
<h2 id="undelivered">Not delivered</h2>
${
        renderRows(
          "Emails whose last attempt failed",
          ["Announcement", "Recipient", "Status", makeNumericColumn("Attempts"), "Last error"],
          undelivered.results.map((email) => [
            renderBreakableText(email.entry_id),
            renderBreakableText(email.recipient),
            email.status,
            formatInteger(email.attempts),
            renderBreakableText(email.last_error),
          ]),
        )
      }
${
        undelivered.total > undelivered.results.length &&
        markup`<p>${formatInteger(undelivered.total)} emails in total, newest first.</p>`
      }${renderNextPage("Older emails", undelivered.next, (after) => makePageUrl("/console/emails", { after }))}
${
        isScopeSufficient(admin.scope, "support") &&
        markup`<h2 id="retry">Send again</h2>${renderForm(makeRetryForm(entries), refused)}`
      }`,
    }
  }),
  actions: {
    retry: Effect.fnUntraced(function* (form: SubmittedForm<typeof makeRetryForm>, { api }: PageRequest) {
      const entry_id = getText(form, "entry_id")
      const body = { status: form.get("status"), ...(entry_id !== undefined && { entry_id }) }
      yield* api.write(apiUrl.announcements.retry(), { form, body })
      return { to: "/console/emails", done: "emails-queued" } as const
    }),
  },
}
