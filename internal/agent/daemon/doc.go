// Package daemon is the agent's runtime on a host. One goroutine owns the host's state;
// workers (dispatch, events, probes, prepare, claim, the reconcile loop) only send it
// inputs, and the reducer of internal/core/agent decides. For every input there is one
// SQLite transaction that holds the new state, the events to report and what is now
// desired of the host's generation; effects are carried out after it is durable.
//
// What the server says is a hint. Effects are built from trust.Verified values
// and from the host's own durable state, never from a reply.
package daemon
