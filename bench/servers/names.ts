/** The names of the servers that are compared, and their titles in the report. */

/** The servers, in the order in which they start. */
export const serverNames = [
  "tickerline",
  "tickerline-deno",
  "tickerline-lineage",
  "fastify",
  "fastify-our-sql",
  "fastify-postgres-js",
  "fastify-gzip",
  "express",
  "express-gzip",
  "effect",
  "floor",
  "floor-headers",
  "postgraphile",
] as const
/** A server that is compared. */
export type ServerName = typeof serverNames[number]

/** What the report calls the servers and pgbench. */
export const serverTitles: Readonly<Record<ServerName | "pgbench", string>> = {
  tickerline: "Tickerline on Node",
  "tickerline-deno": "Tickerline on Deno",
  "tickerline-lineage": "Tickerline, all changes in memory",
  fastify: "Fastify + pg",
  "fastify-our-sql": "Fastify + pg, our SQL",
  "fastify-postgres-js": "Fastify + postgres.js, our SQL",
  "fastify-gzip": "Fastify + pg + @fastify/compress",
  express: "Express + pg",
  "express-gzip": "Express + pg + compression",
  effect: "HttpApiBuilder, from memory",
  floor: "node:http from memory",
  "floor-headers": "node:http, all headers",
  postgraphile: "PostGraphile",
  pgbench: "pgbench",
}
