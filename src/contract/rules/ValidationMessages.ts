/**
 * Turns schema errors into reasons, for parameters (D11) and for cells in data files (D31). A reason completes a
 * sentence that begins with the parameter's name or column: "page must be …".
 */
import { SchemaIssue } from "effect"

/** Why a parameter or a cell is invalid. */
export interface FieldErrorReason {
  readonly name: string
  readonly reason: string
}

/** The reasons whose wording differs between parameters and cells. */
export interface ValidationWording {
  readonly missing: string
  readonly unexpected: string
  readonly wrongType: string
}

/** Turns a message of Effect's schemas, such as `Expected a number`, into a reason: `must be a number`. */
const toPredicate = (message: string) =>
  message
    .replace(/^Expected /, "must be ")
    .replace("a string representing a finite number", "a number")
    .replace(`"true" | "false"`, "true or false")

/** Returns a function that lists the reasons in a schema issue, each with the name of its parameter or column. */
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
