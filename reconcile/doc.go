// Package reconcile runs managers: it is the shell around reconcile/engine.
//
// A Manager knows one kind of resource: it observes, decides (purely) and acts.
// The Loop owns everything else: when to look, one turn at a time per resource,
// durable attempt counts, back-off, deadlines, escalation from child to parent,
// history, and the triggers that a change raises. A manager never writes a row.
//
// What is desired of a root is set by its owner through the store (in the
// owner's own transaction where the store is SQLite), followed by Loop.Kick.
// What is desired of a child is set by its parent's Decision.
package reconcile
