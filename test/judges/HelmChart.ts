/**
 * Renders the Helm chart with several sets of values, validates the manifests, and checks the claims in
 * `kubernetes.md`.
 */
import { ConfigProvider, Effect } from "effect"
import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { parseAllDocuments } from "yaml"
import packageJson from "../../package.json" with { type: "json" }
import { findInvalidSettings, settingDefinitions } from "../../src/operate/cli/Settings.ts"
import { type Judge, judgesFolder, readJsonValue, runForFindings, runProgram } from "./Judge.ts"

const projectFolder = join(judgesFolder, "../..")
const chart = join(projectFolder, "ops/helm/tickerline")

/**
 * The oldest Kubernetes version that the chart supports, and the newest for which `kubernetes-validate` has schemas.
 */
const kubernetesVersions = ["1.27.0", "1.37.0"]

/** The minimum set of values: the chart does not render without them. */
const required = {
  image: { repository: "registry.example/tickerline" },
  config: { BASE_URL: "https://api.example.com" },
  secrets: { existingSecret: "tickerline" },
  migration: { existingSecret: "tickerline-owner" },
}

const databasePeer = { ipBlock: { cidr: "10.1.2.3/32" } }
const digest = `sha256:${"0".repeat(64)}`

/** Sets every value that adds something to the manifests. */
const everything = {
  image: { ...required.image, digest, pullSecrets: ["registry"] },
  config: {
    ...required.config,
    TRUSTED_PROXIES: "10.0.0.0/8",
    PRICE_PER_GB_MICRODOLLARS: 10_000_000,
    DATABASE_POOLER_PREPARES: true,
    PGSSLMODE: "verify-full",
    MAIL_FROM: "Tickerline <notices@example.com>",
    INGEST_EDGAR: "daily 22:15 America/New_York",
    EDGAR_USER_AGENT: "Acme Inc ops@acme.example",
    OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318",
    // In YAML, an unquoted `on` is the boolean true, so the chart must convert it back to `on`.
    WEBHOOKS: true,
    ADMIN_PORT: 8081,
    ADMIN_OIDC_ISSUER: "https://login.example.com:8443/realm",
    ADMIN_OIDC_CLIENT_ID: "tickerline",
    ADMIN_OIDC_GROUPS: "platform=admin",
  },
  secrets: {
    ...required.secrets,
    keys: {
      DATABASE_URL: "url",
      DATABASE_DIRECT_URL: "direct",
      ADMIN_OIDC_CLIENT_SECRET: "oidc",
      SMTP_URL: "smtp",
    },
  },
  migration: required.migration,
  extraEnv: [{ name: "OTEL_SERVICE_NAME", value: "tickerline" }],
  volumes: [{ name: "ca", configMap: { name: "database-ca" } }],
  volumeMounts: [{ name: "ca", mountPath: "/etc/tickerline", readOnly: true }],
  listenAddress: "::",
  shutdownDelaySeconds: 30,
  service: { type: "LoadBalancer", annotations: { "example.com/internal": "true" } },
  serviceAccount: { annotations: { "example.com/role": "tickerline" } },
  autoscaling: { enabled: true },
  ingress: {
    enabled: true,
    className: "public",
    tlsSecret: "certificate",
    annotations: { "example.com/timeout": "200" },
  },
  metrics: { serviceMonitor: { enabled: true, labels: { release: "prometheus" } } },
  networkPolicy: {
    apiPeers: [{ namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "ingress" } } }],
    metricsNamespaces: ["observability"],
    databasePorts: [5432, 6432],
    databasePeers: [databasePeer],
    extraEgress: [{ ports: [{ protocol: "TCP", port: 8444 }] }],
  },
  podAnnotations: { "example.com/team": "data" },
  nodeSelector: { "kubernetes.io/arch": "amd64" },
  tolerations: [{ key: "dedicated", operator: "Exists" }],
  affinity: { nodeAffinity: {} },
  priorityClassName: "high",
}

/** Disables everything that can be disabled. */
const nothing = {
  ...required,
  migration: { enabled: false },
  serviceAccount: { create: false },
  podDisruptionBudget: { enabled: false },
  metrics: { enabled: false },
  networkPolicy: { enabled: false },
}

