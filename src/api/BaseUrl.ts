/** The service's public URL (setting `BASE_URL`). */
import { Config, Context, Option, Schema } from "effect"

/** A URL with the scheme `http` or `https`. */
const WebUrl = Schema.URLFromString.check(
  Schema.makeFilter(({ protocol }: URL) => /^https?:$/.test(protocol), {
    expected: "an address that starts with http:// or https://",
  }),
)

/** The setting `BASE_URL` without a trailing slash, if it is set. */
export const BaseUrlConfig = Config.option(Config.schema(WebUrl, "BASE_URL")).pipe(
  Config.map(Option.map((url) => url.href.replace(/\/$/, ""))),
)

/**
 * The service's public URL, which is prepended to paths in `Link` headers. An empty string if `BASE_URL` is not set, so
 * that the headers contain only paths.
 */
export const BaseUrl = Context.Reference<string>("tickerline/api/BaseUrl", { defaultValue: () => "" })

/** Returns the path of the base URL without a trailing slash, or an empty string if it has no path. */
export const getBasePath = (base: string) => base === "" ? "" : new URL(base).pathname.replace(/\/$/, "")
