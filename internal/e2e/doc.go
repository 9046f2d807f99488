// Package e2e proves the whole by running it: real processes that are killed, a
// real server that lies, and bad input as it arrives over the network. It holds
// tests only.
//
// STEADY_SEED repeats the random choices that a run printed; STEADY_KILLS sets
// how many processes the kill test ends.
package e2e
