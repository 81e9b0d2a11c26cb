/** The names of the servers that are compared, and their titles in the report. */

/** All servers, in the order in which they are started. */
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
/** The name of a server that is compared. */
export type ServerName = typeof serverNames[number]

/** The titles of the servers and of pgbench in the report. */
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
