/** §9.2, §9.3: one way in which a contract is not what it was. */
export interface Difference {
  readonly path: string
  /** The parameter, field, header, media type, status or code; null: the endpoint as such. */
  readonly name: string | null
  readonly kind: "added" | "changed" | "removed"
  readonly breaking: boolean
  /** What changed and where, for people. */
  readonly says: string
  /** A word that is new in a list of them. */
  readonly word?: string
}

/** Where something stands: what a client sends, or what it is answered. */
export interface Place {
  readonly path: string
  readonly name: string | null
  readonly where: string
  readonly sent: boolean
}

type Verdict = Pick<Difference, "kind" | "breaking" | "says"> & { readonly word?: string }

export const at = ({ name, path, where }: Place, { says, ...verdict }: Verdict): Difference => ({
  path,
  name,
  ...verdict,
  says: `${path}, ${where}: ${says}`,
})
