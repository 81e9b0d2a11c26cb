/** The topics that news can have, with their texts and tags. */

interface NewsTopic {
  readonly tags: ReadonlyArray<string>
  /** The SEC form on which the company files the news, or null if it is not filed. */
  readonly form: string | null
  /** The part of the headline that follows the company name. */
  readonly title: string
  readonly summary: string
}

/** News topics by name. Some texts contain characters that have to be escaped in SQL patterns, CSV files and HTML. */
export const newsTopics = {
  trial: {
    tags: ["fda", "phase-2", "clinical-trial"],
    form: "8-K",
    title: "reports positive Phase 2 results",
    summary: "The made-up study met its endpoint: 62.5% of patients improved, against 31_25 on placebo.",
  },
  contract: {
    tags: ["contract"],
    form: "8-K",
    title: `wins "Big Dam" contract worth more than its market value`,
    summary: "The invented customer may end the agreement at any time.",
  },
  partnership: {
    tags: ["partnership", "ai"],
    form: null,
    title: "teams up with an imaginary AI company",
    summary: "A memorandum that binds nobody was signed; the parties will talk.",
  },
  earnings: {
    tags: ["earnings"],
    form: "8-K",
    title: "reports quarterly results",
    summary: "Revenue and loss of this fictional quarter differ from what nobody expected.",
  },
  merger: {
    tags: ["merger", "letter-of-intent"],
    form: "8-K",
    title: "signs letter of intent to merge",
    summary: "The other company is as fictional as this one; holders would keep 0.3% of 1.1 parts.",
  },
  crypto: {
    tags: ["crypto", "treasury"],
    form: "6-K",
    title: "adopts a treasury of invented coins",
    summary: "The board's decision was unanimous & swift.",
  },
  promotion: {
    tags: ["social-media", "low-float"],
    form: null,
    title: "is praised in chat groups that nobody signs",
    summary: "No filing and no announcement explains the volume.",
  },
} as const satisfies { readonly [name: string]: NewsTopic }

/** The name of a news topic. */
export type NewsTopicName = keyof typeof newsTopics

/** The topics that are announced by the companies themselves. */
export const companyTopicNames = ["trial", "contract", "partnership", "earnings", "merger", "crypto"] as const
