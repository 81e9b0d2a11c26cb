/** Who may use the admin API: how a request is authenticated, and which scope its endpoint requires. */
import { Context } from "effect"
import { HttpApiMiddleware, HttpApiSecurity } from "effect/http-api"
import { InternalError, ValidationError } from "../../contract/rules/Errors.ts"
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

/** The id of the current request (D12). */
export const AdminRequestId = Context.Reference<string>("tickerline/operate/AdminRequestId", {
  defaultValue: () => makeRequestId(),
})

/** The admin who sent the request. */
export class CurrentAdmin extends Context.Service<CurrentAdmin, {
  readonly token_id: number
  /** `session` if the request comes from the console, otherwise `token`. */
  readonly kind: "session" | "token"
  /** The name of the token, or of the person who signed in. */
  readonly name: string
  readonly scope: AdminScope
  /** The token with which the session was opened, if it was. */
  readonly opened_with: number | null
  readonly expires_at: string | null
}>()("tickerline/operate/CurrentAdmin") {}

/** The scope that an endpoint requires. An endpoint that does not set it requires the highest one. */
export const RequiredScope = Context.Reference<AdminScope>("tickerline/operate/RequiredScope", {
  defaultValue: () => "admin",
})

/** Whether an admin with one scope may use an endpoint that requires another. */
export const isScopeSufficient = (scope: AdminScope, required: AdminScope) =>
  adminScopes.indexOf(scope) >= adminScopes.indexOf(required)

/** Authenticates a request, and checks that the admin has the scope that the endpoint requires. */
export class AdminAccess extends HttpApiMiddleware.Service<AdminAccess, { provides: CurrentAdmin }>()(
  "tickerline/operate/AdminAccess",
  {
    security: { token: HttpApiSecurity.bearer },
    error: [InvalidAdminToken, InsufficientScope, DatabaseRoleInsufficient, DatabaseUnavailable, InternalError],
  },
) {}

/**
 * Runs a write in a transaction that the audit log attributes to the admin. With an `Idempotency-Key`, runs it only
 * once. Converts other failures to errors that the endpoint declares. Must be declared before `AdminAccess`, so that it
 * runs inside it.
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
