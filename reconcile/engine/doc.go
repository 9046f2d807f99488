// Package engine is the pure half of the reconcile framework: it reads no clock,
// starts no goroutine and touches no store, so that the same code runs in
// production, in a simulation and in a replay.
//
// Reconcilers use [Resource], [View] and [Child]; the decisions [IsConverged], [Do],
// [Wait], [WaitUntil] and [Fail]; [Reason] and [Code]; the intents [Upsert] and
// [Delete]; and [Policy].
//
// Stores keep [Row], [Transition] and [Raise], and call [ApplyIntent], [Expand] and
// [History.Drop], so that all of them agree.
//
// Controllers take one turn of a resource so:
//
//	Queue.Take -> BeforeObserve -> (observe) -> (decide) -> AfterDecide -> commit
//	                                              └ if the record holds an Act: act -> AfterAct -> commit
//
// A row's counters are keyed by its generation, which rises whenever what is
// desired changes; attempts are counted when an act begins, so that a crash
// loop is bounded as well.
package engine
