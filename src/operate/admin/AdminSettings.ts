/**
 * Settings of the admin API and the console. They are in a separate module so that other commands do not load the
 * server.
 */
import { Config, Option, Schema } from "effect"
import { PostgresUrl } from "../../postgres/pool/ConnectionSettings.ts"
import { AdminScope, adminScopes } from "./AdminErrors.ts"

/** The port of the admin API. If unset, the admin API is disabled. */
export const AdminPortConfig = Config.option(Config.Port("ADMIN_PORT"))
/** The address that the admin API listens on. */
export const AdminHostConfig = Config.NonEmptyString("ADMIN_HOST").pipe(Config.withDefault("127.0.0.1"))

/**
 * At most this many requests of the admin API use a PostgreSQL connection at the same time. A single admin may use all
 * but one of these connections, and therefore cannot block other admins.
 */
export const maxConcurrentAdminRequests = 3

/** The number of PostgreSQL connections that the admin API opens. One is reserved for authenticating requests. */
export const adminConnections = maxConcurrentAdminRequests + 1

/**
 * The database URL for the admin API. Defaults to the URL with which the service connects to PostgreSQL directly,
 * bypassing any connection pooler.
 */
export const AdminDatabaseUrlConfig = Config.option(Config.schema(PostgresUrl, "ADMIN_DATABASE_URL"))

const isWebOrigin = ({ pathname, protocol, search }: URL) =>
  /^https?:$/.test(protocol) && pathname === "/" && search === ""

/** The URL at which browsers reach the console. It must not have a path. */
export const AdminUrlConfig = Config.option(Config.schema(
  Schema.URLFromString.check(
    Schema.makeFilter(isWebOrigin, { message: "must begin with http:// or https:// and have no path" }),
  ),
  "ADMIN_URL",
))

/** The origin of the console, such as `https://admin.example.com`. `None` if the admin API is disabled. */
export const AdminOriginConfig = Config.map(
  Config.all([AdminUrlConfig, AdminHostConfig, AdminPortConfig]),
  ([url, host, port]) =>
    Option.orElse(Option.map(url, ({ origin }) => origin), () =>
      Option.map(port, (port) => {
        // `0.0.0.0` and `::` stand for all addresses of the machine; browsers cannot open them.
        const name = /^(0\.0\.0\.0|::)$/.test(host) ? "localhost" : host.includes(":") ? `[${host}]` : host
        return `http://${name}:${port}`
      })),
)

const isSafeIssuer = ({ hostname, protocol }: URL) =>
  protocol === "https:" || (protocol === "http:" && /^(127\.0\.0\.1|localhost|\[::1\])$/.test(hostname))

/**
 * The URL of the identity provider (OpenID Connect issuer). It must use TLS; otherwise anyone on the network could sign
 * in as someone else.
 */
export const OidcIssuerConfig = Config.option(Config.schema(
  Schema.URLFromString.check(
    Schema.makeFilter(isSafeIssuer, { message: "must begin with https://; http:// is accepted only for this machine" }),
  ),
  "ADMIN_OIDC_ISSUER",
))
/** The client ID under which the console is registered with the identity provider. */
export const OidcClientIdConfig = Config.option(Config.NonEmptyString("ADMIN_OIDC_CLIENT_ID"))
/** The client secret for the client ID. */
export const OidcClientSecretConfig = Config.option(Config.Redacted("ADMIN_OIDC_CLIENT_SECRET"))
/** The scopes that the console requests from the identity provider. */
export const OidcScopesConfig = Config.NonEmptyString("ADMIN_OIDC_SCOPES").pipe(Config.withDefault("openid email"))
/** The name of the claim that lists a person's groups. */
export const OidcGroupsClaimConfig = Config.NonEmptyString("ADMIN_OIDC_GROUPS_CLAIM").pipe(Config.withDefault("groups"))

/** Parses `GROUP=SCOPE,…`. Group names may contain `=`. */
const parseGroups = (text: string) => {
  const groups = new Map<string, AdminScope>()
  for (const entry of text.split(",")) {
    const [, group, scope] = /^\s*(.*\S)\s*=\s*(\w+)\s*$/.exec(entry) ?? []
    if (group === undefined || !Schema.is(AdminScope)(scope) || groups.has(group)) return undefined
    groups.set(group, scope)
  }
  return groups
}

/** Maps each identity-provider group to an admin scope. */
export const OidcGroupsConfig = Config.option(
  Config.schema(
    Schema.String.check(Schema.makeFilter((text: string) => parseGroups(text) !== undefined, {
      message: `must be a list of GROUP=SCOPE, with the scopes ${adminScopes.join(", ")}, and each group once`,
    })),
    "ADMIN_OIDC_GROUPS",
  ).pipe(Config.map((text) => parseGroups(text) ?? new Map<string, AdminScope>())),
)
