/** What the service can do, as far as scenarios and settings of the cluster depend on it. */
import { existsSync, globSync, readFileSync } from "node:fs"
import { root } from "../support/Processes.ts"

/** The doctor knows every setting. */
const knows = (setting: string) => readFileSync(`${root}/src/doctor/Settings.ts`, "utf8").includes(`"${setting}"`)

const features = {
  /** Reads from standbys. */
  replicas: knows("DATABASE_READ_URLS"),
  /** Poolers in transaction mode. */
  pooler: knows("DATABASE_DIRECT_URL"),
  /** Limits and wrong keys counted by PostgreSQL where there is no Redis. */
  counts: globSync(`${root}/sql/migrations/0027_*`).length > 0,
  /** Jobs with leases. */
  jobs: existsSync(`${root}/src/jobs`),
} as const

export type Feature = keyof typeof features

export const has = (feature: Feature) => features[feature]
