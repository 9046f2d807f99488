// Package mutant holds faults that somebody could make in the planner, the
// gates, the machine of a host, the reducer of the agent and in trust, and shows
// that the simulator finds each. No source holds one: a fault is a fragment of a
// file and what to put in its place, and Plant makes an overlay for the build in
// which one binary holds all of them, each behind a switch.
//
// All of it is tests.
package mutant
