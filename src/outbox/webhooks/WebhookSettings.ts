/** Webhook settings: whether this process sends webhooks, and to which internal addresses. */
import { Config, Effect, Schema, SchemaIssue, SchemaTransformation } from "effect"
import { AddressSet } from "../../accounts/AddressSet.ts"

/** Whether this process may send webhooks. */
export const WebhooksConfig = Config.schema(Schema.Literals(["on", "off"]), "WEBHOOKS").pipe(Config.withDefault("off"))

/** Receivers that the operator permits, although their address is internal or their URL begins with `http`. */
export interface AllowedHosts {
  /** Host names in lower case. */
  readonly names: ReadonlySet<string>
  readonly addresses: AddressSet
}

const hostNamePattern = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62}))*$/

/** Parses a list of names, addresses and networks. Returns the first entry that is none of these, if there is one. */
const parseAllowedHosts = (text: string): AllowedHosts | { readonly invalid: string } => {
  const names = new Set<string>()
  const addresses = new AddressSet()
  for (const entry of text.split(",").map((entry) => entry.trim().toLowerCase())) {
    if (addresses.add(entry)) continue
    // In a URL, a name whose last label has no letters would be read as an IPv4 address.
    if (!hostNamePattern.test(entry) || !/[a-z][^.]*$/.test(entry)) return { invalid: entry }
    names.add(entry)
  }
  return { names, addresses }
}

const noAllowedHosts: AllowedHosts = { names: new Set(), addresses: new AddressSet() }

/** The receivers that the operator permits. */
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
