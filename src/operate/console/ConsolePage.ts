/** Defines what a console page consists of, and the layout that all pages share. */
import { Data, Effect } from "effect"
import type { HttpRouter, HttpServerRequest } from "effect/http"
import { isScopeSufficient } from "../admin/AdminAccess.ts"
import type { AdminScope } from "../admin/AdminErrors.ts"
import { favicon, logo, themeSwitch } from "../../site/Layout.ts"
import { type ApiFailure, type ConsoleApi, makeApiFailure } from "./ConsoleApi.ts"
import { type RefusedForm, renderErrorSummary } from "./Forms.ts"
import { type Html, type HtmlValue, markup } from "../../site/browser/markup.js"

/** The signed-in admin. */
export interface Admin {
  readonly name: string
  readonly scope: AdminScope
}

/** A request for a page, with everything that is needed to render the page. */
export interface PageRequest {
  readonly api: ConsoleApi
  readonly admin: Admin
  readonly query: URLSearchParams
  /** The form on this page whose submission was refused, if any. */
  readonly refused?: RefusedForm
}

/** The content of a page. */
export interface PageContent {
  readonly title: string
  readonly body: HtmlValue
  /** The HTTP status code. Defaults to 200. */
  readonly status?: number
}

type PageEffect<A, E = never> = Effect.Effect<A, ApiFailure | E, HttpServerRequest.HttpServerRequest>

/** A form contains a value that cannot be sent to the API, such as an amount that is not a number. */
export class InvalidForm extends Data.TaggedError("InvalidForm")<{
  readonly field: string
  readonly reason: string
}> {}

/**
 * What to show after a form was submitted successfully: a redirect with a message, or a page that shows a secret once.
 */
export type FormOutcome =
  | { readonly to: string; readonly done: keyof typeof doneMessages }
  | { readonly shown: PageContent }

/** Handles the submission of a form. */
export type FormAction = (form: URLSearchParams, request: PageRequest) => PageEffect<FormOutcome, InvalidForm>

/** A page of the console. */
export interface ConsolePage {
  readonly path: HttpRouter.PathInput & `/console${string}`
  /** The label of the page in the navigation. Pages without a label are not listed there. */
  readonly label?: string
  /** The scope that an admin needs to see the page. */
  readonly scope?: AdminScope
  readonly render: (request: PageRequest) => PageEffect<PageContent>
  /**
   * The handlers of the page's forms, by form ID. If a form ID contains a colon, only the text before the colon counts.
   */
  readonly actions?: Readonly<Record<string, FormAction>>
}

/**
 * Messages that a page can show after a redirect. The URL contains only the name of a message, so a crafted link cannot
 * make the page show arbitrary text.
 */
export const doneMessages = {
  "account-changed": "The account was changed.",
  "account-created": "The account was created.",
  "account-credited": "The balance was changed.",
  "budget-changed": "The budget was changed.",
  "account-erased": "The account is erased. Its usage becomes anonymous within the next minutes.",
  "emails-queued": "The emails were queued again.",
  "key-disabled": "The key was disabled.",
  "key-enabled": "The key was enabled.",
  "key-limited": "The networks of the key were changed.",
  "key-revoked": "The key was revoked.",
  "token-revoked": "The token was revoked.",
  "webhook-disabled": "The webhook was disabled.",
  "webhook-enabled": "The webhook was enabled. Its waiting messages are sent now.",
  "webhook-replayed": "Dead letters of the webhook wait to be sent again, as many as fit.",
}

const isDone = (name: string): name is keyof typeof doneMessages => Object.hasOwn(doneMessages, name)

/** Returns the URL of a page with the given query parameters. Empty parameters are left out. */
export const makePageUrl = (path: string, parameters: Readonly<Record<string, string | number | undefined>>) => {
  const search = new URLSearchParams(
    Object.entries(parameters).flatMap(([name, value]) =>
      value === undefined || value === "" ? [] : [[name, String(value)]]
    ),
  ).toString()
  return search === "" ? path : `${path}?${search}`
}

/**
 * Renders the link to the next page of a list, which starts after the row with the ID `last`. Renders nothing if `last`
 * is null.
 */
export const renderNextPage = <Id>(label: string, last: Id | null, makeUrl: (last: Id) => string) =>
  last !== null && markup`<p><a rel="next" href="${makeUrl(last)}">${label}</a></p>`

