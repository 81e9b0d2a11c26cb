/** Serves the console under `/console/` of the admin server (docs/operations/console.md). */
import { Effect, FileSystem, Option, Path } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { AdminRequestId, isScopeSufficient } from "../admin/AdminAccess.ts"
import { AdminOriginConfig } from "../admin/AdminSettings.ts"
import { logDefectAsInternalError } from "../../contract/rules/QueryValidation.ts"
import { loadAssets } from "../../site/Assets.ts"
import { accountPage, accountsPage } from "./AccountPages.ts"
import { auditPage } from "./AuditPage.ts"
import {
  ApiFailure,
  apiUrl,
  callAdminApi,
  type ConsoleApi,
  makeApiFailure,
  makeConsoleApi,
  sessionCookie,
} from "./ConsoleApi.ts"
import {
  type Admin,
  consoleAssetPath,
  type ConsolePage,
  type PageContent,
  type PageRequest,
  renderConsolePage,
  signOutPath,
} from "./ConsolePage.ts"
import { homePath, makeSignInPath, signInPath } from "./ConsolePaths.ts"
import { makeHtmlResponse, makeRedirect } from "./ConsoleResponse.ts"
import { erasurePage } from "./ErasurePage.ts"
import { formIdField, type RefusedForm, resourceField } from "./Forms.ts"
import { markup } from "../../site/browser/markup.js"
import { keyPage, keysPage } from "./KeyPages.ts"
import { type FormRequestRefused, readForm } from "./ReceivedForm.ts"
import { datasetsPage, emailsPage, jobsPage, trafficPage } from "./MaintenancePages.ts"
import { requestPage } from "./RequestPage.ts"
import { tokensPage } from "./TokenPage.ts"
import { webhooksPage } from "./WebhookPage.ts"

/** All pages, in the order in which the navigation lists them. */
export const consolePages: ReadonlyArray<ConsolePage> = [
  trafficPage,
  accountsPage,
  accountPage,
  erasurePage,
  keysPage,
  keyPage,
  requestPage,
  datasetsPage,
  jobsPage,
  emailsPage,
  webhooksPage,
  auditPage,
  tokensPage,
]

const titles: Readonly<Record<number, string>> = {
  403: "Not allowed",
  404: "Not found",
  413: "Too large",
  422: "Not valid",
  503: "Not available at the moment",
}

const describeFailure = ({ message, request_id, status }: ApiFailure): PageContent => ({
  title: titles[status] ?? "Something went wrong",
  body: markup`<p>${message}</p>${
    request_id !== "" && markup`<p class="quiet">Request <code>${request_id}</code></p>`
  }<p><a href="/console/">Go to the start page</a></p>`,
})

/**
 * Converts an API failure to a refused form, which the page shows again with the submitted values. Its message explains
 * the failure, in this order: the form was sent before with other values; another admin has changed the resource (only
 * for forms that can show the saved values); fields are invalid; or else the message of the API. Errors for fields that
 * the form does not have are added to the message, because they cannot be shown beside a field.
 */
const toRefusedForm = (values: URLSearchParams, { code, fields, message }: ApiFailure): RefusedForm => ({
  values,
  errors: fields.filter(({ field }) => values.has(field)),
  message: code === "idempotency_key_reused"
    ? "This form was sent before, with other values. Nothing was changed now. Check the values, and send it again."
    : code === "precondition_failed" && values.has(resourceField)
    ? `The ${
      values.get(resourceField)
    } has changed since you opened this page. Nothing was saved. The saved values are ` +
      "beside the fields that differ. Check yours, and save again."
    : fields.length > 0
    ? ["Nothing was changed.", ...fields.flatMap(({ field, reason }) => values.has(field) ? [] : `${field} ${reason}.`)]
      .join(" ")
    : message,
  needsNewIdempotencyKey: code === "idempotency_key_reused",
})

const getQuery = ({ url }: HttpServerRequest.HttpServerRequest) =>
  new URLSearchParams(url.split("?").slice(1).join("?"))

/**
 * Returns the path of the sign-in page. If the request submitted a form, the sign-in page tells the admin that the form
 * was not saved.
 */
const makeLostSessionPath = ({ method, url }: HttpServerRequest.HttpServerRequest) =>
  `${makeSignInPath(url)}${method === "POST" ? "&form=1" : ""}`

/**
 * Responds to a failure of the API: redirects to the sign-in page if the session is missing or has ended, and otherwise
 * returns an error page.
 */
const respondToFailure = (failure: ApiFailure, page: ConsolePage, admin?: Admin) =>
  Effect.map(
    HttpServerRequest.HttpServerRequest,
    (request) =>
      failure.status === 401 ? makeRedirect(makeLostSessionPath(request)) : makeHtmlResponse(
        renderConsolePage(describeFailure(failure), { admin, pages: consolePages, path: page.path }),
        failure.status,
      ),
  )

const renderGet = Effect.fnUntraced(function* (page: ConsolePage, request: PageRequest) {
  const { admin, query } = request
  const content = yield* page.render(request)
  return makeHtmlResponse(
    renderConsolePage(content, { admin, pages: consolePages, path: page.path, done: query.get("done") }),
    content.status ?? 200,
  )
})

/**
 * Handles a submitted form. If it succeeds, redirects to a page that confirms it, or shows a new secret. If it is
 * refused, by the API or because a value cannot be sent, renders the page again with the submitted values and the
 * errors. A failure with status 401 is passed on, because the admin must sign in again.
 */
