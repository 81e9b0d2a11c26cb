/** §9.2, §9.3: one way in which a contract is not what it was. */
export interface ContractDifference {
  readonly path: string
  /** The parameter, field, header, media type, status or code; null: the endpoint as such. */
  readonly name: string | null
  readonly kind: "added" | "changed" | "removed"
  readonly breaking: boolean
  /** What changed and where, for people. */
  readonly description: string
  /** A word that is new in a list of them. */
  readonly addedValue?: string
}

/** Where something stands: what a client sends, or what it is answered. */
export interface ContractLocation {
  readonly path: string
  readonly name: string | null
  readonly label: string
  readonly isRequest: boolean
}

type Verdict = Pick<ContractDifference, "kind" | "breaking" | "description"> & { readonly word?: string }

export const makeDifference = (
  { name, path, label: where }: ContractLocation,
  { description: says, ...verdict }: Verdict,
): ContractDifference => ({
  path,
  name,
  ...verdict,
  description: `${path}, ${where}: ${says}`,
})
