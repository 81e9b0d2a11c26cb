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

/** Reasons that are worded differently for parameters and for cells. */
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

/** Returns a function that lists the reasons in a schema issue, each with its parameter or column name. */
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
