/** The errors of the admin API. Errors that the public API also returns are in `contract/rules/ApiErrors.ts`. */
import { Schema } from "effect"
import { describeError, makeErrorFields, makeErrorFieldsWithDetails } from "../../contract/rules/ApiErrors.ts"

/** The permission levels of admins, lowest first. Each scope includes all lower ones. */
export const adminScopes = ["read", "support", "admin"] as const
/** The permission level of an admin. The annotations describe each scope in the OpenAPI document. */
export const AdminScope = Schema.Literals(adminScopes).annotate({
  identifier: "AdminScope",
  description:
    "`read`: see everything. `support`: also manage keys, contact addresses and emails. `admin`: everything.",
})
/** The permission level of an admin. */
export type AdminScope = typeof AdminScope.Type

/** 401: the request has no valid admin token. */
export class InvalidAdminToken extends Schema.Error<InvalidAdminToken>("InvalidAdminToken")(
  makeErrorFields("invalid_admin_token"),
  describeError(401, "The admin token is missing, unknown, revoked or expired."),
) {
  readonly _tag = "InvalidAdminToken"
}

/** 403: the endpoint requires a higher scope than the token has. */
export class InsufficientScope extends Schema.Error<InsufficientScope>("InsufficientScope")(
  makeErrorFieldsWithDetails(
    "insufficient_scope",
    Schema.Struct({ required_scope: AdminScope, scope: AdminScope }),
  ),
  describeError(403, "The token's scope does not include the endpoint."),
) {
  readonly _tag = "InsufficientScope"
}

/** 403: the PostgreSQL role of the admin API lacks a privilege that the request needs. */
export class DatabaseRoleInsufficient extends Schema.Error<DatabaseRoleInsufficient>("DatabaseRoleInsufficient")(
  makeErrorFields("database_role_insufficient"),
  describeError(403, "The PostgreSQL role of the admin API lacks a privilege. ADMIN_DATABASE_URL sets another role."),
) {
  readonly _tag = "DatabaseRoleInsufficient"
}

/** 409: the current state of the resource does not allow the change. */
export class Conflict extends Schema.Error<Conflict>("Conflict")(
  {
    ...makeErrorFields("conflict"),
    error: Schema.Struct({
      code: Schema.Literals([
        "already_exists",
        "already_credited",
        "account_is_postpaid",
        "account_erased",
        "key_not_active",
        "key_already_replaced",
      ]),
      message: Schema.String,
    }),
  },
  describeError(409, "The state of the resource does not permit the change; `code` says why."),
) {
  readonly _tag = "Conflict"
}

/** 412: the `If-Match` header does not match, because the resource has changed since the client last read it. */
export class PreconditionFailed extends Schema.Error<PreconditionFailed>("PreconditionFailed")(
  makeErrorFields("precondition_failed"),
  describeError(412, "The resource has changed since the ETag in `If-Match`. Read it again."),
) {
  readonly _tag = "PreconditionFailed"
}

/** 413: the request body is too large. */
export class ContentTooLarge extends Schema.Error<ContentTooLarge>("ContentTooLarge")(
  makeErrorFields("bad_request"),
  describeError(413, "The body exceeds 1 MiB."),
) {
  readonly _tag = "ContentTooLarge"
}

/** 415: the request body is compressed, which the admin API does not support. */
export class UnsupportedContentEncoding extends Schema.Error<UnsupportedContentEncoding>("UnsupportedContentEncoding")(
  makeErrorFields("unsupported_content_encoding"),
  describeError(415, "The body is compressed."),
) {
  readonly _tag = "UnsupportedContentEncoding"
}

/** 422: a different request has already used this `Idempotency-Key`. */
export class IdempotencyKeyReused extends Schema.Error<IdempotencyKeyReused>("IdempotencyKeyReused")(
  makeErrorFields("idempotency_key_reused"),
  describeError(422, "Another request within the last 24 hours had the same `Idempotency-Key`."),
) {
  readonly _tag = "IdempotencyKeyReused"
}

/** 428: the endpoint requires an `If-Match` header. */
export class PreconditionRequired extends Schema.Error<PreconditionRequired>("PreconditionRequired")(
  makeErrorFields("precondition_required"),
  describeError(428, "The change needs `If-Match` with the ETag of the resource, or `*`."),
) {
  readonly _tag = "PreconditionRequired"
}

/** 503: PostgreSQL is unreachable or did not respond in time. A write may still have been committed. */
export class DatabaseUnavailable extends Schema.Error<DatabaseUnavailable>("DatabaseUnavailable")(
  makeErrorFields("database_unavailable"),
  describeError(503, "PostgreSQL cannot be reached, or did not answer in time."),
) {
  readonly _tag = "DatabaseUnavailable"
}
