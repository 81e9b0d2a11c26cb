/**
 * Generates the module that replaces `src/client/PromiseSchemas.ts` in the published Promise client. It contains the
 * same schemas, but without the parts that only the service and the documentation need, such as parameters,
 * descriptions, and other formats.
 */
import { Predicate, Schema, SchemaAST } from "effect"
import { promiseSchemas } from "../../src/client/PromiseSchemas.ts"

const refuse = (found: string): never => {
  throw new Error(`The client has no schema for ${found}. Add it to clients/typescript/PromiseSchemaModule.ts.`)
}

const renderCheck = ({ annotations }: SchemaAST.Check<never>): string => {
  const { id = "a check without a name", payload } = annotations?.representation ?? {}
  if (id === "effect/schema/isInt") return "Schema.isInt()"
  return id === "effect/schema/isGreaterThanOrEqualTo" && Predicate.hasProperty(payload, "minimum")
    ? `Schema.isGreaterThanOrEqualTo(${payload.minimum})`
    : refuse(id)
}

const isDecimal = (ast: SchemaAST.AST) =>
  SchemaAST.isString(ast) && SchemaAST.toEncoded(ast).checks?.[0]?.annotations?.["expected"] === "a number"

const renderLeaf = (ast: SchemaAST.AST): string => {
  if (ast.encoding !== undefined) return isDecimal(ast) ? "makeJsonDecimal({})" : refuse(`a converted ${ast._tag}`)
  if (SchemaAST.isNumber(ast)) return `Schema.Number.check(${(ast.checks ?? []).map(renderCheck).join(", ")})`
  if (ast === Schema.Json.ast) return "Schema.Json"
  return ast.checks === undefined && (SchemaAST.isString(ast) || SchemaAST.isBoolean(ast) || SchemaAST.isNull(ast))
    ? `Schema.${ast._tag}`
    : refuse(`${ast._tag}, possibly with checks`)
}

/** Renders the source code of the module. The module imports `makeJsonDecimal` from the given path. */
export const renderPromiseSchemas = (decimalsPath: string): string => {
  /**
   * Maps each schema expression to its variable. Variables save space, because endpoints share most of their schemas.
   */
  const variables = new Map<string, string>()

  const render = (ast: SchemaAST.AST): string => {
    const expression = renderExpression(ast)
    const variable = variables.get(expression) ?? `schema${variables.size}`
    variables.set(expression, variable)
    return variable
  }

  const renderExpression = (ast: SchemaAST.AST): string => {
    if (ast.encoding !== undefined) return renderLeaf(ast)
    // Enums accept any string, so an enum is a union of identical string schemas.
    if (SchemaAST.isUnion(ast)) return `Schema.Union([${[...new Set(ast.types.map(render))].join(", ")}])`
    if (SchemaAST.isArrays(ast)) return renderArrays(ast)
    return SchemaAST.isObjects(ast) ? renderObject(ast) : renderLeaf(ast)
  }

  const renderArrays = ({ elements, rest: [rest, ...others] }: SchemaAST.Arrays) => {
    if (others.length > 0 || (elements.length > 0 && rest !== undefined)) return refuse("a list with a fixed beginning")
    return rest === undefined ? `Schema.Tuple([${elements.map(render).join(", ")}])` : `Schema.Array(${render(rest)})`
  }

  const renderObject = ({ indexSignatures: [index], propertySignatures }: SchemaAST.Objects) => {
    if (index !== undefined) {
      if (propertySignatures.length > 0) return refuse("an object with declared and other fields")
      return `Schema.Record(Schema.String, ${render(index.type)})`
    }
    const fields = propertySignatures.map(({ name, type }) => {
      const field = SchemaAST.isOptional(type) ? `Schema.optionalKey(${render(type)})` : render(type)
      return `${JSON.stringify(name)}: ${field}`
    })
    return `Schema.Struct({ ${fields.join(", ")} })`
  }

  const endpoints = promiseSchemas.map(({ path, success }) =>
    `{ path: ${JSON.stringify(path)}, success: ${render(success)}.ast, errors: new Map() }`
  )
  return [
    `import { Schema } from "effect"`,
    `import { makeJsonDecimal } from ${JSON.stringify(decimalsPath)}`,
    ...Array.from(variables, ([expression, variable]) => `const ${variable} = ${expression}`),
    `export const promiseSchemas = [\n${endpoints.join(",\n")}\n]`,
    "",
  ].join("\n")
}