/** Values that the chart must reject, each with part of the expected error message. */
const refused = [
  { values: {}, message: "/secrets/existingSecret" },
  { values: { ...required, replicaCount: 3 }, message: "replicaCount" },
  { values: { ...required, image: { ...required.image, name: "x" } }, message: "name" },
  { values: { ...required, config: { ...required.config, CACHE_MEGABITES: 64 } }, message: "CACHE_MEGABITES" },
  { values: { ...required, config: { ...required.config, DATABASE_URL: "postgres://" } }, message: "DATABASE_URL" },
  { values: { ...required, config: { ...required.config, WEBHOOKS: "maybe" } }, message: "/config/WEBHOOKS" },
  { values: { ...required, config: { ...required.config, INGEST_EDGAR: true } }, message: "/config/INGEST_EDGAR" },
  { values: { ...required, extraEnv: [{ name: "SMTP_URL", value: "smtp://" }] }, message: "/extraEnv/0/name" },
  { values: { ...required, migration: {} }, message: "/migration/existingSecret" },
  { values: { ...required, shutdownDelaySeconds: "10s" }, message: "/shutdownDelaySeconds" },
  { values: { ...required, ingress: { enabled: true } }, message: "TRUSTED_PROXIES" },
]

/** Manifests keyed by kind and name, such as `Service tickerline-metrics`. */
type Manifests = Readonly<Record<string, unknown>>

const parseManifests = (text: string): Manifests =>
  Object.fromEntries(
    parseAllDocuments(text).map((document): [string, unknown] => {
      assert.deepEqual(document.errors, [])
      const manifest: unknown = document.toJS()
      return [`${read(manifest, "kind")} ${read(manifest, "metadata", "name")}`, manifest]
    }),
  )

const read = readJsonValue

const list = (value: unknown): ReadonlyArray<unknown> => Array.isArray(value) ? value : []

/** Returns the Pod template of a Deployment or Job. */
const podOf = (manifest: unknown) => read(manifest, "spec", "template")

const containerOf = (manifest: unknown) => read(podOf(manifest), "spec", "containers", 0)

const environmentOf = (manifest: unknown) =>
  Object.fromEntries(
    list(read(containerOf(manifest), "env")).map((entry) => [String(read(entry, "name")), read(entry, "value")]),
  )

const labelsOf = (manifest: unknown) => read(podOf(manifest), "metadata", "labels")

/**
 * Returns whether a label selector matches an object with these labels. An empty selector does not count as a match.
 */
const isSelected = (selector: unknown, labels: unknown) =>
  typeof selector === "object" && selector !== null && Object.keys(selector).length > 0 &&
  Object.entries(selector).every(([name, value]) => read(labels, name) === value)

/** Returns the ports that a NetworkPolicy rule allows. */
const portsOf = (rule: unknown) => list(read(rule, "ports")).map((port) => read(port, "port"))

/** Checks the requirements that apply to the Pods of both the service and the migration. */
const checkPod = (manifest: unknown, secret: string) => {
  const pod = read(podOf(manifest), "spec")
  const [, user, group] = /^USER (\d+):(\d+)$/m.exec(readFileSync(join(projectFolder, "Dockerfile"), "utf8")) ?? []
  assert.deepEqual(read(pod, "securityContext"), {
    runAsNonRoot: true,
    runAsUser: Number(user),
    runAsGroup: Number(group),
    fsGroup: Number(group),
    seccompProfile: { type: "RuntimeDefault" },
  })
  assert.equal(read(pod, "automountServiceAccountToken"), false)
  assert.equal(list(read(pod, "containers")).length, 1)
  assert.deepEqual(read(containerOf(manifest), "securityContext"), {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  })
  for (const resource of ["requests", "limits"]) {
    assert.ok(read(containerOf(manifest), "resources", resource, "memory") !== undefined)
  }

  const mounts = list(read(containerOf(manifest), "volumeMounts"))
  const writable = mounts.filter((mount) => read(mount, "readOnly") !== true)
  assert.deepEqual(writable.map((mount) => read(mount, "mountPath")), ["/tmp"])
  const volumes = list(read(pod, "volumes"))
  for (const mount of mounts) assert.ok(volumes.some((volume) => read(volume, "name") === read(mount, "name")))
  assert.ok(volumes.some((volume) => read(volume, "emptyDir", "sizeLimit") !== undefined))

  const mounted = volumes.map((volume) => read(volume, "secret")).filter((volume) => volume !== undefined)
  assert.deepEqual(mounted.map((volume) => read(volume, "secretName")), [secret])
  // Readable by owner and group, inaccessible to others, and writable by nobody.
  assert.equal(read(mounted[0], "defaultMode"), 0o440)
  const mountPath = read(mounts.find((mount) => read(mount, "name") === "secrets"), "mountPath")
  const settings = list(read(mounted[0], "items")).map((item) => String(read(item, "path")))
  assert.deepEqual(
    Object.entries(environmentOf(manifest)).filter(([name]) => name.endsWith("_FILE")),
    settings.map((setting) => [`${setting}_FILE`, `${mountPath}/${setting}`]),
  )
}

