/** The page for erasing an account. It first shows what would be erased (docs/operations/erasure.md). */
import { Effect } from "effect"
import { formatInteger } from "../../site/browser/number-format.js"
import { apiUrl, callAdminApi } from "./ConsoleApi.ts"
import { type ConsolePage, getAccountName, InvalidForm, makeAccountUrl, type PageRequest } from "./ConsolePage.ts"
import { declareForm, getText, renderForm, type SubmittedForm } from "./Forms.ts"
import { markup } from "../../site/browser/markup.js"
import { renderFacts, renderTime } from "./Html.ts"

const makeEraseForm = (etag: string) =>
  declareForm({
    id: "erase",
    fields: [{
      name: "confirmation",
      label: "Name of the account",
      isRequired: true,
      hint: "Type it to confirm that you mean this account.",
    }],
    hidden: { etag },
    submit: "Erase permanently",
    isDestructive: true,
  })

/** The page for erasing an account. */
export const erasurePage: ConsolePage = {
  path: "/console/erase",
  scope: "admin",
  render: Effect.fnUntraced(function* ({ api, query, refused }) {
    const name = yield* getAccountName(query)
    const { body: state, headers: { etag } } = yield* callAdminApi(api.read.erasure.preview({ params: { name } }))
    const { erased_at, finished_at } = state
    return {
      title: erased_at === null ? `Erase ${name}` : `${name} is erased`,
      body: markup`${
        erased_at === null
          ? markup`<p>Erasing cannot be undone. It removes the keys, the name and all addresses of the account, and
makes its usage anonymous. Sums of usage and credits stay. A former address that neither the audit log nor a notice
has any more stays in the list of sent emails.</p>`
          : markup`<p>Erased: ${renderTime(erased_at)}. Finished: ${renderTime(finished_at, "not yet")}.</p>`
      }
${
        renderFacts([
          ["Keys", formatInteger(state.keys)],
          ["Webhooks", formatInteger(state.webhooks)],
          ["Webhook messages", formatInteger(state.webhook_messages)],
          ["Emails", formatInteger(state.emails)],
          ["References of credits", formatInteger(state.credit_references)],
          ["Rows of usage", formatInteger(state.usage_rows)],
          ["Rows of the audit log", formatInteger(state.audit_rows)],
        ])
      }
${erased_at === null && renderForm(makeEraseForm(etag), refused)}
<p><a href="${makeAccountUrl(name)}">Back to the account</a></p>`,
    }
  }),
  actions: {
    erase: Effect.fnUntraced(function* (form: SubmittedForm<typeof makeEraseForm>, { api, query }: PageRequest) {
      const name = yield* getAccountName(query)
      if (getText(form, "confirmation") !== name) {
        return yield* new InvalidForm({ field: "confirmation", reason: `must be ${name}` })
      }
      yield* api.write(apiUrl.erasure.erase({ params: { name } }), { form, etag: form.get("etag") ?? "" })
      return { to: "/console/accounts", done: "account-erased" } as const
    }),
  },
}