const runForm = Effect.fnUntraced(function* (page: ConsolePage, values: URLSearchParams, request: PageRequest) {
  const { admin } = request
  const shell = { admin, pages: consolePages, path: page.path }
  // For `disable:7`, the action is `disable`: the ID after the colon distinguishes the forms of a list.
  const [name = ""] = (values.get(formIdField) ?? "").split(":", 1)
  const action = page.actions !== undefined && Object.hasOwn(page.actions, name) ? page.actions[name] : undefined
  if (action === undefined) return yield* makeApiFailure(404, "This page has no such form.")
  const showRefused = Effect.fnUntraced(function* (refused: RefusedForm, status: number) {
    const content = yield* page.render({ ...request, refused })
    return makeHtmlResponse(renderConsolePage(content, { ...shell, refused }), status)
  })
  return yield* action(values, request).pipe(
    Effect.map((outcome) =>
      "shown" in outcome
        ? makeHtmlResponse(renderConsolePage(outcome.shown, shell), 200)
        : makeRedirect(`${outcome.to}${outcome.to.includes("?") ? "&" : "?"}done=${outcome.done}`)
    ),
    Effect.catchTags({
      ApiFailure: (failure) =>
        failure.status === 401 ? Effect.fail(failure) : showRefused(toRefusedForm(values, failure), failure.status),
      InvalidForm: ({ field, reason }) =>
        showRefused({
          values,
          errors: [{ field, reason }],
          message: "Nothing was changed.",
          needsNewIdempotencyKey: false,
        }, 422),
    }),
  )
})

/** Wraps the handler of a page so that every failure and defect becomes an error page. */
const withFailurePage =
  (page: ConsolePage) =>
  <R>(response: Effect.Effect<HttpServerResponse.HttpServerResponse, ApiFailure | FormRequestRefused, R>) =>
    response.pipe(
      Effect.catchTags({
        ApiFailure: (failure) => respondToFailure(failure, page),
        FormRequestRefused: ({ message, status }) => respondToFailure(makeApiFailure(status, message), page),
      }),
      Effect.catchDefect((defect) =>
        Effect.gen(function* () {
          const request_id = yield* AdminRequestId
          const { error: { code, message } } = yield* logDefectAsInternalError(defect, request_id)
          return yield* respondToFailure(new ApiFailure({ status: 500, code, message, fields: [], request_id }), page)
        })
      ),
    )

/**
 * Handles a request for a page: GET renders the page, and POST handles a submitted form. The form is read and its
 * origin checked before the admin is identified. Fails with 403 if the admin's scope is lower than the page requires.
 */
const handlePage = (page: ConsolePage, api: ConsoleApi, adminOrigin: string) =>
  Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const form = request.method === "POST" ? yield* readForm(adminOrigin) : undefined
    const respond = Effect.fnUntraced(function* (admin: Admin) {
      if (!isScopeSufficient(admin.scope, page.scope ?? "read")) {
        return yield* makeApiFailure(403, `This page requires the scope ${page.scope}; you have ${admin.scope}.`)
      }
      const pageRequest = { api, admin, query: getQuery(request) }
      return form === undefined ? yield* renderGet(page, pageRequest) : yield* runForm(page, form, pageRequest)
    })
    return yield* callAdminApi(api.read.tokens.me({})).pipe(
      Effect.flatMap((admin) =>
        Effect.catchTag(respond(admin), "ApiFailure", (failure) => respondToFailure(failure, page, admin))
      ),
    )
  }).pipe(withFailurePage(page))

/** Ends the session and removes the session cookie, even if the session had already ended. */
const signOut = (api: ConsoleApi, adminOrigin: string) =>
  readForm(adminOrigin).pipe(
    Effect.flatMap((form) => api.write(apiUrl.tokens.signOut(), { form })),
    Effect.catchIf((failure) => failure._tag === "ApiFailure" && failure.status === 401, () => Effect.void),
    Effect.as(HttpServerResponse.expireCookieUnsafe(makeRedirect(signInPath), sessionCookie, { path: "/console" })),
  )

const loadConsoleAssets = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const styles = yield* Effect.flatMap(path.fromFileUrl(new URL("./console.css", import.meta.url)), fs.readFileString)
  return [...(yield* loadAssets), { name: "console.css", contentType: "text/css; charset=utf-8", text: styles }]
}).pipe(Effect.orDie)

const notFoundPage: ConsolePage = {
  path: "/console/:page/*",
  render: () => makeApiFailure(404, "The console has no such page."),
}

/** The routes of the console. They are added to the router that also serves the admin API. */
export const consoleLayer = HttpRouter.use(Effect.fnUntraced(function* (router) {
  const api = yield* makeConsoleApi(router)
  const adminOrigin = Option.getOrThrow(yield* AdminOriginConfig)
  for (const { contentType, name, text } of yield* loadConsoleAssets) {
    const headers = { "cache-control": "private, max-age=300", "x-content-type-options": "nosniff" }
    const asset = HttpServerResponse.text(text, { contentType, headers })
    yield* router.add("GET", `${consoleAssetPath}/${name}`, asset)
  }
  yield* router.add("GET", "/", makeRedirect(homePath))
  for (const page of [...consolePages, notFoundPage]) {
    const handle = handlePage(page, api, adminOrigin)
    yield* router.add("GET", page.path, handle)
    yield* router.add("POST", page.path, handle)
  }
  yield* router.add("POST", signOutPath, signOut(api, adminOrigin).pipe(withFailurePage(notFoundPage)))
}))
