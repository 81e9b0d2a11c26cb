/**
 * The console's account pages: searching for accounts, creating one, and showing an account with its balance, usage,
 * and keys.
 */
import { Clock, DateTime, Effect, Schema } from "effect"
import { isScopeSufficient } from "../admin/AdminAccess.ts"
import type { AdminScope } from "../admin/AdminErrors.ts"
import type { Account } from "../../accounts/Accounts.ts"
import { PositiveUsdAmount, UsdAmount } from "../../accounts/billing/Usd.ts"
import { getDateInNewYork } from "../../contract/rules/Dates.ts"
import { tiers } from "../../contract/rules/EndpointAnnotations.ts"
import { listDaysBetween } from "../../site/browser/daily-chart.js"
import { formatDollars, formatInteger } from "../../site/browser/number-format.js"
import { renderUsageByEndpoint, renderUsageCharts } from "../../site/browser/usage-figures.js"
import { accountListQuery } from "../admin/AdminApi.ts"
import { apiUrl, callAdminApi, decodeQuery } from "./ConsoleApi.ts"
import {
  type ConsolePage,
  getAccountName,
  InvalidForm,
  makeAccountUrl,
  makePageUrl,
  type PageRequest,
  renderNextPage,
} from "./ConsolePage.ts"
import {
  declareForm,
  type Field,
  getText,
  type RefusedForm,
  renderForm,
  renderSearchForm,
  resourceField,
  type SubmittedForm,
  type SubmittedValues,
} from "./Forms.ts"
import { makeNumericColumn, markup } from "../../site/browser/markup.js"
import { renderBadge, renderBreakableText, renderFacts, renderRows, renderTime } from "./Html.ts"
import { createKey, createKeyForm, renderKeys } from "./KeyPages.ts"

const tierOptions = tiers.map((tier) => [tier, tier] as const)

const yesOrNo = [["yes", "Yes"], ["no", "No"]] as const

const renderBalance = (microdollars: number | null) => microdollars === null ? "postpaid" : formatDollars(microdollars)

/** Describes the account's budget: how much of it has been spent this month, and what happens when it is exhausted. */
const renderBudget = ({ budget_microdollars: budget, budget_spent_microdollars: spent, budget_stops }: Account) =>
  budget === null || spent === null
    ? "none"
    : `${formatDollars(spent)} of ${formatDollars(budget)} spent${
      !budget_stops ? "" : spent < budget ? ", then requests are refused" : ", so requests are refused"
    }`

const accountLink = (name: string) => markup`<a href="${makeAccountUrl(name)}">${renderBreakableText(name)}</a>`

const createForm = declareForm({
  id: "create",
  fields: [
    { name: "name", label: "Name", isRequired: true },
    { name: "tier", label: "Tier", type: "select", options: tierOptions },
    { name: "contact_email", label: "Contact address", type: "email", hint: "For emails about changes. May be empty." },
    { name: "prepaid", label: "Prepaid", type: "checkbox", hint: "Requests are refused once the balance is used up." },
  ],
  submit: "Create account",
})

/** The page that lists accounts and creates new ones. */
export const accountsPage: ConsolePage = {
  path: "/console/accounts",
  label: "Accounts",
  render: Effect.fnUntraced(function* ({ admin, api, query, refused }) {
    const search = getText(query, "search")
    const page = yield* decodeQuery(accountListQuery, { search, after: getText(query, "after") })
    const { next, results } = yield* callAdminApi(api.read.accounts.list({ query: page }))
    return {
      title: "Accounts",
      body: markup`${
        renderSearchForm([{ name: "search", label: "Name or email address", value: search ?? "" }], "Search")
      }
${
        renderRows(
          "Accounts",
          ["Name", "Tier", makeNumericColumn("Balance"), "Budget", "Contact", makeNumericColumn("Keys"), "Created"],
          results.map((account) => [
            markup`${accountLink(account.name)} ${account.erased_at !== null && renderBadge("erased", "quiet")}`,
            account.tier,
            renderBalance(account.balance_microdollars),
            renderBudget(account),
            renderBreakableText(account.contact_email ?? "–"),
            formatInteger(account.keys),
            renderTime(account.created_at),
          ]),
          search === undefined ? "There are no accounts." : "No account has this text in its name or email address.",
        )
      }
${renderNextPage("More accounts", next, (after) => makePageUrl("/console/accounts", { search, after }))}
${
        isScopeSufficient(admin.scope, "admin") &&
        markup`<h2 id="create">Create an account</h2>${renderForm(createForm, refused)}`
      }`,
    }
  }),
  actions: {
    create: Effect.fnUntraced(function* (form: SubmittedForm<typeof createForm>, { api }: PageRequest) {
      const name = getText(form, "name")
      const body = {
        name,
        tier: form.get("tier"),
        contact_email: getText(form, "contact_email") ?? null,
        prepaid: form.has("prepaid"),
      }
      yield* api.write(apiUrl.accounts.create(), { form, body })
      return { to: makeAccountUrl(name ?? ""), done: "account-created" } as const
    }),
  },
}

