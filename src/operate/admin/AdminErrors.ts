/** The errors of the admin API. Errors that it shares with the public API are in `contract/rules/Errors.ts`. */
import { Schema } from "effect"
import { describeError, makeErrorFields, makeErrorFieldsWithDetails } from "../../contract/rules/Errors.ts"

/** What an admin may do. Each scope includes the ones before it. */
export const adminScopes = ["read", "support", "admin"] as const
/** A scope. Its annotations describe the scopes in the OpenAPI document. */
export const AdminScope = Schema.Literals(adminScopes).annotate({
  identifier: "AdminScope",
  description:
    "`read`: see everything. `support`: also manage keys, contact addresses and emails. `admin`: everything.",
})
/** A scope. */
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

/** 403: the admin API's PostgreSQL role lacks a privilege for this. */
export class DatabaseRoleInsufficient extends Schema.Error<DatabaseRoleInsufficient>("DatabaseRoleInsufficient")(
  makeErrorFields("database_role_insufficient"),
  describeError(403, "The PostgreSQL role of the admin API lacks a privilege. ADMIN_DATABASE_URL sets another role."),
) {
  readonly _tag = "DatabaseRoleInsufficient"
}

/** 409: the resource's current state does not permit the change. */
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

/** 412: the resource has changed since the client read it. */
export class PreconditionFailed extends Schema.Error<PreconditionFailed>("PreconditionFailed")(
  makeErrorFields("precondition_failed"),
  describeError(412, "The resource has changed since the ETag in `If-Match`. Read it again."),
) {
  readonly _tag = "PreconditionFailed"
}

/** 413: the body is too long. */
export class ContentTooLarge extends Schema.Error<ContentTooLarge>("ContentTooLarge")(
  makeErrorFields("bad_request"),
  describeError(413, "The body exceeds 1 MiB."),
) {
  readonly _tag = "ContentTooLarge"
}

/** 415: the body is compressed. */
export class UnsupportedContentEncoding extends Schema.Error<UnsupportedContentEncoding>("UnsupportedContentEncoding")(
  makeErrorFields("unsupported_content_encoding"),
  describeError(415, "The body is compressed."),
) {
  readonly _tag = "UnsupportedContentEncoding"
}

/** 422: another request had the same `Idempotency-Key`. */
export class IdempotencyKeyReused extends Schema.Error<IdempotencyKeyReused>("IdempotencyKeyReused")(
  makeErrorFields("idempotency_key_reused"),
  describeError(422, "Another request within the last 24 hours had the same `Idempotency-Key`."),
) {
  readonly _tag = "IdempotencyKeyReused"
}

/** 428: the request needs an `If-Match` header. */
export class PreconditionRequired extends Schema.Error<PreconditionRequired>("PreconditionRequired")(
  makeErrorFields("precondition_required"),
  describeError(428, "The change needs `If-Match` with the ETag of the resource, or `*`."),
) {
  readonly _tag = "PreconditionRequired"
}

/** 503: PostgreSQL cannot be reached, or did not respond in time. A write may nevertheless have been committed. */
export class DatabaseUnavailable extends Schema.Error<DatabaseUnavailable>("DatabaseUnavailable")(
  makeErrorFields("database_unavailable"),
  describeError(503, "PostgreSQL cannot be reached, or did not answer in time."),
) {
  readonly _tag = "DatabaseUnavailable"
}
