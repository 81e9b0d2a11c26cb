/** What a page of the console is, and the layout that all pages share. */
import { Data, Effect } from "effect"
import type { HttpRouter, HttpServerRequest } from "effect/http"
import { isScopeSufficient } from "../admin/AdminAccess.ts"
import type { AdminScope } from "../admin/AdminErrors.ts"
import { favicon, logo, themeSwitch } from "../../site/Layout.ts"
import { type ApiFailure, type ConsoleApi, makeFailure } from "./ConsoleApi.ts"
import { type RefusedForm, renderErrorSummary } from "./Forms.ts"
import { type Html, type HtmlValue, markup } from "../../site/browser/markup.js"

export interface Admin {
  readonly name: string
  readonly scope: AdminScope
}

export interface PageRequest {
  readonly api: ConsoleApi
  readonly admin: Admin
  readonly query: URLSearchParams
  /** The form of this page that was refused. */
  readonly refused?: RefusedForm
}

export interface PageContent {
  readonly title: string
  readonly body: HtmlValue
  /** By default 200. */
  readonly status?: number
}

type PageEffect<A, E = never> = Effect.Effect<A, ApiFailure | E, HttpServerRequest.HttpServerRequest>

/** A value of a form that cannot be sent to the API, such as an amount that is no number. */
export class InvalidForm extends Data.TaggedError("InvalidForm")<{
  readonly field: string
  readonly reason: string
}> {}

/** What follows a form that was accepted: a redirect with a message, or a page that shows a secret once. */
export type Outcome =
  | { readonly to: string; readonly done: keyof typeof doneMessages }
  | { readonly shown: PageContent }

export type FormAction = (form: URLSearchParams, request: PageRequest) => PageEffect<Outcome, InvalidForm>

export interface ConsolePage {
  readonly path: HttpRouter.PathInput & `/console${string}`
  /** Name in the navigation. */
  readonly label?: string
  /** The scope without which the page is hidden. */
  readonly scope?: AdminScope
  readonly render: (request: PageRequest) => PageEffect<PageContent>
  /** What happens to the forms of the page, by the part of their id before a colon. */
  readonly actions?: Readonly<Record<string, FormAction>>
}

/** Messages that a page shows after a redirect. The URL has only the name of one, so no link can show other text. */
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

/** Makes the URL of a page with the parameters that are not empty. */
export const makePageUrl = (path: string, parameters: Readonly<Record<string, string | number | undefined>>) => {
  const search = new URLSearchParams(
    Object.entries(parameters).flatMap(([name, value]) =>
      value === undefined || value === "" ? [] : [[name, String(value)]]
    ),
  ).toString()
  return search === "" ? path : `${path}?${search}`
}

/** Renders the link to the page that begins after the row `last`, unless there is none. */
export const renderNextPage = <Id>(label: string, last: Id | null, makeUrl: (last: Id) => string) =>
  last !== null && markup`<p><a rel="next" href="${makeUrl(last)}">${label}</a></p>`

export const makeAccountUrl = (name: string) => makePageUrl("/console/account", { name })
/** Returns the name of an account in the URL. A path of the API cannot have the names that mean a folder. */
export const getAccountName = (query: URLSearchParams) => {
  const name = query.get("name") ?? ""
  return /^\.{0,2}$/.test(name)
    ? Effect.fail(makeFailure(404, `The console cannot show an account with the name "${name}".`))
    : Effect.succeed(name)
}

/** Renders a page with a filter. If the API refuses the filter, the form stays and the message is above it. */
export const renderWithFilter = <R>(title: string, form: Html, results: Effect.Effect<HtmlValue, ApiFailure, R>) =>
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

/** Returns the ID in a URL or a form; 0, which nothing has, if it is not valid. */
export const parseId = (text: string | null) => text !== null && /^\d{1,15}$/.test(text) ? Number(text) : 0

export const makeKeyUrl = (id: number) => makePageUrl("/console/key", { id })

export const signOutPath = "/console/sign-out"

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
  /** Undefined before somebody has signed in. */
  readonly admin?: Admin | undefined
  readonly pages: ReadonlyArray<ConsolePage>
  readonly path: string
  readonly refused?: RefusedForm | undefined
  /** The name of a message in `doneMessages`. */
  readonly done?: string | null
}

/** Renders a complete document. */
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
