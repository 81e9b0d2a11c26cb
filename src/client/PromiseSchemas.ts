/**
 * The response schemas of the Promise client. They leave times as text, as the service sends them, and declare no
 * errors, so `ResponseDecoder.ts` returns the details of errors as received.
 * `clients/typescript/PromiseSchemaModule.ts` generates the published module from them.
 */
import { SchemaAST } from "effect"
import { type EndpointSchemas, endpointSchemas, replaceLeaves } from "./EndpointSchemas.ts"

const keepTimeAsText = (ast: SchemaAST.AST) => ast.annotations?.["expected"] === "DateTime.Utc" ? SchemaAST.string : ast

/** The schemas of all endpoints. */
export const promiseSchemas: ReadonlyArray<EndpointSchemas> = endpointSchemas.map(({ path, success }) => ({
  path,
  success: replaceLeaves(success, keepTimeAsText),
  errors: new Map(),
}))
