/** One difference between two versions of the contract: §9.2 (breaking changes), §9.3 (compatible changes). */
export interface ContractDifference {
  readonly path: string
  /** The parameter, field, header, media type, status or code; null for the endpoint itself. */
  readonly name: string | null
  readonly kind: "added" | "changed" | "removed"
  readonly breaking: boolean
  /** The location and the change, in words. */
  readonly description: string
  /** The value that was added to an enum. */
  readonly addedValue?: string
}

/** A part of the contract. */
export interface ContractLocation {
  readonly path: string
  readonly name: string | null
  /** The readable name of the part, such as `parameter limit (query)`. */
  readonly label: string
  /** Whether clients send this part; otherwise, they receive it. */
  readonly isRequest: boolean
}

type Change = Pick<ContractDifference, "kind" | "breaking" | "description" | "addedValue">

export const makeContractDifference = (
  { label, name, path }: ContractLocation,
  { description, ...change }: Change,
): ContractDifference => ({ path, name, ...change, description: `${path}, ${label}: ${description}` })
