/** A difference between two versions of the contract: §9.2 (breaking changes), §9.3 (compatible changes). */
export interface ContractDifference {
  readonly path: string
  /**
   * The name of the parameter, field, header, media type, status, or code that differs. Null if the endpoint itself was
   * added or removed.
   */
  readonly name: string | null
  readonly kind: "added" | "changed" | "removed"
  readonly breaking: boolean
  /** A readable description of the location and the change. */
  readonly description: string
  /** The value that was added to an enum. */
  readonly addedValue?: string
}

/** A location in the contract. */
export interface ContractLocation {
  readonly path: string
  readonly name: string | null
  /** A readable label for the location, such as `parameter limit (query)`. */
  readonly label: string
  /** Whether clients send the value at this location. If false, they receive it. */
  readonly isRequest: boolean
}

type Change = Pick<ContractDifference, "kind" | "breaking" | "description" | "addedValue">

export const makeContractDifference = (
  { label, name, path }: ContractLocation,
  { description, ...change }: Change,
): ContractDifference => ({ path, name, ...change, description: `${path}, ${label}: ${description}` })
