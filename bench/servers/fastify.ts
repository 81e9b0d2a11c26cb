/**
 * The Fastify server. Validates queries and encodes responses with JSON Schemas. If COMPRESS=gzip is set, the
 * compression plugin is added.
 */
import compress from "@fastify/compress"
import Fastify from "fastify"
import process from "node:process"
import { endpoints, gzipLevel as level } from "./handwrittenEndpoints.ts"
import { AmbiguousLineage } from "./lineage.ts"

const app = Fastify({ logger: false })

if (process.env["COMPRESS"] === "gzip") await app.register(compress, { encodings: ["gzip"], zlibOptions: { level } })

for (const { handle, path, query, response } of endpoints) {
  app.get<{ Querystring: Readonly<Record<string, unknown>> }>(path, {
    schema: {
      querystring: {
        type: "object",
        properties: query,
        additionalProperties: false,
      },
      response: { 200: response },
    },
    handler: (request) => handle(request.query),
  })
}

app.setErrorHandler((error, _, reply) =>
  reply.status(error instanceof AmbiguousLineage ? 409 : 500).send({
    error: String(error),
  })
)

await app.listen({ host: "127.0.0.1", port: Number(process.env["PORT"]) })
