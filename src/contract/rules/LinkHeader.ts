/** Reads and formats the `Link` header (RFC 8288). */

/** A link in the `Link` header. The path starts with `/`. */
export interface ResponseLink {
  readonly path: string
  readonly attributes: string
}

/** Returns the URL of the first link with the given relation, or null if there is none. */
export const findLink = (links: string | undefined, relation: string) => {
  for (const [, url = "", attributes = ""] of (links ?? "").matchAll(/<([^>]*)>([^<]*)/g)) {
    const [, quoted = "", bare = ""] = /;\s*rel=(?:"([^"]*)"|([^\s;,"]+))/i.exec(attributes) ?? []
    if (`${quoted} ${bare}`.split(" ").includes(relation)) return url
  }
  return null
}

/**
 * Returns the query parameters of a link, or undefined if there is no link. The link's host is ignored, because behind
 * a proxy it may differ from the host that the client called.
 */
export const readLinkParameters = (link: string | null) => {
  const anyOrigin = "http://localhost"
  return link !== null && URL.canParse(link, anyOrigin) ? new URL(link, anyOrigin).searchParams : undefined
}

/** Formats the value of the `Link` header. `base` is the service's base URL. */
export const formatLinks = (base: string, links: ReadonlyArray<ResponseLink>) =>
  links.map(({ attributes, path }) => `<${base}${path}>; ${attributes}`).join(", ")
