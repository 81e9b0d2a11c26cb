/**
 * The Express server. Validates queries with the same JSON Schemas as the Fastify server, and encodes responses with
 * `JSON.stringify`. If COMPRESS=gzip is set, the compression middleware is added.
 */
import { Ajv } from "ajv"
import compression from "compression"
import express from "express"
import process from "node:process"
import { endpoints, gzipLevel } from "./handwrittenEndpoints.ts"
import { AmbiguousLineage } from "./lineage.ts"

const app = express()
if (process.env["COMPRESS"] === "gzip") app.use(compression({ level: gzipLevel }))
const ajv = new Ajv({ coerceTypes: true, useDefaults: true })

for (const { handle, path, query } of endpoints) {
  const isValid = ajv.compile({
    type: "object",
    properties: query,
    additionalProperties: false,
  })
  app.get(path, (request, response) => {
    const query = { ...request.query }
    if (!isValid(query)) {
      response.status(422).json({ error: ajv.errorsText(isValid.errors) })
    } else {
      void handle(query).then(
        (body) => response.json(body),
        (error) =>
          response.status(error instanceof AmbiguousLineage ? 409 : 500).json({
            error: String(error),
          }),
      )
    }
  })
}

app.listen(Number(process.env["PORT"]), "127.0.0.1")
