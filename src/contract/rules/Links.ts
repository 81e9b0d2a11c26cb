/** The header `Link` (RFC 8288). */

/** A link in the header `Link`. The path starts with `/`. */
export interface ResponseLink {
  readonly path: string
  readonly attributes: string
}

/** Returns the URL of the first link with the relation, or null. */
export const findLink = (links: string | undefined, relation: string) => {
  for (const [, url = "", attributes = ""] of (links ?? "").matchAll(/<([^>]*)>([^<]*)/g)) {
    const [, quoted = "", bare = ""] = /;\s*rel=(?:"([^"]*)"|([^\s;,"]+))/i.exec(attributes) ?? []
    if (`${quoted} ${bare}`.split(" ").includes(relation)) return url
  }
  return null
}

/**
 * Returns the query parameters of a link; undefined if there is no link. The link's host is ignored: behind a proxy, it
 * may not be the host that the client called.
 */
export const readLinkParameters = (link: string | null) => {
  const anyOrigin = "http://localhost"
  return link !== null && URL.canParse(link, anyOrigin) ? new URL(link, anyOrigin).searchParams : undefined
}

/** Formats the header `Link`. `base` is the service's base URL. */
export const formatLinks = (base: string, links: ReadonlyArray<ResponseLink>) =>
  links.map(({ attributes, path }) => `<${base}${path}>; ${attributes}`).join(", ")
