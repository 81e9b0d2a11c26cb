/** All scenarios in the order of their execution. */
import type { Scenario } from "./Scenario.ts"
import * as Failover from "./scenarios/Failover.ts"
import * as Parts from "./scenarios/Dependencies.ts"
import * as Processes from "./scenarios/Processes.ts"
import * as Shared from "./scenarios/SharedState.ts"

export const scenarios: ReadonlyArray<Scenario> = [
  Processes.normalOperation,
  Processes.twoProcessScaling,
  Processes.processKilled,
  Processes.processStopped,
  Processes.poolersRestarted,
  Shared.keyRevoked,
  Shared.wrongKeys,
  Shared.sharedRateLimits,
  Shared.emailSenderKilled,
  Parts.datasetReplaced,
  Failover.primaryKilled,
  Failover.primaryLost,
  Failover.switchover,
  Parts.standbyBehind,
  Parts.standbyConflicts,
  Parts.standbyKilled,
  Parts.etcdLost,
  Parts.etcdLostWithoutFailsafe,
  Failover.primaryLostAsynchronously,
]
