/** Access control for the admin API: how requests are authenticated, and which scope each endpoint requires. */
import { Context } from "effect"
import { HttpApiMiddleware, HttpApiSecurity } from "effect/http-api"
import { InternalError, ValidationError } from "../../contract/rules/ApiErrors.ts"
import { makeRequestId } from "../../contract/rules/RequestIds.ts"
import {
  type AdminScope,
  adminScopes,
  ContentTooLarge,
  DatabaseRoleInsufficient,
  DatabaseUnavailable,
  IdempotencyKeyReused,
  InsufficientScope,
  InvalidAdminToken,
} from "./AdminErrors.ts"

/** The ID of the current admin API request, which error responses contain (D12, request id). */
export const AdminRequestId = Context.Reference<string>("tickerline/operate/AdminRequestId", {
  defaultValue: () => makeRequestId(),
})

/** The admin who sent the request. */
export class CurrentAdmin extends Context.Service<CurrentAdmin, {
  readonly token_id: number
  /** `session` for requests from the console, otherwise `token`. */
  readonly kind: "session" | "token"
  /** The name of the token, or of the person who signed in to the console. */
  readonly name: string
  readonly scope: AdminScope
  /**
   * The ID of the token with which the admin opened the session in the console. Null if the request was sent with a
   * token, or if the session was opened in another way.
   */
  readonly opened_with: number | null
  readonly expires_at: string | null
}>()("tickerline/operate/CurrentAdmin") {}

/**
 * The scope that an endpoint requires. Defaults to the highest scope, so that an endpoint that declares none is not
 * open to everyone.
 */
export const RequiredScope = Context.Reference<AdminScope>("tickerline/operate/RequiredScope", {
  defaultValue: () => "admin",
})

/** Returns whether an admin with `scope` may use an endpoint that requires `required`. */
export const isScopeSufficient = (scope: AdminScope, required: AdminScope) =>
  adminScopes.indexOf(scope) >= adminScopes.indexOf(required)

/** Middleware that authenticates a request and checks that the admin has the scope that the endpoint requires. */
export class AdminAccess extends HttpApiMiddleware.Service<AdminAccess, { provides: CurrentAdmin }>()(
  "tickerline/operate/AdminAccess",
  {
    security: { token: HttpApiSecurity.bearer },
    error: [InvalidAdminToken, InsufficientScope, DatabaseRoleInsufficient, DatabaseUnavailable, InternalError],
  },
) {}

/**
 * Middleware that runs a write in a transaction, which the audit log attributes to the admin. If the request has an
 * `Idempotency-Key`, the write runs only once. Failures of PostgreSQL and of validation are converted to errors that
 * the endpoint declares. Must be declared before `AdminAccess`, so that it runs inside `AdminAccess`.
 */
export class AdminTransaction extends HttpApiMiddleware.Service<AdminTransaction, { requires: CurrentAdmin }>()(
  "tickerline/operate/AdminTransaction",
  {
    error: [
      ContentTooLarge,
      ValidationError,
      IdempotencyKeyReused,
      DatabaseRoleInsufficient,
      DatabaseUnavailable,
      InternalError,
    ],
  },
) {}
