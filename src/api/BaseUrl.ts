/** The public address of the service (setting `BASE_URL`). */
import { Config, Context, Option, Schema } from "effect"

const WebUrl = Schema.URLFromString.check(
  Schema.makeFilter(({ protocol }: URL) => /^https?:$/.test(protocol), {
    expected: "an address that starts with http:// or https://",
  }),
)

/** The base URL without a trailing slash, if it is set. */
export const BaseUrlConfig = Config.option(Config.schema(WebUrl, "BASE_URL")).pipe(
  Config.map(Option.map((url) => url.href.replace(/\/$/, ""))),
)

/** The base URL, which is prepended to the paths in `Link` headers; empty if it is not set. */
export const BaseUrl = Context.Reference<string>("tickerline/api/BaseUrl", { defaultValue: () => "" })

/** Returns the path of the base URL without a trailing slash; empty if it has none. */
export const getBasePath = (base: string) => base === "" ? "" : new URL(base).pathname.replace(/\/$/, "")
