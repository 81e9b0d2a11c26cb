/**
 * The response schemas of the Promise client. They leave times as strings, as the service sends them. They declare no
 * errors, so `ResponseDecoder.ts` returns error details as received. `clients/typescript/PromiseSchemaModule.ts`
 * generates the published module from these schemas.
 */
import { SchemaAST } from "effect"
import { type EndpointSchemas, endpointSchemas, replaceLeaves } from "./EndpointSchemas.ts"

const keepTimeAsText = (ast: SchemaAST.AST) => ast.annotations?.["expected"] === "DateTime.Utc" ? SchemaAST.string : ast

/** The response schemas of all endpoints. */
export const promiseSchemas: ReadonlyArray<EndpointSchemas> = endpointSchemas.map(({ path, success }) => ({
  path,
  success: replaceLeaves(success, keepTimeAsText),
  errors: new Map(),
}))