/**
 * Returns the problems that the service would report about a Pod's settings. Secrets are replaced by example values.
 */
const findProblems = (environment: Readonly<Record<string, unknown>>) => {
  const settings = Object.entries(environment).map(([name, value]) => {
    const secret = name.replace(/_FILE$/, "")
    return secret === name ? [name, value] : [secret, settingDefinitions[secret]?.example]
  })
  const provider = ConfigProvider.fromUnknown(Object.fromEntries(settings))
  return Effect.runPromise(Effect.provideService(findInvalidSettings, ConfigProvider.ConfigProvider, provider))
}

/**
 * Checks what must be true of every rendered chart. The paths of the probes must exist on the running service at
 * `origin`.
 */
const checkCommon = async (manifests: Manifests, origin: string) => {
  const deployment = manifests["Deployment tickerline"]
  checkPod(deployment, "tickerline")
  assert.deepEqual(Object.keys(manifests).filter((name) => name.startsWith("Secret ")), [])

  const strategy = read(deployment, "spec", "strategy", "rollingUpdate")
  assert.deepEqual(strategy, { maxSurge: 1, maxUnavailable: 0 })
  assert.equal(list(read(podOf(deployment), "spec", "topologySpreadConstraints")).length, 2)

  const environment = environmentOf(deployment)
  assert.deepEqual(await findProblems(environment), [])
  assert.equal(environment["BASE_URL"], "https://api.example.com")
  const [, delay = ""] = /^(\d+) seconds$/.exec(String(environment["SHUTDOWN_DELAY"])) ?? []
  // docs/operations/deployment.md: 45 seconds plus SHUTDOWN_DELAY.
  assert.equal(read(podOf(deployment), "spec", "terminationGracePeriodSeconds"), Number(delay) + 45)
  const readiness = read(containerOf(deployment), "readinessProbe")
  // docs/operations/upgrades.md: the check interval times the number of failed checks, plus one second.
  const notice = Number(read(readiness, "periodSeconds")) * Number(read(readiness, "failureThreshold")) + 1
  assert.ok(Number(delay) > notice, `SHUTDOWN_DELAY of ${delay} s is too short for a check that takes ${notice} s`)

  const ports = list(read(containerOf(deployment), "ports")).map((
    port,
  ) => [read(port, "name"), read(port, "containerPort")])
  const settings = { http: environment["PORT"], metrics: environment["METRICS_PORT"] }
  assert.deepEqual(
    ports,
    Object.entries(settings).flatMap(([name, port]) => port === undefined ? [] : [[name, Number(port)]]),
  )
  const expectedProbes = {
    startupProbe: "/health/live",
    livenessProbe: "/health/live",
    readinessProbe: "/health/ready",
  }
  for (const [probe, path] of Object.entries(expectedProbes)) {
    const request = read(containerOf(deployment), probe, "httpGet")
    assert.deepEqual(request, { path, port: "http" })
    assert.equal((await fetch(`${origin}${path}`)).status, 200)
  }

  const labels = labelsOf(deployment)
  assert.ok(isSelected(read(deployment, "spec", "selector", "matchLabels"), labels))
  const service = manifests["Service tickerline"]
  assert.ok(isSelected(read(service, "spec", "selector"), labels))
  assert.deepEqual(list(read(service, "spec", "ports")).map((port) => read(port, "targetPort")), ["http"])
}

