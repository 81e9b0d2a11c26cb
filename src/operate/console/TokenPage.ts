/** The page that shows admin tokens, open sessions, and invitations. */
import { Effect } from "effect"
import { adminScopes } from "../admin/AdminErrors.ts"
import { tokenListQuery } from "../admin/AdminApi.ts"
import { apiUrl, callAdminApi, decodeQuery, readSecret } from "./ConsoleApi.ts"
import { type ConsolePage, makePageUrl, type PageRequest, parseId, renderNextPage } from "./ConsolePage.ts"
import { declareForm, getText, renderForm, type SubmittedForm } from "./Forms.ts"
import { markup } from "../../site/browser/markup.js"
import { renderBadge, renderBreakableText, renderRows, renderTime } from "./Html.ts"
import { showSecret } from "./KeyPages.ts"

/** The form for creating an admin token. */
const createForm = declareForm({
  id: "create",
  fields: [
    { name: "name", label: "Name", isRequired: true, hint: "The person or program. The audit log shows it." },
    {
      name: "scope",
      label: "Scope",
      type: "select",
      options: adminScopes.map((scope) => [scope, scope]),
      hint: "read: see everything. support: also keys, contact addresses and emails. admin: everything.",
    },
    { name: "expires", label: "Last day", type: "date", hint: "In New York. Empty: the token never expires." },
  ],
  submit: "Create token",
})

const makeRevokeForm = (token_id: number) =>
  declareForm({
    id: `revoke:${token_id}`,
    hidden: { token_id: String(token_id) },
    submit: "Revoke permanently",
    isDestructive: true,
  })

const path = "/console/tokens"

/** The page that shows admin tokens, open sessions, and invitations. */
export const tokensPage: ConsolePage = {
  path,
  label: "Admin tokens",
  scope: "admin",
  render: Effect.fnUntraced(function* ({ api, query, refused }) {
    const values = { usable: getText(query, "usable") ?? "true", after: getText(query, "after") }
    const page = yield* decodeQuery(tokenListQuery, values)
    const { next, results } = yield* callAdminApi(api.read.tokens.list({ query: page }))
    const isUsable = page.usable === "true"
    return {
      title: "Admin tokens",
      body: markup`<h2 id="create">Create a token</h2>
${renderForm(createForm, refused)}
<h2 id="tokens">${isUsable ? "Tokens, sessions and invitations that work" : "Tokens that do not work any more"}</h2>
<p><a href="${makePageUrl(path, { usable: isUsable ? "false" : undefined })}#tokens">${
        isUsable ? "Show those that do not work any more" : "Show those that work"
      }</a></p>
${
        renderRows(
          "Tokens, sessions and invitations",
          ["Name", "Access", "Created by", "Last used", "Expires", "Revoke"],
          results.map((token) => [
            markup`${renderBreakableText(token.name)}<br><code>${token.token_hint}</code>`,
            `${token.kind}, ${token.scope}`,
            renderBreakableText(token.created_by),
            renderTime(token.last_used_at, "never"),
            renderTime(token.expires_at, "never"),
            token.revoked_at === null
              ? markup`<details class="change"><summary>Revoke<span class="hidden"> ${token.name}</span></summary>${
                renderForm(makeRevokeForm(token.token_id))
              }</details>`
              : renderBadge("revoked", "bad"),
          ]),
        )
      }
${
        renderNextPage(
          "Older tokens",
          next,
          (after) => `${makePageUrl(path, { usable: values.usable, after })}#tokens`,
        )
      }`,
    }
  }),
  actions: {
    create: Effect.fnUntraced(function* (form: SubmittedForm<typeof createForm>, { api }: PageRequest) {
      const body = {
        name: getText(form, "name") ?? "",
        scope: form.get("scope"),
        expires: getText(form, "expires") ?? null,
      }
      const created = yield* api.write(apiUrl.tokens.create(), { form, body })
      return showSecret("token", readSecret(created, "token"), path)
    }),
    revoke: Effect.fnUntraced(function* (form: SubmittedForm<typeof makeRevokeForm>, { api }: PageRequest) {
      const id = parseId(form.get("token_id"))
      yield* api.write(apiUrl.tokens.revoke({ params: { id } }), { form })
      return { to: path, done: "token-revoked" } as const
    }),
  },
}
