/**
 * The response schemas of the Promise client. They leave times as the text that the service sent, and errors to
 * `ResponseDecoder.ts`. In the published client, `client/PromiseSchemaModule.ts` generates this module.
 */
import { SchemaAST } from "effect"
import { type EndpointSchemas, endpointSchemas, replaceLeaves } from "./EndpointSchemas.ts"

const keepTimeAsText = (ast: SchemaAST.AST) => ast.annotations?.["expected"] === "DateTime.Utc" ? SchemaAST.string : ast

export const promiseSchemas: ReadonlyArray<EndpointSchemas> = endpointSchemas.map(({ path, success }) => ({
  path,
  success: replaceLeaves(success, keepTimeAsText),
  errors: new Map(),
}))