/** Returns the values of the form fields for an account. */
const toFormValues = ({ contact_email, news, tier }: Account) => ({
  tier,
  contact_email: contact_email ?? "",
  news: news ? "yes" : "no",
})

type ChangeField = keyof ReturnType<typeof toFormValues>

const changeFields: ReadonlyArray<Field & { readonly name: ChangeField }> = [
  { name: "tier", label: "Tier", type: "select", options: tierOptions },
  { name: "contact_email", label: "Contact address", type: "email" },
  { name: "news", label: "Emails about new features", type: "select", options: yesOrNo },
]

/** Returns the name of the hidden field that stores the value a field had when the form was rendered. */
const originalName = <Name extends ChangeField>(field: Name) => `was_${field}` as const

const isChanged = (form: SubmittedForm<typeof makeChangeForm>, field: ChangeField) =>
  form.has(field) && form.get(field) !== form.get(originalName(field))

const makeChangeForm = (
  fields: ReadonlyArray<typeof changeFields[number]>,
  etag: string,
  { contact_email, news, tier }: ReturnType<typeof toFormValues>,
) =>
  declareForm({
    id: "change",
    fields,
    hidden: { etag, [resourceField]: "account", was_tier: tier, was_contact_email: contact_email, was_news: news },
    submit: "Save",
  })

/**
 * Renders the form for changing an account. It is rendered again if it was refused (`refused`). If another admin has
 * changed the account in the meantime, edited fields then keep what was typed and mention the saved value, and unedited
 * fields show the saved value. A field was edited if its value differs from the hidden field with its original value.
 * Only admins with the scope `admin` see the tier.
 */
const renderChangeForm = (account: Account, etag: string, { admin, refused }: PageRequest) => {
  const current = toFormValues(account)
  // `refused` may be another form of the page.
  const refusedChange = refused?.values.get("form") === "change" ? refused : undefined
  const values = new URLSearchParams(refusedChange?.values)
  const fields = changeFields.filter(({ name }) => name !== "tier" || isScopeSufficient(admin.scope, "admin"))
    .map((field) => {
      const { name } = field
      if (refusedChange !== undefined && !isChanged(refusedChange.values, name)) values.set(name, current[name])
      const isStale = refusedChange !== undefined && current[name] !== refusedChange.values.get(originalName(name))
      const note = isStale ? `The saved value is now: ${current[name] || "(empty)"}` : undefined
      return { ...field, value: current[name], note }
    })
  const form = makeChangeForm(fields, etag, current)
  return renderForm(form, refusedChange === undefined ? undefined : { ...refusedChange, values })
}

const creditFields = [
  {
    name: "amount_microdollars",
    label: "Amount in US dollars",
    isRequired: true,
    hint: "Such as 25 or 12.50. A negative amount subtracts.",
  },
  { name: "reference", label: "Reference", hint: "Identifies the payment, which is credited only once." },
] as const

const becomesPrepaidField = {
  name: "becomes_prepaid",
  label: "Make the account prepaid permanently",
  type: "checkbox",
  hint: "The account is postpaid. Only a prepaid account has a balance; its requests end with it.",
} as const

const makeCreditForm = (isPostpaid: boolean) =>
  declareForm({
    id: "credit",
    fields: isPostpaid ? [...creditFields, becomesPrepaidField] : creditFields,
    submit: "Add credit",
  })

const formatAmount = (microdollars: number | null) => microdollars === null ? "" : String(microdollars / 1_000_000)

/**
 * Declares the form for setting an account's monthly budget. `etag` is that of the account as it is now. If the form
 * was refused because another admin has changed the account since the form was rendered, its own hidden `etag` is
 * older. The form, which keeps what was typed, then also shows the saved budget.
 *
 * The hidden field `removable` exists only if there is a budget. It lets `setBudget` distinguish removing a budget from
 * leaving the amount empty by mistake.
 */
const makeBudgetForm = (account: Account, etag: string, refused?: RefusedForm) => {
  const { budget_microdollars, budget_stops } = account
  // `refused` may be another form of the page.
  const isStale = refused?.values.get("form") === "budget" && refused.values.get("etag") !== etag
  return declareForm({
    id: "budget",
    fields: [
      {
        name: "budget_microdollars",
        label: "Budget per month in US dollars",
        value: formatAmount(budget_microdollars),
        hint: "The customer gets an email when 75, 90 and 100% are spent. Empty: no budget.",
        note: isStale ? `The saved budget is now: ${renderBudget(account)}` : undefined,
      },
      {
        name: "stops",
        label: "Refuse requests for data once it is used up",
        type: "checkbox",
        value: budget_stops ? "on" : "",
      },
    ],
    hidden: { etag, [resourceField]: "account", ...(budget_microdollars !== null && { removable: "yes" }) },
    submit: "Save budget",
  })
}

