/** Settings of the admin API and the console, in a separate module so that other commands do not load its server. */
import { Config, Option, Schema } from "effect"
import { PostgresUrl } from "../../postgres/pool/ConnectionSettings.ts"
import { AdminScope, adminScopes } from "./AdminErrors.ts"

/** The port of the admin API. If unset, there is none. */
export const AdminPortConfig = Config.option(Config.Port("ADMIN_PORT"))
export const AdminHostConfig = Config.NonEmptyString("ADMIN_HOST").pipe(Config.withDefault("127.0.0.1"))

/** The URL with which the admin API connects; by default that of the service, directly. */
export const AdminDatabaseUrlConfig = Config.option(Config.schema(PostgresUrl, "ADMIN_DATABASE_URL"))

const isWebOrigin = ({ pathname, protocol, search }: URL) =>
  /^https?:$/.test(protocol) && pathname === "/" && search === ""

/** The address under which browsers reach the console, without a path. */
export const AdminUrlConfig = Config.option(Config.schema(
  Schema.URLFromString.check(
    Schema.makeFilter(isWebOrigin, { message: "must begin with http:// or https:// and have no path" }),
  ),
  "ADMIN_URL",
))

/** The origin of the console, such as `https://admin.example.com`; none if there is no admin API. */
export const AdminOriginConfig = Config.map(
  Config.all([AdminUrlConfig, AdminHostConfig, AdminPortConfig]),
  ([url, host, port]) =>
    Option.orElse(Option.map(url, ({ origin }) => origin), () =>
      Option.map(port, (port) => {
        // Browsers cannot open the address that means every address of the machine.
        const name = /^(0\.0\.0\.0|::)$/.test(host) ? "localhost" : host.includes(":") ? `[${host}]` : host
        return `http://${name}:${port}`
      })),
)

const isSafeIssuer = ({ hostname, protocol }: URL) =>
  protocol === "https:" || (protocol === "http:" && /^(127\.0\.0\.1|localhost|\[::1\])$/.test(hostname))

/** The identity provider. Without TLS, somebody in the network could sign in as anyone. */
export const OidcIssuerConfig = Config.option(Config.schema(
  Schema.URLFromString.check(
    Schema.makeFilter(isSafeIssuer, { message: "must begin with https://; http:// is accepted only for this machine" }),
  ),
  "ADMIN_OIDC_ISSUER",
))
export const OidcClientIdConfig = Config.option(Config.NonEmptyString("ADMIN_OIDC_CLIENT_ID"))
export const OidcClientSecretConfig = Config.option(Config.Redacted("ADMIN_OIDC_CLIENT_SECRET"))
export const OidcScopesConfig = Config.NonEmptyString("ADMIN_OIDC_SCOPES").pipe(Config.withDefault("openid email"))
export const OidcGroupsClaimConfig = Config.NonEmptyString("ADMIN_OIDC_GROUPS_CLAIM").pipe(Config.withDefault("groups"))

/** Parses `GROUP=SCOPE,…`. A group's name may contain "=". */
const parseGroups = (text: string) => {
  const groups = new Map<string, AdminScope>()
  for (const entry of text.split(",")) {
    const [, group, scope] = /^\s*(.*\S)\s*=\s*(\w+)\s*$/.exec(entry) ?? []
    if (group === undefined || !Schema.is(AdminScope)(scope) || groups.has(group)) return undefined
    groups.set(group, scope)
  }
  return groups
}

/** The scope of each group of the identity provider. */
export const OidcGroupsConfig = Config.option(
  Config.schema(
    Schema.String.check(Schema.makeFilter((text: string) => parseGroups(text) !== undefined, {
      message: `must be a list of GROUP=SCOPE, with the scopes ${adminScopes.join(", ")}, and each group once`,
    })),
    "ADMIN_OIDC_GROUPS",
  ).pipe(Config.map((text) => parseGroups(text) ?? new Map<string, AdminScope>())),
)
