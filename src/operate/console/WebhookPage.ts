/** The page with the webhook endpoints of all accounts, which can be disabled, enabled and replayed. */
import { Effect } from "effect"
import { isScopeSufficient } from "../admin/AdminAccess.ts"
import { webhookListQuery } from "../admin/AdminApi.ts"
import { makeNumericColumn } from "../../site/browser/markup.js"
import { formatInteger } from "../../site/browser/number-format.js"
import type { ListedWebhookEndpoint } from "../../outbox/webhooks/WebhookEndpoints.ts"
import { apiUrl, call, decodeQuery } from "./ConsoleApi.ts"
import { type ConsolePage, type FormAction, makeAccountUrl, makePageUrl, parseId } from "./ConsolePage.ts"
import { getText, type RefusedForm, renderForm } from "./Forms.ts"
import { markup, renderBadge, renderLong, renderRows } from "./Html.ts"

const path = "/console/webhooks"

const reasonField = { name: "reason", label: "Reason", isRequired: true, hint: "The list of webhooks shows it." }

const renderActions = ({ disabled_reason, endpoint_id }: ListedWebhookEndpoint, refused: RefusedForm | undefined) => {
  const hidden = { endpoint_id: String(endpoint_id) }
  const isRefused = refused?.values.get("endpoint_id") === hidden.endpoint_id
  return markup`<details class="change"${isRefused && markup` open`}><summary>Change<span class="hidden"> webhook
${endpoint_id}</span></summary>${
    disabled_reason === null
      ? renderForm({
        id: `disable:${endpoint_id}`,
        hidden,
        fields: [reasonField],
        submit: "Disable",
        isDestructive: true,
      }, refused)
      : renderForm({ id: `enable:${endpoint_id}`, hidden, submit: "Enable" }, refused)
  }${renderForm({ id: `replay:${endpoint_id}`, hidden, submit: "Send dead letters again" }, refused)}</details>`
}

/** Makes the action of a form, which writes to the endpoint with this id. */
const makeAction = (
  done: "webhook-disabled" | "webhook-enabled" | "webhook-replayed",
  toRequest: (
    id: number,
    form: URLSearchParams,
  ) => { readonly url: string; readonly body?: Record<string, string | number> },
): FormAction =>
  Effect.fnUntraced(function* (form, { api }) {
    const { url, ...body } = toRequest(parseId(form.get("endpoint_id")), form)
    yield* api.write(url, { form, ...body })
    return { to: path, done }
  })

export const webhooksPage: ConsolePage = {
  path,
  label: "Webhooks",
  render: Effect.fnUntraced(function* ({ admin, api, query, refused }) {
    const page = yield* decodeQuery(webhookListQuery, { after: getText(query, "after") })
    const { next, results } = yield* call(api.read.webhooks.list({ query: page }))
    const mayChange = isScopeSufficient(admin.scope, "support")
    return {
      title: "Webhooks",
      body: markup`${
        renderRows(
          "Webhooks",
          ["Webhook", "Account", "Events", makeNumericColumn("Waiting"), "Status", ...(mayChange ? ["Change"] : [])],
          results.map((endpoint) => [
            markup`${endpoint.endpoint_id}: ${renderLong(endpoint.url)}`,
            markup`<a href="${makeAccountUrl(endpoint.account)}">${renderLong(endpoint.account)}</a>`,
            renderLong(endpoint.events?.join(", ") ?? "all"),
            formatInteger(endpoint.waiting),
            endpoint.disabled_reason === null
              ? renderBadge("enabled", "good")
              : markup`${renderBadge("disabled", "warn")} ${renderLong(endpoint.disabled_reason)}`,
            ...(mayChange ? [renderActions(endpoint, refused)] : []),
          ]),
        )
      }${next !== null && markup`<p><a rel="next" href="${makePageUrl(path, { after: next })}">More webhooks</a></p>`}`,
    }
  }),
  actions: {
    disable: makeAction("webhook-disabled", (id, form) => ({
      url: apiUrl.webhooks.disable({ params: { id } }),
      body: { reason: getText(form, "reason") ?? "" },
    })),
    enable: makeAction("webhook-enabled", (id) => ({ url: apiUrl.webhooks.enable({ params: { id } }) })),
    replay: makeAction("webhook-replayed", (id) => ({ url: apiUrl.webhooks.replay(), body: { endpoint_id: id } })),
  },
}
