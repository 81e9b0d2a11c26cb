/** The header `Link` (RFC 8288). */

/** An entry of `Link`. The path starts with `/`. */
export interface ResponseLink {
  readonly path: string
  readonly attributes: string
}

/** Formats the header `Link`. `base` is the base URL. */
export const formatLinks = (base: string, links: ReadonlyArray<ResponseLink>) =>
  links.map(({ attributes, path }) => `<${base}${path}>; ${attributes}`).join(", ")
