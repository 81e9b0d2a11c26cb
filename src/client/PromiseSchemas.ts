/**
 * The response schemas of the Promise client. Times stay the text that the service sent. No errors are declared, so
 * `ResponseDecoder.ts` returns their details as received. `clients/typescript/PromiseSchemaModule.ts` renders the
 * published module.
 */
import { SchemaAST } from "effect"
import { type EndpointSchemas, endpointSchemas, replaceLeaves } from "./EndpointSchemas.ts"

const keepTimeAsText = (ast: SchemaAST.AST) => ast.annotations?.["expected"] === "DateTime.Utc" ? SchemaAST.string : ast

export const promiseSchemas: ReadonlyArray<EndpointSchemas> = endpointSchemas.map(({ path, success }) => ({
  path,
  success: replaceLeaves(success, keepTimeAsText),
  errors: new Map(),
}))
