/**
 * Converts schema errors to reasons, both for parameters (D11) and for cells in data files (D31). A reason completes a
 * sentence that starts with the parameter or column name: "page must be …".
 */
import { SchemaIssue } from "effect"

/** The reason why a parameter or a cell is invalid. */
export interface FieldErrorReason {
  readonly name: string
  readonly reason: string
}

/** The reasons whose wording depends on whether a parameter or a cell is invalid. */
export interface ValidationWording {
  readonly missing: string
  readonly unexpected: string
  readonly wrongType: string
}

/**
 * Converts an error message from an Effect schema, such as `Expected a number`, to a reason such as `must be a number`.
 */
const toPredicate = (message: string) =>
  message
    .replace(/^Expected /, "must be ")
    .replace("a string representing a finite number", "a number")
    .replace(`"true" | "false"`, "true or false")

/**
 * Returns a function that converts the error of a failed decoding (a schema issue) to a list of reasons, each with the
 * name of the parameter or column that it concerns. The name is empty if the error concerns the query or row as a
 * whole. The three given reasons are used for values that are missing, that the schema does not declare, or that have
 * the wrong type. For all other errors, the reason is derived from the message of the check that failed.
 */
export const makeValidationReasonFormatter = ({ missing, unexpected, wrongType }: ValidationWording) => {
  const format = SchemaIssue.makeFormatterStandardSchemaV1({
    leafHook: (issue) =>
      issue._tag === "MissingKey"
        ? missing
        : issue._tag === "UnexpectedKey"
        ? unexpected
        : issue._tag === "InvalidType"
        ? wrongType
        : SchemaIssue.defaultLeafHook(issue),
  })
  return (issue: SchemaIssue.Issue): ReadonlyArray<FieldErrorReason> =>
    format(issue).issues.map(({ message, path }) => ({
      name: path?.[0] === undefined ? "" : String(path[0]),
      reason: toPredicate(message),
    }))
}
