// Package engine is the pure half of the reconcile framework: the words of a
// decision, the policy of a kind, the queue, and the turn that computes what to
// record. It reads no clock, starts no goroutine and touches no store, so the
// same code runs in production, in a simulation and in a replay.
//
// One turn of a resource:
//
//	Queue.Take -> Before -> (observe) -> (decide) -> Turn -> commit
//	                                       └ if the record holds an Act: act -> AfterAct -> commit
//
// A row's counters are keyed by its generation, which rises whenever what is
// desired changes; attempts are counted when an act begins, so that a crash
// loop is bounded as well.
package engine
