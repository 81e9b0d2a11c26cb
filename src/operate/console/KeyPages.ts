/** The console's API key pages: the list of keys, and a single key with all operations on it. */
import { Effect } from "effect"
import type { ListedApiKey } from "../../accounts/keys/ApiKeyManagement.ts"
import { isScopeSufficient } from "../admin/AdminAccess.ts"
import { keyEndpointPaths } from "../../api/catalogue/Endpoints.ts"
import { keyListQuery } from "../admin/AdminApi.ts"
import { apiUrl, callAdminApi, decodeQuery, readSecret } from "./ConsoleApi.ts"
import {
  type ConsolePage,
  type FormAction,
  type FormOutcome,
  InvalidForm,
  makeAccountUrl,
  makeKeyUrl,
  makePageUrl,
  type PageRequest,
  parseId,
  renderFilteredPage,
  renderNextPage,
} from "./ConsolePage.ts"
import {
  declareForm,
  type Form,
  getText,
  type RefusedForm,
  renderForm,
  renderSearchForm,
  resourceField,
  type SubmittedForm,
  type SubmittedValues,
} from "./Forms.ts"
import { markup, renderCodeBlock } from "../../site/browser/markup.js"
import { renderBadge, renderBreakableText, renderFacts, renderRows, renderTime } from "./Html.ts"

const statusKinds = { active: "good", disabled: "warn", expired: "quiet", revoked: "bad" } as const

const renderAccountLink = ({ account }: ListedApiKey) =>
  markup`<a href="${makeAccountUrl(account)}">${renderBreakableText(account)}</a>`

/** Renders a table of keys. */
export const renderKeys = (keys: ReadonlyArray<ListedApiKey>, hasAccounts: boolean) =>
  renderRows(
    "Keys",
    ["Key", "Name", ...(hasAccounts ? ["Account"] : []), "Status", "Last used", "Expires"],
    keys.map((key) => [
      markup`<a href="${makeKeyUrl(key.key_id)}">${key.key_id}: <code>${key.key_hint}…</code></a>`,
      renderBreakableText(key.name),
      ...(hasAccounts ? [renderAccountLink(key)] : []),
      renderBadge(key.status, statusKinds[key.status]),
      renderTime(key.last_used_at, "never"),
      renderTime(key.expires_at, "never"),
    ]),
    "There are no such keys.",
  )

const networksField = {
  name: "networks",
  label: "Networks",
  type: "textarea",
  hint: "One address or network per line, such as 192.0.2.0/24. Empty: the key works from everywhere.",
} as const

/** The form for creating a key. */
export const createKeyForm = declareForm({
  id: "create-key",
  fields: [
    { name: "name", label: "Name", value: "default", isRequired: true },
    { name: "expires", label: "Last day", type: "date", hint: "In New York. Empty: the key never expires." },
    networksField,
    {
      name: "endpoints",
      label: "Only some endpoints",
      type: "checkboxes",
      hint: "If none is chosen, the key works for all endpoints of the tier.",
      options: keyEndpointPaths.map((path) => [path, path] as const),
    },
  ],
  submit: "Create key",
})

/** Returns the networks listed in the form field. Returns null if the field is empty, which permits all networks. */
const getNetworks = (form: SubmittedValues<typeof networksField.name>) => {
  const networks = (form.get("networks") ?? "").split(/[\s,]+/).filter((network) => network !== "")
  return networks.length === 0 ? null : networks
}

/**
 * Returns the page that shows a new secret. The page is rendered only in the response to the form submission that
 * created the secret.
 */
export const showSecret = (what: "key" | "token", secret: string | null, next: string): FormOutcome => ({
  shown: {
    title: secret === null ? `The ${what} was created before` : `The new ${what}`,
    body: markup`${
      secret === null
        ? markup`<p>This form was sent before. Its ${what} was shown once and cannot be shown again. If it is lost,
create another ${what} and revoke the lost one.</p>`
        : markup`<p role="status">Copy it now: it is shown only this once, and is not stored.</p>
${renderCodeBlock(`The ${what}`, markup`<span class="secret" id="secret">${secret}</span>`)}`
    }
<p><a href="${next}">Continue</a></p>`,
  },
})

/**
 * Handles the form for creating a key of the account. Returns the page that shows the key, which cannot be shown again.
 * If no endpoint is chosen, the key works for all of them.
 */
export const createKey = Effect.fnUntraced(function* (
  form: SubmittedForm<typeof createKeyForm>,
  account: string,
  { api }: PageRequest,
) {
  const endpoints = form.getAll("endpoints")
  const created = yield* api.write(apiUrl.keys.create(), {
    form,
    body: {
      account,
      name: getText(form, "name") ?? "",
      expires: getText(form, "expires") ?? null,
      networks: getNetworks(form),
      endpoints: endpoints.length === 0 ? null : endpoints,
    },
  })
  return showSecret("key", readSecret(created, "key"), makeAccountUrl(account))
})

/** The page that lists all keys. */
export const keysPage: ConsolePage = {
  path: "/console/keys",
  label: "Keys",
  render: ({ api, query }) => {
    const [account, unused_days] = [getText(query, "account"), getText(query, "unused_days")]
    const fields = [
      { name: "account", label: "Account", value: account ?? "" },
      { name: "unused_days", label: "Days without use", value: unused_days ?? "" },
    ]
    const results = decodeQuery(keyListQuery, { account, unused_days, after: getText(query, "after") }).pipe(
      Effect.flatMap((page) => callAdminApi(api.read.keys.list({ query: page }))),
      Effect.map(({ next, results }) =>
        markup`${renderKeys(results, true)}${
          renderNextPage("Older keys", next, (after) => makePageUrl("/console/keys", { account, unused_days, after }))
        }`
      ),
    )
    return renderFilteredPage("Keys", renderSearchForm(fields, "Filter"), results)
  },
}