/** Checks the chart rendered with only the required values. */
const checkRequired = (manifests: Manifests) => {
  const deployment = manifests["Deployment tickerline"]
  assert.equal(read(deployment, "spec", "replicas"), 2)
  assert.equal(read(containerOf(deployment), "image"), `registry.example/tickerline:${packageJson.version}`)
  assert.deepEqual(Object.keys(manifests).toSorted(), [
    "Deployment tickerline",
    "Job tickerline-migration",
    "NetworkPolicy tickerline",
    "NetworkPolicy tickerline-migration",
    "PodDisruptionBudget tickerline",
    "Service tickerline",
    "Service tickerline-metrics",
    "ServiceAccount tickerline",
  ])
  checkMigrationAndPolicies(manifests, "monitoring")
  const egress = list(read(manifests["NetworkPolicy tickerline"], "spec", "egress"))
  assert.deepEqual(egress.map(portsOf), [[53, 53], [5432]])
}

/**
 * Checks the migration Job, the NetworkPolicies, the PodDisruptionBudget and the metrics, all of which are enabled by
 * default.
 */
const checkMigrationAndPolicies = (manifests: Manifests, metricsNamespace: string) => {
  const deployment = manifests["Deployment tickerline"]
  const job = manifests["Job tickerline-migration"]
  checkPod(job, "tickerline-owner")
  assert.equal(read(containerOf(job), "image"), read(containerOf(deployment), "image"))
  assert.deepEqual(read(containerOf(job), "args"), ["grant", "tickerline_service"])
  assert.equal(read(job, "metadata", "annotations", "helm.sh/hook"), "pre-install,pre-upgrade")
  assert.equal(read(podOf(job), "spec", "serviceAccountName"), undefined)

  const policy = manifests["NetworkPolicy tickerline"]
  const migrationPolicy = manifests["NetworkPolicy tickerline-migration"]
  for (const [one, own, other] of [[policy, deployment, job], [migrationPolicy, job, deployment]]) {
    const selector = read(one, "spec", "podSelector", "matchLabels")
    assert.ok(isSelected(selector, labelsOf(own)) && !isSelected(selector, labelsOf(other)))
    assert.deepEqual(read(one, "spec", "policyTypes"), ["Ingress", "Egress"])
  }
  assert.equal(read(migrationPolicy, "spec", "ingress"), undefined)
  assert.ok(Number(read(migrationPolicy, "metadata", "annotations", "helm.sh/hook-weight")) < 0)
  const [api, metrics, ...others] = list(read(policy, "spec", "ingress"))
  assert.deepEqual([portsOf(api), portsOf(metrics), others], [["http"], ["metrics"], []])
  const [namespace] = list(read(metrics, "from", 0, "namespaceSelector", "matchExpressions"))
  assert.deepEqual(namespace, { key: "kubernetes.io/metadata.name", operator: "In", values: [metricsNamespace] })

  const budget = read(manifests["PodDisruptionBudget tickerline"], "spec")
  assert.ok(isSelected(read(budget, "selector", "matchLabels"), labelsOf(deployment)))
  assert.equal(read(budget, "maxUnavailable"), 1)
  const metricsService = read(manifests["Service tickerline-metrics"], "spec")
  assert.ok(isSelected(read(metricsService, "selector"), labelsOf(deployment)))
  for (const selected of ["Service tickerline", "Service tickerline-metrics"]) {
    assert.ok(!isSelected(read(manifests[selected], "spec", "selector"), labelsOf(job)))
  }
  assert.equal(environmentOf(deployment)["METRICS_PORT"], String(read(metricsService, "ports", 0, "port")))
}

