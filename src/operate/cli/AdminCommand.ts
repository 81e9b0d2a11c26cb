/** The `admin` command: manages admin API tokens, and prints invitations to the console. */
import { Console, Data, Effect, Option, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import { SqlError } from "effect/sql"
import { TrimmedName } from "../../accounts/TrimmedName.ts"
import { adminScopes } from "../admin/AdminErrors.ts"
import { AdminOriginConfig } from "../admin/AdminSettings.ts"
import * as Tokens from "../admin/AdminTokens.ts"
import { migratedDatabaseClientLayer } from "../../postgres/ConnectionLayers.ts"
import { ProcessActor } from "../../postgres/SessionActor.ts"
import { describeSqlError } from "../../postgres/FailureText.ts"
import { makeArgument, makeFlag, withExamples, withPipeableExamples } from "./CommandParts.ts"
import { makeInvitationUrl } from "../console/ConsolePaths.ts"
import { ExpiryDate } from "../../accounts/keys/ExpiryDate.ts"
import { formatTimeCell, printTextTable } from "./terminal/TextTable.ts"

const scopeFlag = Flag.Literals("scope", adminScopes).pipe(
  Flag.withDescription("read: see everything; support: also manage keys and addresses; admin: everything"),
)

/** The PostgreSQL role in `DATABASE_URL` is not allowed to manage admins. The message suggests a role that is. */
class AdminRoleNeeded extends Data.TaggedError("AdminRoleNeeded")<{ readonly message: string }> {}

/**
 * If PostgreSQL denies access to the role in `DATABASE_URL`, fails with an error that suggests a role that has access.
 */
const explainWrongRole = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.catchIf(
    effect,
    (error: E): error is E & SqlError.SqlError =>
      SqlError.isSqlError(error) && error.reason._tag === "AuthorizationError",
    (error) =>
      Effect.fail(
        new AdminRoleNeeded({
          message: `The role of DATABASE_URL may not manage admins (${describeSqlError(error)}). Use the role of the ` +
            'admin API or the owner of the tables: DATABASE_URL="$ADMIN_DATABASE_URL" tickerline admin …',
        }),
      ),
  )

const createCommand = Command.make(
  "create",
  {
    name: makeFlag("name", TrimmedName, "Who uses the token; the audit log shows this name"),
    scope: scopeFlag,
    expires: Flag.optional(
      makeFlag("expires", ExpiryDate, "Last day on which the token works, in New York, YYYY-MM-DD"),
    ),
  },
  Effect.fnUntraced(function* ({ expires, name, scope }) {
    const created_by = (yield* ProcessActor)?.actor ?? "unknown"
    const token = yield* Tokens.createAdminToken({ name, scope, expires: Option.getOrNull(expires), created_by }).pipe(
      explainWrongRole,
    )
    yield* Console.error(`The admin token of ${name}, which cannot be shown again:`)
    yield* Console.log(token)
  }),
).pipe(
  Command.withDescription("Create a token and print it; it cannot be shown again"),
  withPipeableExamples({
    "admin tokens create --name alice --scope support": "Print only the token on standard output",
  }),
)

const listCommand = Command.make(
  "list",
  {},
  Effect.fnUntraced(function* () {
    const tokens = (yield* Tokens.listAdminTokens()).toReversed()
    yield* printTextTable({
      columns: [
        { name: "id", isNumber: true },
        ...["kind", "name", "scope", "hint", "created by"].map((name) => ({ name })),
        ...["created", "expires", "revoked", "last used"].map((name) => ({ name: `${name} (UTC-5)` })),
      ],
      rows: tokens.map((token) => [
        String(token.token_id),
        token.kind,
        token.name,
        token.scope,
        token.token_hint,
        token.created_by,
        formatTimeCell(token.created_at),
        formatTimeCell(token.expires_at),
        formatTimeCell(token.revoked_at),
        formatTimeCell(token.last_used_at),
      ]),
    })
  }),
).pipe(
  Command.withDescription("List tokens, open sessions and invitations in a table"),
  withPipeableExamples({ "admin tokens list": "Find the ID of a token to revoke" }),
)

const TokenId = Schema.String.check(
  Schema.isPattern(/^\d{1,9}$/, { message: "must be the ID of a token, which `admin tokens list` prints" }),
).pipe(Schema.decodeTo(Schema.NumberFromString))

const revokeCommand = Command.make(
  "revoke",
  { id: makeArgument("id", TokenId, "ID of the token, as listed") },
  Effect.fnUntraced(function* ({ id }) {
    yield* Tokens.revokeAdminToken(id)
    yield* Console.log(`Admin token ${id} is revoked.`)
  }),
).pipe(
  Command.withDescription("Revoke a token permanently; its next request is refused"),
  withExamples({ "admin tokens revoke 3": "Token 3 is revoked" }),
)

const tokensCommand = Command.make("tokens").pipe(
  Command.withDescription("Manage tokens of the admin API"),
  withExamples({ "admin tokens list": "List all tokens" }),
  Command.withSubcommands([createCommand, listCommand, revokeCommand]),
)

/** The console's URL is unknown, so the invitation link cannot be printed. */
class ConsoleAddressUnknown extends Data.TaggedError("ConsoleAddressUnknown")<{ readonly message: string }> {}

const inviteCommand = Command.make(
  "invite",
  {
    name: makeFlag("name", TrimmedName, "Who signs in with the link; the audit log shows this name"),
    scope: scopeFlag.pipe(Flag.withDefault("admin")),
  },
  Effect.fnUntraced(function* ({ name, scope }) {
    const origin = yield* AdminOriginConfig
    if (Option.isNone(origin)) {
      return yield* new ConsoleAddressUnknown({
        message: "The address of the console is unknown. Set ADMIN_PORT or ADMIN_URL as for `serve`, and try again.",
      })
    }
    const created_by = (yield* ProcessActor)?.actor ?? "unknown"
    const invitation = yield* Tokens.createInvitation({ name, scope, created_by }).pipe(explainWrongRole)
    yield* Console.error(`${name} signs in to the console with this link, which works once, within an hour:`)
    yield* Console.log(makeInvitationUrl(origin.value, invitation))
  }),
).pipe(
  Command.withDescription("Print a link that opens the console once"),
  withPipeableExamples({ "admin invite --name alice": "Print a link for the first sign-in to the console" }),
)

/** `admin`: manages admin tokens and invitations. */
export const adminCommand = Command.make("admin").pipe(
  Command.withDescription("Manage access to the admin API and the console"),
  withExamples({ "admin tokens list": "List all tokens" }),
  Command.withSubcommands([inviteCommand, tokensCommand]),
  Command.provide(migratedDatabaseClientLayer),
)
