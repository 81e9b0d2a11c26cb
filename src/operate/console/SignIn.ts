/**
 * Signs admins in to the console with an admin token, an invitation, or OpenID Connect (docs/operations/console.md).
 */
import { Duration, Effect, Option, Redacted, Schema } from "effect"
import { type Digest, SecureRandom } from "effect/crypto"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { SqlClient, type SqlError } from "effect/sql"
import { AdminRequestId } from "../admin/AdminAccess.ts"
import { logRefusedRequest, withDatabaseErrors } from "../admin/AdminRequests.ts"
import { AdminOriginConfig } from "../admin/AdminSettings.ts"
import {
  acceptInvitation,
  findAdminToken,
  findInvitation,
  type IdentifiedAdmin,
  openSession,
  SignInRefused,
} from "../admin/AdminTokens.ts"
import { withActor } from "../../postgres/SessionActor.ts"
import { logDefectAsInternalError } from "../../contract/rules/QueryValidation.ts"
import { sessionCookie } from "./ConsoleApi.ts"
import { makePageUrl, renderConsolePage } from "./ConsolePage.ts"
import { homePath, invitationPath, signInPath, toConsolePath } from "./ConsolePaths.ts"
import { makeHtmlResponse, makeRedirect } from "./ConsoleResponse.ts"
import { OpenIdConnect, PendingSignIn, ProviderUnavailable } from "./OpenIdConnect.ts"
import { type Html, markup } from "../../site/browser/markup.js"
import { type FormRequestRefused, readForm } from "./ReceivedForm.ts"
import { renderHiddenField } from "./Forms.ts"

/**
 * Returns the cookie name for a sign-in. Each sign-in has a separate cookie, because several may be in progress in
 * different tabs of the same browser.
 */
const makePendingCookie = (state: string | null) => `tickerline_sign_in_${state?.slice(0, 8).replace(/\W/g, "_")}`

const oidcPath = `${signInPath}/openid`
const callbackPath = `${signInPath}/callback`

const renderPage = (body: Html) =>
  renderConsolePage({ title: "Sign in to the console", body }, { pages: [], path: signInPath })

interface SignInForm {
  /** The console path to open after the sign-in. */
  readonly to: string
  readonly hasProvider: boolean
  /** Why the last attempt to sign in failed. */
  readonly error?: string
}

/** Renders the sign-in form, with a link to the identity provider if there is one. */
const renderSignIn = ({ error, hasProvider, to }: SignInForm) =>
  renderPage(markup`${error !== undefined && markup`<div class="notice" role="alert"><p>${error}</p></div>`}
${
    hasProvider &&
    markup`<p><a class="button" href="${makePageUrl(oidcPath, { to })}">Sign in with your organization</a></p>`
  }
<form method="post" action="${signInPath}">
${renderHiddenField("to", to)}
<label for="token">Admin token</label>
<div class="field"><input id="token" name="token" type="password" autocomplete="current-password" required
 spellcheck="false" autocapitalize="off"><button class="main">Sign in</button></div>
<p class="quiet">The command <code>tickerline admin tokens create</code> creates a token, and
 <code>tickerline admin invite</code> a link that signs you in once.</p>
</form>`)

const renderInvitation = (name: string, scope: string, invitation: string) =>
  renderPage(
    markup`<p>You are invited as <strong>${name}</strong>, with the scope ${scope}. The link works once, and
 the session ends after 12 hours, or after an hour without use.</p>
<form method="post" action="${invitationPath}">${renderHiddenField("invitation", invitation)}
<button class="main">Sign in as ${name}</button></form>`,
  )

const getTarget = (request: HttpServerRequest.HttpServerRequest, adminOrigin: string) =>
  new URL(request.url, adminOrigin)

const setCookie = (name: string, value: string, isSecure: boolean, seconds?: number) =>
  HttpServerResponse.setCookieUnsafe(name, value, {
    path: "/console",
    httpOnly: true,
    secure: isSecure,
    sameSite: "lax",
    ...(seconds !== undefined && { maxAge: Duration.seconds(seconds) }),
  })

const identifyByToken = Effect.fnUntraced(function* (token: Redacted.Redacted) {
  const found = yield* findAdminToken(token)
  if (found?.kind !== "token") {
    return yield* new SignInRefused({ message: "The admin token is unknown, revoked or expired." })
  }
  const admin: IdentifiedAdmin = {
    name: found.name,
    scope: found.scope,
    created_by: `token ${found.name}`,
    opened_with: found.token_id,
  }
  return admin
})