/** Checks the chart rendered with `everything`. */
const checkEverything = (manifests: Manifests) => {
  checkMigrationAndPolicies(manifests, "observability")
  const deployment = manifests["Deployment tickerline"]
  assert.equal(read(containerOf(deployment), "image"), `registry.example/tickerline@${digest}`)
  assert.equal(read(deployment, "spec", "replicas"), undefined)
  assert.equal(read(manifests["HorizontalPodAutoscaler tickerline"], "spec", "scaleTargetRef", "name"), "tickerline")
  const environment = environmentOf(deployment)
  assert.equal(environment["PRICE_PER_GB_MICRODOLLARS"], "10000000")
  assert.equal(environment["DATABASE_POOLER_PREPARES"], "true")
  assert.equal(environment["WEBHOOKS"], "on")
  assert.equal(environment["OTEL_SERVICE_NAME"], "tickerline")
  // The migration uses the same TLS settings as the service, but connects to PostgreSQL directly, not through a pooler.
  assert.deepEqual(Object.keys(environmentOf(manifests["Job tickerline-migration"])), [
    "DATABASE_URL_FILE",
    "PGSSLMODE",
  ])

  const policy = read(manifests["NetworkPolicy tickerline"], "spec")
  assert.deepEqual(read(policy, "ingress", 0, "from"), everything.networkPolicy.apiPeers)
  const egress = list(read(policy, "egress"))
  assert.deepEqual(egress.map(portsOf), [[53, 53], [5432, 6432], [587], [4318], [8443], [443], [8444]])
  assert.deepEqual(read(egress[1], "to"), [databasePeer])

  const ingress = read(manifests["Ingress tickerline"], "spec")
  assert.deepEqual(read(ingress, "tls"), [{ hosts: ["api.example.com"], secretName: "certificate" }])
  assert.equal(read(ingress, "rules", 0, "host"), "api.example.com")
  const backend = read(ingress, "rules", 0, "http", "paths", 0, "backend", "service")
  assert.deepEqual(backend, { name: "tickerline", port: { name: "http" } })

  const monitor = manifests["ServiceMonitor tickerline"]
  const monitored = ["Service tickerline-metrics", "Service tickerline"].filter((service) =>
    isSelected(read(monitor, "spec", "selector", "matchLabels"), read(manifests[service], "metadata", "labels"))
  )
  assert.deepEqual(monitored, ["Service tickerline-metrics"])
  const metricsService = manifests["Service tickerline-metrics"]
  assert.equal(read(monitor, "spec", "endpoints", 0, "port"), read(metricsService, "spec", "ports", 0, "name"))
  // The alert rules select metrics by `job="tickerline"`.
  assert.equal(read(metricsService, "metadata", "labels", String(read(monitor, "spec", "jobLabel"))), "tickerline")
}

/** Checks the chart rendered with `nothing`. */
const checkNothing = (manifests: Manifests) => {
  assert.deepEqual(Object.keys(manifests).toSorted(), ["Deployment tickerline", "Service tickerline"])
  assert.equal(read(podOf(manifests["Deployment tickerline"]), "spec", "serviceAccountName"), "default")
  assert.equal(environmentOf(manifests["Deployment tickerline"])["METRICS_PORT"], undefined)
}

/** Values that the chart must accept, each with the check to run on the manifests. */
const accepted = [
  { name: "required", values: required, check: checkRequired },
  { name: "everything", values: everything, check: checkEverything },
  { name: "nothing", values: nothing, check: checkNothing },
]

/** Checks the Helm chart and its rendered manifests. */
export const helmChart: Judge = {
  name: "helm-chart",
  programs: ["helm", "kubernetes-validate"],
  run: async ({ folder, origin }) => {
    const render = async (name: string, values: unknown) => {
      // JSON is a subset of YAML.
      const valuesFile = join(folder, `values-${name}.yaml`)
      await writeFile(valuesFile, JSON.stringify(values))
      const args = ["template", "tickerline", chart, "--values", valuesFile]
      return { valuesFile, ...await runProgram("helm", args) }
    }
    const findings: Array<string> = []
    for (const { check, name, values } of accepted) {
      const { code, output, valuesFile } = await render(name, values)
      findings.push(...await runForFindings("helm", ["lint", "--strict", chart, "--values", valuesFile]))
      if (code !== 0) {
        findings.push(`The values "${name}" are refused: ${output}`)
        continue
      }
      // Kubernetes has no schemas for the custom resources of the Prometheus operator.
      const known = output.split(/^---$/m).filter((text) => !text.includes("kind: ServiceMonitor")).join("---\n")
      const file = join(folder, `manifests-${name}.yaml`)
      await writeFile(file, known)
      for (const version of kubernetesVersions) {
        const args = ["--strict", "--no-warn", "--quiet", "--kubernetes-version", version, file]
        findings.push(...await runForFindings("kubernetes-validate", args))
      }
      try {
        const manifests = parseManifests(output)
        await checkCommon(manifests, origin)
        check(manifests)
      } catch (error) {
        findings.push(`With the values "${name}": ${error instanceof Error ? error.stack : error}`)
      }
    }
    for (const { message, values } of refused) {
      const { code, output } = await render("refused", values)
      if (code === 0 || !output.includes(message)) {
        findings.push(`${JSON.stringify(values)} must be refused with "${message}", but:\n${output.slice(0, 1000)}`)
      }
    }
    return findings
  },
}