/**
 * Returns the amount in a form field, converted from US dollars to microdollars with the same rules as on the command
 * line. `amount` determines whether it may be negative. A typographic minus sign is accepted too.
 */
const readAmount = <Name extends string>(
  form: SubmittedValues<Name>,
  field: NoInfer<Name>,
  amount: typeof PositiveUsdAmount | typeof UsdAmount,
) =>
  Schema.decodeEffect(amount)((getText(form, field) ?? "").replace("−", "-")).pipe(
    Effect.map(Number),
    Effect.mapError(() =>
      new InvalidForm({
        field,
        reason: `must be ${
          amount === UsdAmount ? "an amount other than 0" : "an amount above 0"
        }, with at most six decimals, such as 25 or 12.50`,
      })
    ),
  )

const usagePeriods = [["7", "7 days"], ["30", "30 days"], ["90", "90 days"]] as const

const renderUsage = Effect.fnUntraced(function* (name: string, { api, query }: PageRequest) {
  const chosen = usagePeriods.find(([days]) => days === query.get("days"))?.[0] ?? "30"
  const now = yield* Clock.currentTimeMillis
  const to = getDateInNewYork(now)
  const from = DateTime.formatIsoDate(DateTime.subtract(DateTime.makeUnsafe(to), { days: Number(chosen) - 1 }))
  const read = (group_by: "day" | "endpoint") =>
    callAdminApi(api.read.usage.totals({ query: { from, to, account: name, group_by } }))
  const [byDay, byEndpoint] = yield* Effect.all([read("day"), read("endpoint")])
  const days = byDay.results.map(({ day, ...totals }) => ({ ...totals, usage_date: day }))
  return markup`<h2 id="usage">Usage and cost</h2>
<form method="get" class="search-form" action="#usage"><input type="hidden" name="name" value="${name}">
<p class="control"><label for="days">Period</label><select id="days" name="days">${
    usagePeriods.map(([value, label]) =>
      markup`<option value="${value}"${value === chosen && markup` selected`}>${label}</option>`
    )
  }</select></p><button class="quiet">Show</button></form>
${renderUsageCharts(days, listDaysBetween(from, to))}
${
    byEndpoint.results.length === 0
      ? markup`<p>No requests in this period.</p>`
      : renderUsageByEndpoint(byEndpoint.results)
  }`
})

/**
 * Renders the page of an account: its data, usage, keys, invoices, and credits, and the forms that the admin's scope
 * allows. An erased account has no forms.
 */
const renderAccount = Effect.fnUntraced(function* (request: PageRequest) {
  const { admin, api, refused } = request
  const name = yield* getAccountName(request.query)
  const { body: account, headers: { etag } } = yield* callAdminApi(api.read.accounts.find({ params: { name } }))
  const credits = yield* callAdminApi(api.read.accounts.credits({ params: { name } }))
  const invoices = yield* callAdminApi(api.read.accounts.invoices({ params: { name } }))
  const keys = yield* callAdminApi(api.read.keys.list({ query: { account: name } }))
  const isPostpaid = account.balance_microdollars === null
  const isErased = account.erased_at !== null
  const may = (scope: AdminScope) => !isErased && isScopeSufficient(admin.scope, scope)
  return {
    title: `Account ${name}${isErased ? " (erased)" : ""}`,
    body: markup`${
      renderFacts([
        ...(isErased ? [["Erased", renderTime(account.erased_at)] as const] : []),
        ["Tier", account.tier],
        ["Balance", renderBalance(account.balance_microdollars)],
        ["Budget this month", renderBudget(account)],
        ["Contact address", account.contact_email ?? "none"],
        ["Emails about new features", account.news ? "yes" : "no"],
        ["Last charged", renderTime(account.last_charged_at, "never")],
        ["Created", renderTime(account.created_at)],
      ])
    }
<p><a href="${makePageUrl("/console/audit", { account: name })}">Changes of this account in the audit log</a></p>
${yield* renderUsage(name, request)}
<h2 id="keys">Keys</h2>
${renderKeys(keys.results, false)}
${
      keys.next !== null &&
      markup`<p><a href="${makePageUrl("/console/keys", { account: name })}">All keys of the account</a></p>`
    }
${
      may("support") && markup`<h3>Create a key</h3>
${renderForm(createKeyForm, refused)}
<h2 id="change">Change the account</h2>
${renderChangeForm(account, etag, request)}`
    }
<h2 id="invoices">Invoices</h2>
${
      renderRows(
        "Invoices",
        ["Month", "Closed", makeNumericColumn("Requests"), makeNumericColumn("Cost"), "SHA-256"],
        invoices.results.map(({ closed_at, cost_microdollars, digest, month, requests }) => [
          month,
          renderTime(closed_at),
          formatInteger(requests),
          formatDollars(cost_microdollars),
          renderBreakableText(digest),
        ]),
      )
    }
<h2 id="credits">Credits</h2>
${
      renderRows(
        "Credits",
        ["Time", makeNumericColumn("Amount"), "Reference"],
        credits.results.map(({ amount_microdollars, created_at, reference }) => [
          renderTime(created_at),
          formatDollars(amount_microdollars),
          renderBreakableText(reference ?? "–"),
        ]),
      )
    }
${
      may("admin") && markup`<h3>Add to the balance</h3>${renderForm(makeCreditForm(isPostpaid), refused)}
<h2 id="budget">Budget</h2>
${renderForm(makeBudgetForm(account, etag, refused), refused)}
<h2 id="erase">Erase</h2>
<p><a href="${makePageUrl("/console/erase", { name })}">See what erasing the account would change</a></p>`
    }
${
      isErased && isScopeSufficient(admin.scope, "admin") &&
      markup`<p><a href="${makePageUrl("/console/erase", { name })}">See how far the erasure is</a></p>`
    }`,
  }
})

