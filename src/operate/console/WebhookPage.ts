/**
 * The page that lists the webhook endpoints of all accounts. Each endpoint can be disabled or enabled, and its messages
 * can be resent.
 */
import { Effect } from "effect"
import { isScopeSufficient } from "../admin/AdminAccess.ts"
import { webhookListQuery } from "../admin/AdminApi.ts"
import { formatInteger } from "../../site/browser/number-format.js"
import type { ListedWebhookEndpoint } from "../../outbox/webhooks/WebhookEndpoints.ts"
import { apiUrl, callAdminApi, decodeQuery } from "./ConsoleApi.ts"
import {
  type ConsolePage,
  makeAccountUrl,
  makePageUrl,
  type PageRequest,
  parseId,
  renderNextPage,
} from "./ConsolePage.ts"
import { declareForm, getText, type RefusedForm, renderForm, type SubmittedForm } from "./Forms.ts"
import { makeNumericColumn, markup } from "../../site/browser/markup.js"
import { renderBadge, renderBreakableText, renderRows } from "./Html.ts"

const path = "/console/webhooks"

/** Declares a form for an action on a webhook endpoint. */
const makeForm = (action: "disable" | "enable" | "replay", endpoint_id: string, submit: string) =>
  declareForm({ id: `${action}:${endpoint_id}`, hidden: { endpoint_id }, submit })

const makeDisableForm = (endpoint_id: string) =>
  declareForm({
    ...makeForm("disable", endpoint_id, "Disable"),
    fields: [{ name: "reason", label: "Reason", isRequired: true, hint: "The list of webhooks shows it." }],
    isDestructive: true,
  })

const renderActions = ({ disabled_reason, endpoint_id }: ListedWebhookEndpoint, refused: RefusedForm | undefined) => {
  const id = String(endpoint_id)
  const isRefused = refused?.values.get("endpoint_id") === id
  return markup`<details class="change"${isRefused && markup` open`}><summary>Change<span class="hidden"> webhook
${endpoint_id}</span></summary>${
    renderForm(disabled_reason === null ? makeDisableForm(id) : makeForm("enable", id, "Enable"), refused)
  }${renderForm(makeForm("replay", id, "Send dead letters again"), refused)}</details>`
}

/**
 * Creates the handler for a form. The handler sends a write request for the webhook endpoint whose ID the form
 * contains.
 */
const makeAction = <Form extends SubmittedForm<typeof makeForm>>(
  done: "webhook-disabled" | "webhook-enabled" | "webhook-replayed",
  toRequest: (
    id: number,
    form: Form,
  ) => { readonly url: string; readonly body?: Record<string, string | number> },
) =>
  Effect.fnUntraced(function* (form: Form, { api }: PageRequest) {
    const { url, ...body } = toRequest(parseId(form.get("endpoint_id")), form)
    yield* api.write(url, { form, ...body })
    return { to: path, done } as const
  })

/** The page that lists all webhook endpoints. */
export const webhooksPage: ConsolePage = {
  path,
  label: "Webhooks",
  render: Effect.fnUntraced(function* ({ admin, api, query, refused }) {
    const page = yield* decodeQuery(webhookListQuery, { after: getText(query, "after") })
    const { next, results } = yield* callAdminApi(api.read.webhooks.list({ query: page }))
    const mayChange = isScopeSufficient(admin.scope, "support")
    return {
      title: "Webhooks",
      body: markup`${
        renderRows(
          "Webhooks",
          ["Webhook", "Account", "Events", makeNumericColumn("Waiting"), "Status", ...(mayChange ? ["Change"] : [])],
          results.map((endpoint) => [
            markup`${endpoint.endpoint_id}: ${renderBreakableText(endpoint.url)}`,
            markup`<a href="${makeAccountUrl(endpoint.account)}">${renderBreakableText(endpoint.account)}</a>`,
            renderBreakableText(endpoint.events?.join(", ") ?? "all"),
            formatInteger(endpoint.waiting),
            endpoint.disabled_reason === null
              ? renderBadge("enabled", "good")
              : markup`${renderBadge("disabled", "warn")} ${renderBreakableText(endpoint.disabled_reason)}`,
            ...(mayChange ? [renderActions(endpoint, refused)] : []),
          ]),
        )
      }${renderNextPage("More webhooks", next, (after) => makePageUrl(path, { after }))}`,
    }
  }),
  actions: {
    disable: makeAction("webhook-disabled", (id, form: SubmittedForm<typeof makeDisableForm>) => ({
      url: apiUrl.webhooks.disable({ params: { id } }),
      body: { reason: getText(form, "reason") ?? "" },
    })),
    enable: makeAction("webhook-enabled", (id) => ({ url: apiUrl.webhooks.enable({ params: { id } }) })),
    replay: makeAction("webhook-replayed", (id) => ({ url: apiUrl.webhooks.replay(), body: { endpoint_id: id } })),
  },
}
