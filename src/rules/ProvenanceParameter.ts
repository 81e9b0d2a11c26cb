/** `provenance`, the parameter of the lists whose rows state the documents that they come from. */
import { Schema } from "effect"

export const ProvenanceParameter = {
  provenance: Schema.optionalKey(
    Schema.Boolean.annotate({
      description:
        "`true`: rows get the field `source`, a list of links to the documents that they come from, or null.",
      filter: { operator: "statement" },
    }),
  ),
}

/** The decoded parameter. */
export interface ProvenanceQuery {
  readonly provenance?: boolean
}
