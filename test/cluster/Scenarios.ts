/** All scenarios, in the order in which they run. */
import type { Scenario } from "./Scenario.ts"
import * as Failover from "./scenarios/Failover.ts"
import * as Dependencies from "./scenarios/StandbysAndEtcd.ts"
import * as Processes from "./scenarios/Processes.ts"
import * as SharedState from "./scenarios/SharedState.ts"

/** The scenarios that `npm run test:cluster` runs. */
export const clusterScenarios: ReadonlyArray<Scenario> = [
  Processes.normalOperation,
  Processes.twoProcessScaling,
  Processes.processKilled,
  Processes.processStopped,
  Processes.poolersRestarted,
  SharedState.keyRevoked,
  SharedState.wrongKeysBlocked,
  SharedState.sharedRateLimits,
  SharedState.emailSenderKilled,
  Dependencies.datasetReplaced,
  Failover.primaryKilled,
  Failover.primaryLost,
  Failover.switchover,
  Dependencies.standbyBehind,
  Dependencies.standbyConflicts,
  Dependencies.standbyKilled,
  Dependencies.etcdLost,
  Dependencies.etcdLostWithoutFailsafe,
  Failover.primaryLostAsynchronously,
]
