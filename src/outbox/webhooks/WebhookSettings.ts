/** Webhook settings: whether this process sends webhooks, and which internal addresses may receive them. */
import { Config, Effect, Schema, SchemaIssue, SchemaTransformation } from "effect"
import { IpAddressSet } from "../../accounts/IpAddressSet.ts"

/** Whether this process may send webhooks. */
export const WebhooksConfig = Config.schema(Schema.Literals(["on", "off"]), "WEBHOOKS").pipe(Config.withDefault("off"))

/** Receivers permitted by the operator, even if their address is internal or their URL begins with `http://`. */
export interface AllowedHosts {
  /** Host names, in lower case. */
  readonly names: ReadonlySet<string>
  readonly addresses: IpAddressSet
}

const hostNamePattern = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62}))*$/

/** Parses a list of host names, addresses and networks. If any entries are invalid, returns the first of them. */
const parseAllowedHosts = (text: string): AllowedHosts | { readonly invalid: string } => {
  const names = new Set<string>()
  const addresses = new IpAddressSet()
  for (const entry of text.split(",").map((entry) => entry.trim().toLowerCase())) {
    if (addresses.add(entry)) continue
    // In a URL, a host name whose last label contains no letters would be interpreted as an IPv4 address.
    if (!hostNamePattern.test(entry) || !/[a-z][^.]*$/.test(entry)) return { invalid: entry }
    names.add(entry)
  }
  return { names, addresses }
}

const noAllowedHosts: AllowedHosts = { names: new Set(), addresses: new IpAddressSet() }

/**
 * The setting that lists the receivers permitted by the operator although they are internal: host names, addresses, and
 * networks, separated by commas.
 */
export const AllowedHostsConfig = Config.schema(
  Schema.String.pipe(Schema.decodeTo(
    Schema.declare((value): value is AllowedHosts => typeof value === "object" && value !== null && "names" in value),
    SchemaTransformation.transformEffect({
      decode: (text) => {
        const parsed = parseAllowedHosts(text)
        return "invalid" in parsed
          ? Effect.fail(
            new SchemaIssue.InvalidValue({
              message: `${parsed.invalid} is neither a host name nor an address nor a network without host bits; ` +
                "expected a list such as hooks.internal,10.0.0.0/8",
            }),
          )
          : Effect.succeed(parsed)
      },
      encode: ({ names }: AllowedHosts) => Effect.succeed([...names].join(",")),
    }),
  )),
  "WEBHOOKS_ALLOWED_HOSTS",
).pipe(Config.withDefault(noAllowedHosts))
