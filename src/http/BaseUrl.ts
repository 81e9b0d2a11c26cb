/** Where clients reach the service, as whoever runs it says: `BASE_URL`. */
import { Config, Option, Schema } from "effect"

const WebAddress = Schema.URLFromString.check(
  Schema.makeFilter(({ protocol }: URL) => /^https?:$/.test(protocol), {
    expected: "an address that starts with http:// or https://",
  }),
)

/** Without a slash at the end; none where nobody said. */
export const BaseUrlConfig = Config.option(Config.schema(WebAddress, "BASE_URL")).pipe(
  Config.map(Option.map((url) => url.href.replace(/\/$/, ""))),
)

/** The path of the base address without a slash at the end; empty if there is none. */
export const getBasePath = (base: string) => base === "" ? "" : new URL(base).pathname.replace(/\/$/, "")
