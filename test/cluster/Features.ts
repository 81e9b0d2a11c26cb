/** What the service can do, as far as scenarios and settings of the cluster depend on it. */
import { readFileSync } from "node:fs"
import { root } from "../support/Processes.ts"

/** The setting by which each is turned on. */
const settings = {
  replicas: "DATABASE_READ_URLS",
  pooler: "DATABASE_DIRECT_URL",
} as const

export type Feature = keyof typeof settings

const known = readFileSync(`${root}/src/doctor/Settings.ts`, "utf8")

/** The doctor knows every setting. */
export const has = (feature: Feature) => known.includes(settings[feature])
