/** The access rules of the admin API: who sends a request, and which scope its endpoint requires. */
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

/** The id of the request that is being answered (D12). */
export const AdminRequestId = Context.Reference<string>("tickerline/operate/AdminRequestId", {
  defaultValue: () => makeRequestId(),
})

/** The admin who sends a request. */
export class CurrentAdmin extends Context.Service<CurrentAdmin, {
  readonly token_id: number
  /** `session` if the request comes from the console. */
  readonly kind: "session" | "token"
  /** The name of the token, or of the person who has signed in. */
  readonly name: string
  readonly scope: AdminScope
  /** The token with which the session was opened. */
  readonly opened_with: number | null
  readonly expires_at: string | null
}>()("tickerline/operate/CurrentAdmin") {}

/** The scope that an endpoint requires. An endpoint that does not state it requires the highest one. */
export const RequiredScope = Context.Reference<AdminScope>("tickerline/operate/RequiredScope", {
  defaultValue: () => "admin",
})

export const isScopeSufficient = (scope: AdminScope, required: AdminScope) =>
  adminScopes.indexOf(scope) >= adminScopes.indexOf(required)

/** Authenticates a request, and checks the scope that its endpoint requires. */
export class AdminAccess extends HttpApiMiddleware.Service<AdminAccess, { provides: CurrentAdmin }>()(
  "tickerline/operate/AdminAccess",
  {
    security: { token: HttpApiSecurity.bearer },
    error: [InvalidAdminToken, InsufficientScope, DatabaseRoleInsufficient, DatabaseUnavailable, InternalError],
  },
) {}

/**
 * Runs a write in a transaction, in the name of the admin; with an `Idempotency-Key` only once. Turns other failures
 * into declared errors. Must be declared before `AdminAccess`, so that it runs within.
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
