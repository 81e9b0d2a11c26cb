/** Formats schema errors of parameters (D11) and cells (D31). A reason follows the name: "page must be …". */
import { SchemaIssue } from "effect"

export interface FieldReason {
  readonly name: string
  readonly reason: string
}

/** Reasons whose wording depends on the input: parameters or cells. */
export interface MessageWording {
  readonly missing: string
  readonly unexpected: string
  readonly wrongType: string
}

const toPredicate = (message: string) =>
  message
    .replace(/^Expected /, "must be ")
    .replace("a string representing a finite number", "a number")
    .replace(`"true" | "false"`, "true or false")

/** Returns a function that lists the reasons of an issue, each with the first name of its path. */
export const makeReasonFormatter = ({ missing, unexpected, wrongType }: MessageWording) => {
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
  return (issue: SchemaIssue.Issue): ReadonlyArray<FieldReason> =>
    format(issue).issues.map(({ message, path }) => ({
      name: path?.[0] === undefined ? "" : String(path[0]),
      reason: toPredicate(message),
    }))
}
