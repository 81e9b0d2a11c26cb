/**
 * Defines the names of enumerations in the OpenAPI document. Code generators create a single type for a named
 * enumeration. Without a name, they would create a separate type for every field and parameter that uses the same
 * values.
 */
import { changelogEntryTypes } from "../../contract/ChangelogEntry.ts"
import { listFormats } from "../../contract/rows/ListFormats.ts"
import { tiers } from "../../contract/rules/EndpointAnnotations.ts"
import { apiKeyStatuses, invoiceLineKinds } from "../../contract/endpoints/account.ts"
import { changeFeedDatasets, changeKinds } from "../../contract/endpoints/changes.ts"
import {
  conversionPriceTypes,
  convertibleTypes,
  securityTypes,
  warrantTypes,
} from "../../contract/endpoints/dilution-data.ts"
import { complianceStatuses, deficiencyTypes, noticeTypes } from "../../contract/endpoints/nasdaq-compliance.ts"
import { ownerTypes } from "../../contract/endpoints/ownership.ts"
import { riskLevels } from "../../contract/endpoints/pump-and-dump-tracker.ts"
import { registrationTypes } from "../../contract/endpoints/registrations.ts"
import { screenerSorts } from "../../contract/endpoints/screener.ts"
import { splitActions } from "../../contract/endpoints/split-status.ts"
import { timelineEventTypes } from "../../contract/endpoints/timeline.ts"

/** The values of each named enumeration. */
export const enumerations: Readonly<Record<string, ReadonlyArray<string>>> = {
  ApiKeyStatus: apiKeyStatuses,
  ChangeDataset: changeFeedDatasets,
  ChangeKind: changeKinds,
  ChangelogEntryType: changelogEntryTypes,
  ComplianceStatus: complianceStatuses,
  ConversionPriceType: conversionPriceTypes,
  ConvertibleType: convertibleTypes,
  DeficiencyType: deficiencyTypes,
  InvoiceLineKind: invoiceLineKinds,
  ListFormat: listFormats,
  NoticeType: noticeTypes,
  OwnerType: ownerTypes,
  RegistrationType: registrationTypes,
  RiskLevel: riskLevels,
  ScreenerSort: screenerSorts,
  SecurityType: securityTypes,
  SplitAction: splitActions,
  Tier: tiers,
  TimelineEventType: timelineEventTypes,
  WarrantType: warrantTypes,
}