const getKeyId = (query: URLSearchParams) => parseId(query.get("id"))

const gracePeriods = [
  ["0", "none: the old key ends at once"],
  ["3600", "an hour"],
  ["86400", "a day"],
  ["604800", "7 days"],
  ["2592000", "30 days"],
] as const

const rotateForm = declareForm({
  id: "rotate",
  fields: [{
    name: "grace_seconds",
    label: "The old key works for",
    type: "select",
    options: gracePeriods,
    value: "86400",
  }],
  submit: "Rotate key",
})
const disableForm = declareForm({ id: "disable", submit: "Disable until it is enabled", isDestructive: true })
const enableForm = declareForm({ id: "enable", submit: "Enable key" })
const revokeForm = declareForm({
  id: "revoke",
  fields: [{ name: "confirmed", label: "Revoke it permanently", type: "checkbox", isRequired: true }],
  submit: "Revoke key",
  isDestructive: true,
})

const makeNetworksForm = ({ networks }: ListedApiKey, etag: string, refused?: RefusedForm) => {
  const isStale = refused?.values.get("form") === "networks" && refused.values.get("etag") !== etag
  const note = isStale ? `The saved value is now: ${networks?.join(", ") ?? "(empty)"}` : undefined
  return declareForm({
    id: "networks",
    fields: [{ ...networksField, value: networks?.join("\n") ?? "", note }],
    hidden: { etag, [resourceField]: "key" },
    submit: "Save networks",
  })
}

const renderActions = (key: ListedApiKey, etag: string, { refused }: PageRequest) => {
  const form = (declared: Form) => renderForm(declared, refused)
  return markup`${
    key.status === "active" && markup`<h2 id="rotate">Rotate</h2>
<p>A new key replaces this one, with the same name, limits and expiry.</p>
${form(rotateForm)}`
  }
${key.status !== "revoked" && markup`<h2 id="networks">Networks</h2>${form(makeNetworksForm(key, etag, refused))}`}
${key.status === "active" && markup`<h2 id="disable">Disable</h2>${form(disableForm)}`}
${key.status === "disabled" && markup`<h2 id="enable">Enable</h2>${form(enableForm)}`}
${key.status !== "revoked" && markup`<h2 id="revoke">Revoke</h2>${form(revokeForm)}`}`
}

/** Renders the page of a key, with only the forms that the key's state and the admin's scope allow. */
const renderKey = Effect.fnUntraced(function* (request: PageRequest) {
  const id = getKeyId(request.query)
  const { body: key, headers: { etag } } = yield* callAdminApi(request.api.read.keys.find({ params: { id } }))
  return {
    title: `Key ${id}`,
    body: markup`${
      renderFacts([
        ["Account", renderAccountLink(key)],
        ["Name", key.name],
        ["Status", renderBadge(key.status, statusKinds[key.status])],
        ["Begins with", markup`<code>${key.key_hint}</code>`],
        ["Created", renderTime(key.created_at)],
        ["Expires", renderTime(key.expires_at, "never")],
        ["Last used", renderTime(key.last_used_at, "never")],
        ["Last address", key.last_used_address ?? "–"],
        ["Networks", key.networks?.join(", ") ?? "all"],
        ["Endpoints", key.endpoints?.join(", ") ?? "all of the tier"],
      ])
    }
<p><a href="${makePageUrl("/console/audit", { subject_type: "key", subject: id })}">Changes of this key in the audit
log</a></p>
${isScopeSufficient(request.admin.scope, "support") && renderActions(key, etag, request)}`,
  }
})

/** Creates the handler for a form that has no fields. */
const makeKeyAction = (
  action: "disable" | "enable",
  done: "key-disabled" | "key-enabled",
): FormAction =>
  Effect.fnUntraced(function* (form, { api, query }) {
    const id = getKeyId(query)
    yield* api.write(apiUrl.keys[action]({ params: { id } }), { form })
    return { to: makeKeyUrl(id), done }
  })

/** The page of a single key. */
export const keyPage: ConsolePage = {
  path: "/console/key",
  render: renderKey,
  actions: {
    rotate: Effect.fnUntraced(function* (form: SubmittedForm<typeof rotateForm>, { api, query }: PageRequest) {
      const id = getKeyId(query)
      const body = { grace_seconds: Number(form.get("grace_seconds")) }
      const created = yield* api.write(apiUrl.keys.rotate({ params: { id } }), { form, body })
      return showSecret("key", readSecret(created, "key"), makeKeyUrl(id))
    }),
    networks: Effect.fnUntraced(function* (form: SubmittedForm<typeof makeNetworksForm>, { api, query }: PageRequest) {
      const id = getKeyId(query)
      yield* api.write(apiUrl.keys.networks({ params: { id } }), {
        form,
        body: { networks: getNetworks(form) },
        etag: form.get("etag") ?? "",
      })
      return { to: makeKeyUrl(id), done: "key-limited" } as const
    }),
    disable: makeKeyAction("disable", "key-disabled"),
    enable: makeKeyAction("enable", "key-enabled"),
    revoke: Effect.fnUntraced(function* (form: SubmittedForm<typeof revokeForm>, { api, query }: PageRequest) {
      const id = getKeyId(query)
      if (!form.has("confirmed")) {
        return yield* new InvalidForm({ field: "confirmed", reason: "must be checked, because it cannot be undone" })
      }
      yield* api.write(apiUrl.keys.revoke({ params: { id } }), { form })
      return { to: makeKeyUrl(id), done: "key-revoked" } as const
    }),
  },
}