/** Returns the URL of an account page. */
export const makeAccountUrl = (name: string) => makePageUrl("/console/account", { name })
/**
 * Returns the account name from the URL of a page. Fails for an empty name, `.`, and `..`, because they cannot be used
 * in an API path.
 */
export const getAccountName = (query: URLSearchParams) => {
  const name = query.get("name") ?? ""
  return /^\.{0,2}$/.test(name)
    ? Effect.fail(makeApiFailure(404, `The console cannot show an account with the name "${name}".`))
    : Effect.succeed(name)
}

/**
 * Renders a page with a filter form above the results. If the API rejects the filter, the page shows the error message
 * and keeps the form.
 */
export const renderFilteredPage = <R>(title: string, form: Html, results: Effect.Effect<HtmlValue, ApiFailure, R>) =>
  results.pipe(
    Effect.map((body): PageContent => ({ title, body: markup`${form}${body}` })),
    Effect.catchIf(
      ({ status }) => status === 404 || status === 422,
      ({ message, status }) =>
        Effect.succeed<PageContent>({
          title,
          status,
          body: markup`<div class="notice" role="alert"><p>${message}</p></div>${form}`,
        }),
    ),
  )

/** Parses an ID from a URL or a form. Returns 0, which is never a valid ID, if the text is not a number. */
export const parseId = (text: string | null) => text !== null && /^\d{1,15}$/.test(text) ? Number(text) : 0

/** Returns the URL of a key page. */
export const makeKeyUrl = (id: number) => makePageUrl("/console/key", { id })

/** The path that the sign-out form is submitted to. */
export const signOutPath = "/console/sign-out"

/** The path of the console's static assets. */
export const consoleAssetPath = "/console/assets"

const assetLink = (name: string) => `${consoleAssetPath}/${name}`

const renderNavigation = (pages: ReadonlyArray<ConsolePage>, admin: Admin, path: string) =>
  markup`<ul>${
    pages.flatMap(({ label, path: target, scope = "read" }) =>
      label === undefined || !isScopeSufficient(admin.scope, scope)
        ? []
        : [markup`<li><a href="${target}"${target === path && markup` aria-current="page"`}>${label}</a></li>`]
    )
  }</ul>`

interface Shell {
  /** The signed-in admin. Undefined before sign-in. */
  readonly admin?: Admin | undefined
  readonly pages: ReadonlyArray<ConsolePage>
  readonly path: string
  readonly refused?: RefusedForm | undefined
  /** The key of the message in `doneMessages` to show. */
  readonly done?: string | null
}

/** Renders a complete HTML document. */
export const renderConsolePage = ({ body, title }: PageContent, { admin, done, pages, path, refused }: Shell) => {
  const navigation = admin === undefined ? undefined : renderNavigation(pages, admin, path)
  return markup`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>${refused !== undefined && "Error: "}${title} · Tickerline console</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<link rel="icon" href="${favicon}">
<script src="${assetLink("theme.js")}"></script>
<link rel="stylesheet" href="${assetLink("style.css")}">
<link rel="stylesheet" href="${assetLink("console.css")}">
<script type="module" src="${assetLink("every-page.js")}"></script>
</head>
<body>
<a class="skip" href="#page-content">Skip to the content</a>
<header>
<a class="brand" href="/console/">${logo} Tickerline console</a>
${
    admin !== undefined && markup`<form method="post" action="${signOutPath}" class="admin"><span>${admin.name}
(${admin.scope})</span> <button class="quiet">Sign out</button></form>`
  }
${themeSwitch}
${
    navigation !== undefined && markup`<details class="menu"><summary>Menu</summary>${themeSwitch}
<nav aria-label="Console, menu">${navigation}</nav></details>`
  }
</header>
<div class="${navigation === undefined ? "alone" : "columns"}">
${navigation !== undefined && markup`<nav class="aside" aria-label="Console">${navigation}</nav>`}
<main id="page-content" tabindex="-1">
<h1>${title}</h1>
${typeof done === "string" && isDone(done) && markup`<p class="done" role="status">${doneMessages[done]}</p>`}
${refused !== undefined && renderErrorSummary(refused)}
${body}
</main>
</div>
</body>
</html>
`.toString()
}
