/**
 * The names of enumerations in the OpenAPI document. Code generators turn each into one type, instead of one type for
 * every field and parameter that has these values.
 */
import { changelogEntryTypes } from "../changelog/ChangelogEntry.ts"
import { listFormats } from "../rows/ListFormats.ts"
import { tiers } from "../rules/EndpointAnnotations.ts"
import { apiKeyStatuses, invoiceLineKinds } from "../v1/account/Api.ts"
import { changeFeedDatasets, changeKinds } from "../v1/changes/Api.ts"
import { conversionPriceTypes, convertibleTypes, securityTypes, warrantTypes } from "../v1/dilution-data/Api.ts"
import { complianceStatuses, deficiencyTypes, noticeTypes } from "../v1/nasdaq-compliance/Api.ts"
import { ownerTypes } from "../v1/ownership/Api.ts"
import { riskLevels } from "../v1/pump-and-dump-tracker/Api.ts"
import { registrationTypes } from "../v1/registrations/Api.ts"
import { screenerSorts } from "../v1/screener/Api.ts"
import { splitActions } from "../v1/split-status/Api.ts"
import { timelineEventTypes } from "../v1/timeline/Api.ts"

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
