// Package campaign breaks the ledger on a three-broker Apache Kafka, one fault after the other, as a seed decides, and judges
// what is left.
//
// A round is a cluster with topics of its own, an upstream that is itself transactional, and one to four processes of the
// command's binary. Its faults come out of a bag that holds every kind, shuffled by the seed; number n of a seed is the same
// fault in every run. A fault is over when each partition has committed something that was written after it. At the end of a
// round the whole history is judged three times: by the verify command, by balances that the generator kept, and by counts of
// outcomes that the upstream kept.
//
// CAMPAIGN_FAULTS is how many faults to run (60), CAMPAIGN_SEED the seed (1), CAMPAIGN_RESULTS a file of results to go on
// with, CAMPAIGN_MINUTES when to stop and leave the rest to the next run. Results of rounds that were not judged do not count.
// CAMPAIGN_KINDS takes some kinds alone, separated by commas, and keeps no results; PROCESSOR is a binary to break instead of the
// one of this tree.
package campaign