/**
 * Handles the form for changing an account. Sends only the fields that were edited, so that the form does not overwrite
 * other fields with outdated values. `etag` makes the API refuse the change if the account has changed in between.
 */
const changeAccount = Effect.fnUntraced(
  function* (form: SubmittedForm<typeof makeChangeForm>, { api, query }: PageRequest) {
    const name = yield* getAccountName(query)
    const body = {
      ...(isChanged(form, "tier") && { tier: form.get("tier") }),
      ...(isChanged(form, "contact_email") && { contact_email: getText(form, "contact_email") ?? null }),
      ...(isChanged(form, "news") && { news: form.get("news") === "yes" }),
    }
    yield* api.write(apiUrl.accounts.change({ params: { name } }), {
      method: "PATCH",
      form,
      body,
      etag: form.get("etag") ?? "",
    })
    return { to: makeAccountUrl(name), done: "account-changed" } as const
  },
)

/**
 * Handles the form that adds to the balance of an account. A postpaid account becomes prepaid if the box is checked.
 */
const creditAccount = Effect.fnUntraced(
  function* (form: SubmittedForm<typeof makeCreditForm>, { api, query }: PageRequest) {
    const name = yield* getAccountName(query)
    const amount_microdollars = yield* readAmount(form, "amount_microdollars", UsdAmount)
    const reference = getText(form, "reference")
    yield* api.write(apiUrl.accounts.credit({ params: { name } }), {
      form,
      body: {
        amount_microdollars,
        ...(reference !== undefined && { reference }),
        ...(form.has("becomes_prepaid") && { becomes_prepaid: true }),
      },
    })
    return { to: makeAccountUrl(name), done: "account-credited" } as const
  },
)

/**
 * Handles the budget form: sends the entered budget, and whether requests are refused once it is used up. An empty
 * amount removes the budget.
 */
const setBudget = Effect.fnUntraced(
  function* (form: SubmittedForm<typeof makeBudgetForm>, { api, query }: PageRequest) {
    const name = yield* getAccountName(query)
    const field = "budget_microdollars"
    const isEmpty = getText(form, field) === undefined
    // When a saved budget is removed (`removable`), the checkbox for refusing requests is usually still checked. It is
    // ignored then, because the API rejects it without an amount. If there was no budget, the admin has just checked
    // it, and must see that error.
    const stops = form.has("stops") && !(isEmpty && form.has("removable"))
    const budget_microdollars = isEmpty ? null : yield* readAmount(form, field, PositiveUsdAmount)
    yield* api.write(apiUrl.budgets.set({ params: { name } }), {
      method: "PUT",
      form,
      body: { budget_microdollars, ...(stops && { stops: true }) },
      etag: form.get("etag") ?? "",
    })
    return { to: makeAccountUrl(name), done: "budget-changed" } as const
  },
)

/** The page of a single account. */
export const accountPage: ConsolePage = {
  path: "/console/account",
  render: renderAccount,
  actions: {
    "create-key": (form, request) =>
      Effect.flatMap(getAccountName(request.query), (name) => createKey(form, name, request)),
    change: changeAccount,
    credit: creditAccount,
    budget: setBudget,
  },
}
