// Package metrics holds what a heartbeat carries about a host as it was measured:
// its load, memory, disks, network and GPUs, and what each workspace uses. A
// value that could not be had is absent, never zero.
package metrics
