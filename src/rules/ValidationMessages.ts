/** D11, D31: what is wrong with a parameter or a cell, in words that follow its name: "page must be …". */
import { SchemaIssue } from "effect"

export interface FieldReason {
  readonly name: string
  readonly reason: string
}

/** The words for what only the caller can name. */
export interface MessageWording {
  readonly missing: string
  readonly unexpected: string
  /** It is not even the kind of thing it must be. */
  readonly wrongType: string
}

const predicate = (message: string) =>
  message
    .replace(/^Expected /, "must be ")
    .replace("a string representing a finite number", "a number")
    .replace(`"true" | "false"`, "true or false")

/** One reason for each mistake, under the first name of its path. */
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
      reason: predicate(message),
    }))
}
