/** The issuers in a lineage's picture, each with a colour. Pure. */

/** @typedef {import("./record.js").Answer} Answer */
/** @typedef {import("./record.js").Change} Change */

/** More than these are told in the list only. */
export const mostDrawn = 20

/** @param {string | undefined} issuer @param {ReadonlyArray<string>} issuers */
export const colourOf = (issuer, issuers) =>
  `issuer-${issuers.length === 0 ? 0 : issuer === undefined ? "none" : issuers.indexOf(issuer) % 4}`

/** @param {ReadonlyArray<Change>} changes */
export const issuersOf = (changes) => [...new Set(changes.flatMap(({ cik }) => cik ?? []))]

/**
 * The issuers in a picture with the class of their colour; none if no change names its issuer.
 * @param {Answer} answer
 */
export const legend = ({ changes }) => {
  const drawn = changes.slice(0, mostDrawn)
  const issuers = issuersOf(drawn)
  if (issuers.length === 0) return []
  const known = issuers.map((cik) => ({
    colour: colourOf(cik, issuers),
    issuer: drawn.find((change) => change.cik === cik),
  }))
  return drawn.some(({ cik }) => cik === undefined)
    ? [...known, { colour: colourOf(undefined, issuers), issuer: undefined }]
    : known
}