const identifyByInvitation = Effect.fnUntraced(function* (invitation: Redacted.Redacted) {
  const { created_by, name, scope } = yield* findInvitation(invitation)
  const admin: IdentifiedAdmin = { name, scope, created_by: `invitation of ${created_by}`, opened_with: null }
  return admin
})

const encodePending = (pending: PendingSignIn) => Effect.orDie(Schema.encodeEffect(PendingSignIn)(pending))

const decodePending = (text: string) =>
  Schema.decodeUnknownEffect(PendingSignIn)(text).pipe(
    Effect.mapError(() =>
      new SignInRefused({
        message: "This sign-in was not begun in this browser, or more than ten minutes ago. Sign in again.",
      })
    ),
  )

/**
 * Creates the steps that all three ways to sign in share:
 *
 * - `renderForm` renders the sign-in form. `to` is the console path to open after the sign-in.
 * - `signIn` opens a session for an identified admin.
 * - `withSignInForm` turns the failure of a route into the sign-in form with the error message.
 *
 * `adminOrigin` is the console's address, such as `https://console.example.com`. With HTTPS (`isSecure`), browsers must
 * never send the cookies unencrypted.
 */
const makeSignInSteps = Effect.gen(function* () {
  const services = yield* Effect.context<SqlClient.SqlClient | Digest.Digest | SecureRandom.SecureRandom>()
  const hasProvider = Option.isSome(yield* OpenIdConnect)
  const adminOrigin = Option.getOrThrow(yield* AdminOriginConfig)
  const isSecure = adminOrigin.startsWith("https:")

  const renderForm = (form: Omit<SignInForm, "hasProvider">, status = 200) =>
    makeHtmlResponse(renderSignIn({ ...form, hasProvider }), status)

  /**
   * Opens a session for the admin, sets its cookie, and redirects to the page at `to`. `operation` is the name of the
   * sign-in in the audit log. `beforeSession` runs first, in the same transaction: if it fails, no session is opened,
   * and if the session cannot be opened, its changes are rolled back.
   */
  const signIn = Effect.fnUntraced(
    function* <E, R>(
      admin: IdentifiedAdmin,
      operation: string,
      to: string,
      beforeSession: Effect.Effect<unknown, E, R>,
    ) {
      const { remoteAddress } = yield* HttpServerRequest.HttpServerRequest
      const origin = Option.getOrElse(remoteAddress, () => "unknown")
      const actor = { actor: admin.name, via: "admin" as const, origin, operation }
      const session = yield* withActor(actor, Effect.andThen(beforeSession, openSession(admin)))
      return makeRedirect(to).pipe(setCookie(sessionCookie, session, isSecure))
    },
  )

  /** Returns the handler of an error: it shows the sign-in form with the error's message and the given HTTP status. */
  const showError = (to: string, status: number) => ({ message }: { readonly message: string }) =>
    Effect.succeed(renderForm({ to, error: message }, status))

  /** If the response fails, shows the sign-in form with the error message. Signing in from that form opens `to`. */
  const withSignInForm = (to: string) =>
  <R>(
    response: Effect.Effect<
      HttpServerResponse.HttpServerResponse,
      FormRequestRefused | ProviderUnavailable | SignInRefused | SqlError.SqlError,
      R
    >,
  ) =>
    response.pipe(
      withDatabaseErrors,
      Effect.catchTags({
        DatabaseRoleInsufficient: ({ error }) => showError(to, 503)(error),
        DatabaseUnavailable: ({ error }) => showError(to, 503)(error),
        FormRequestRefused: (refused) => showError(to, refused.status)(refused),
        ProviderUnavailable: showError(to, 502),
        SignInRefused: (refused) =>
          Effect.andThen(logRefusedRequest(`sign-in: ${refused.message}`), showError(to, 403)(refused)),
      }),
      Effect.catchDefect((defect) =>
        Effect.gen(function* () {
          const request_id = yield* AdminRequestId
          yield* logDefectAsInternalError(defect, request_id)
          const message = `Something went wrong. The log has the details under ${request_id}.`
          return yield* showError(to, 500)({ message })
        })
      ),
      Effect.provideContext(services),
    )

  return { adminOrigin, isSecure, renderForm, signIn, withSignInForm }
})

type SignInSteps = Effect.Success<typeof makeSignInSteps>

