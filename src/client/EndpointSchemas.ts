/** The response schemas of all endpoints, derived from the contract when this module is loaded. */
import { Predicate, Schema, SchemaAST } from "effect"
import { HttpApi } from "effect/http-api"
import { Api } from "../contract/Api.ts"

/** The schemas for an endpoint's responses. */
export interface EndpointSchemas {
  readonly path: string
  /** The schema of the 200 response body, which is a string schema if the endpoint does not return JSON. */
  readonly success: SchemaAST.AST
  /** The schemas of the error responses that the endpoint declares, keyed by status. */
  readonly errors: ReadonlyMap<number, SchemaAST.AST>
}

/**
 * Returns a schema in which every leaf, that is, every nested schema other than an object, array or union, has been
 * replaced with the result of `replace`. A schema with an encoding, such as a time that is sent as a string, is also a
 * leaf. The object and array schemas are rebuilt, without their checks. A field that is optional remains optional.
 */
export const replaceLeaves = (
  ast: SchemaAST.AST,
  replace: (leaf: SchemaAST.AST) => SchemaAST.AST,
): SchemaAST.AST => {
  const replaced = replaceLeavesInside(ast, replace)
  return SchemaAST.isOptional(ast) && !SchemaAST.isOptional(replaced)
    ? Schema.optionalKey(Schema.make(replaced)).ast
    : replaced
}

/**
 * Returns the schema with each leaf, a schema that does not consist of others, replaced by the result of `replace`. A
 * schema with an encoding, such as a date that is text in JSON, counts as a leaf. Optional fields of objects may no
 * longer be marked as such; `replaceLeaves` restores the marks.
 */
const replaceLeavesInside = (
  ast: SchemaAST.AST,
  replace: (leaf: SchemaAST.AST) => SchemaAST.AST,
): SchemaAST.AST => {
  const replaceInside = (inside: SchemaAST.AST) => replaceLeaves(inside, replace)
  if (ast.encoding !== undefined) return replace(ast)
  if (SchemaAST.isUnion(ast)) return new SchemaAST.Union(ast.types.map(replaceInside))
  if (SchemaAST.isArrays(ast)) {
    return new SchemaAST.Arrays(ast.isMutable, ast.elements.map(replaceInside), ast.rest.map(replaceInside))
  }
  if (!SchemaAST.isObjects(ast)) return replace(ast)
  const fields = ast.propertySignatures.map(({ name, type }) =>
    new SchemaAST.PropertySignature(name, replaceInside(type))
  )
  return new SchemaAST.Objects(fields, ast.indexSignatures)
}

/** Replaces an enum value with any string, because newer versions of the service may add values (§9.3, additions). */
const openEnum = (ast: SchemaAST.AST) =>
  ast.encoding === undefined && SchemaAST.isLiteral(ast) && Predicate.isString(ast.literal) ? SchemaAST.string : ast

/**
 * Collects the schemas of all endpoints from the contract. In 200 responses, enum values are replaced with any string,
 * so that the client accepts values that newer versions of the service add. If an endpoint declares several errors with
 * the same status, their schemas are combined into one.
 */
const readEndpointSchemas = () => {
  const all: Array<EndpointSchemas> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint: { path }, errors, successes }) => {
      const [success = Schema.Unknown] = successes.get(200) ?? []
      all.push({
        path,
        success: replaceLeaves(success.ast, openEnum),
        errors: new Map(
          Array.from(errors, ([status, schemas]) => [status, new SchemaAST.Union(schemas.map(({ ast }) => ast))]),
        ),
      })
    },
  })
  return all
}

/** The schemas of all endpoints. */
export const endpointSchemas: ReadonlyArray<EndpointSchemas> = readEndpointSchemas()
