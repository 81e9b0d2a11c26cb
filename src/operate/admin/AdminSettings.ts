/**
 * Settings of the admin API and the console, in a module of their own so that other commands do not load the server.
 */
import { Config, Option, Schema } from "effect"
import { PostgresUrl } from "../../postgres/pool/ConnectionSettings.ts"
import { AdminScope, adminScopes } from "./AdminErrors.ts"

/** The port of the admin API. If unset, there is no admin API. */
export const AdminPortConfig = Config.option(Config.Port("ADMIN_PORT"))
/** The address on which the admin API listens. */
export const AdminHostConfig = Config.NonEmptyString("ADMIN_HOST").pipe(Config.withDefault("127.0.0.1"))

/** The database URL of the admin API. By default, the URL of the service, bypassing any pooler. */
export const AdminDatabaseUrlConfig = Config.option(Config.schema(PostgresUrl, "ADMIN_DATABASE_URL"))

const isWebOrigin = ({ pathname, protocol, search }: URL) =>
  /^https?:$/.test(protocol) && pathname === "/" && search === ""

/** The URL under which browsers reach the console, without a path. */
export const AdminUrlConfig = Config.option(Config.schema(
  Schema.URLFromString.check(
    Schema.makeFilter(isWebOrigin, { message: "must begin with http:// or https:// and have no path" }),
  ),
  "ADMIN_URL",
))

/** The origin of the console, such as `https://admin.example.com`. `None` if there is no admin API. */
export const AdminOriginConfig = Config.map(
  Config.all([AdminUrlConfig, AdminHostConfig, AdminPortConfig]),
  ([url, host, port]) =>
    Option.orElse(Option.map(url, ({ origin }) => origin), () =>
      Option.map(port, (port) => {
        // Browsers cannot open an address that stands for all addresses of the machine.
        const name = /^(0\.0\.0\.0|::)$/.test(host) ? "localhost" : host.includes(":") ? `[${host}]` : host
        return `http://${name}:${port}`
      })),
)

const isSafeIssuer = ({ hostname, protocol }: URL) =>
  protocol === "https:" || (protocol === "http:" && /^(127\.0\.0\.1|localhost|\[::1\])$/.test(hostname))

/** The identity provider's URL. It must use TLS; otherwise anyone on the network could sign in as someone else. */
export const OidcIssuerConfig = Config.option(Config.schema(
  Schema.URLFromString.check(
    Schema.makeFilter(isSafeIssuer, { message: "must begin with https://; http:// is accepted only for this machine" }),
  ),
  "ADMIN_OIDC_ISSUER",
))
/** The id with which the console is registered at the identity provider. */
export const OidcClientIdConfig = Config.option(Config.NonEmptyString("ADMIN_OIDC_CLIENT_ID"))
/** The secret that belongs to the client id. */
export const OidcClientSecretConfig = Config.option(Config.Redacted("ADMIN_OIDC_CLIENT_SECRET"))
/** The scopes that the console requests from the identity provider. */
export const OidcScopesConfig = Config.NonEmptyString("ADMIN_OIDC_SCOPES").pipe(Config.withDefault("openid email"))
/** The claim that lists the groups of a person. */
export const OidcGroupsClaimConfig = Config.NonEmptyString("ADMIN_OIDC_GROUPS_CLAIM").pipe(Config.withDefault("groups"))

/** Parses `GROUP=SCOPE,…`. A group's name may contain `=`. */
const parseGroups = (text: string) => {
  const groups = new Map<string, AdminScope>()
  for (const entry of text.split(",")) {
    const [, group, scope] = /^\s*(.*\S)\s*=\s*(\w+)\s*$/.exec(entry) ?? []
    if (group === undefined || !Schema.is(AdminScope)(scope) || groups.has(group)) return undefined
    groups.set(group, scope)
  }
  return groups
}

/** The admin scope of each group at the identity provider. */
export const OidcGroupsConfig = Config.option(
  Config.schema(
    Schema.String.check(Schema.makeFilter((text: string) => parseGroups(text) !== undefined, {
      message: `must be a list of GROUP=SCOPE, with the scopes ${adminScopes.join(", ")}, and each group once`,
    })),
    "ADMIN_OIDC_GROUPS",
  ).pipe(Config.map((text) => parseGroups(text) ?? new Map<string, AdminScope>())),
)