/** Adds the routes for signing in with an admin token: GET shows the sign-in form, and POST handles it. */
const addTokenRoutes = Effect.fnUntraced(function* (router: HttpRouter.HttpRouter, steps: SignInSteps) {
  const { adminOrigin, renderForm, signIn, withSignInForm } = steps
  yield* router.add("GET", signInPath, (request) => {
    const parameters = getTarget(request, adminOrigin).searchParams
    const to = toConsolePath(parameters.get("to"))
    // The console redirects here with the parameter `form` if the session had ended when a form was submitted.
    const error = "Your session has ended, so the form was not saved. Sign in, and send it again."
    return Effect.succeed(renderForm({ to, ...(parameters.has("form") && { error }) }))
  })
  yield* router.add("POST", signInPath, () =>
    readForm(adminOrigin).pipe(
      Effect.flatMap((form) => {
        const to = toConsolePath(form.get("to"))
        const token = Redacted.make((form.get("token") ?? "").trim())
        return identifyByToken(token).pipe(
          // Nothing else happens in the session's transaction. An invitation would be accepted in it.
          Effect.flatMap((admin) => signIn(admin, "sign in with a token", to, Effect.void)),
          withSignInForm(to),
        )
      }),
      // For failures of `readForm`: the form could not be read, so its path `to` is not known.
      withSignInForm(homePath),
    ))
})

/**
 * Adds the routes for signing in with an invitation. GET, which the invitation's link opens, shows whom the invitation
 * is for, and does not use it up. POST signs in, and uses it up.
 */
const addInvitationRoutes = Effect.fnUntraced(function* (router: HttpRouter.HttpRouter, steps: SignInSteps) {
  const { adminOrigin, signIn, withSignInForm } = steps
  yield* router.add("GET", invitationPath, (request) => {
    const invitation = getTarget(request, adminOrigin).searchParams.get("invitation") ?? ""
    return findInvitation(Redacted.make(invitation)).pipe(
      Effect.map(({ name, scope }) => makeHtmlResponse(renderInvitation(name, scope, invitation))),
      withSignInForm(homePath),
    )
  })
  yield* router.add("POST", invitationPath, () =>
    readForm(adminOrigin).pipe(
      Effect.flatMap((form) => {
        const invitation = Redacted.make(form.get("invitation") ?? "")
        return Effect.flatMap(
          identifyByInvitation(invitation),
          (admin) => signIn(admin, "sign in with an invitation", homePath, acceptInvitation(invitation)),
        )
      }),
      withSignInForm(homePath),
    ))
})

/**
 * Adds the two routes for signing in with OpenID Connect. The first sends the browser to the identity provider, and
 * stores in a cookie the values that the provider's response is checked against. The second signs the admin in when the
 * provider sends the browser back.
 */
const addOpenIdConnectRoutes = Effect.fnUntraced(
  function* (
    router: HttpRouter.HttpRouter,
    { adminOrigin, isSecure, signIn, withSignInForm }: SignInSteps,
    provider: Option.Option.Value<typeof OpenIdConnect.Service>,
  ) {
    yield* router.add("GET", oidcPath, (request) => {
      const to = toConsolePath(getTarget(request, adminOrigin).searchParams.get("to"))
      return Effect.gen(function* () {
        const { pending, url } = yield* provider.begin(adminOrigin + callbackPath, to)
        const value = Buffer.from(yield* encodePending(pending)).toString("base64url")
        // The admin has 600 seconds to sign in at the provider.
        return makeRedirect(url.href).pipe(setCookie(makePendingCookie(pending.state), value, isSecure, 600))
      }).pipe(withSignInForm(to))
    })
    yield* router.add("GET", callbackPath, (request) =>
      Effect.gen(function* () {
        const target = getTarget(request, adminOrigin)
        const cookie = makePendingCookie(target.searchParams.get("state"))
        // Without the cookie, the empty text fails to decode.
        const pending = yield* decodePending(Buffer.from(request.cookies[cookie] ?? "", "base64url").toString())
        const admin = yield* provider.finish(target, pending)
        const response = yield* signIn(admin, "sign in with OpenID Connect", toConsolePath(pending.to), Effect.void)
        return HttpServerResponse.expireCookieUnsafe(response, cookie, { path: "/console" })
      }).pipe(withSignInForm(homePath)))
  },
)

/**
 * Adds the routes of the sign-in pages: sign in with an admin token, with an invitation, or, if an identity provider is
 * configured, with OpenID Connect.
 */
export const signInLayer = HttpRouter.use(Effect.fnUntraced(function* (router) {
  const steps = yield* makeSignInSteps
  yield* addTokenRoutes(router, steps)
  yield* addInvitationRoutes(router, steps)
  const provider = yield* OpenIdConnect
  if (Option.isSome(provider)) yield* addOpenIdConnectRoutes(router, steps, provider.value)
}))
